"""Decentralised Metropolis-adjusted HMC (Kungurtsev, Cobb, Javidi, Jalaian 2023).

With Metropolis weights W, step e, momenta m_i ~ N(0, I), slopes g_i = -grad f_i(b_i) and bends
q_i = m_i' Hess f_i(b_i) m_i at the base b_i, one cycle is

    s_i' = sum_j W_ij (s_j + g_j - g_j of the cycle before)        tracked slope, 0 at the start (1)
    r_i' = sum_j W_ij (r_j + q_j - q_j of the cycle before)        tracked bend, 0 at the start  (2)
    y_i  = b_i + e m_i + c s_i'                                    candidate                     (3)
    x_i  = y_i with probability min(1, exp(-D_i)), else b_i        the draw                      (4)
    b_i' = sum_j W_ij x_j                                          the next base                 (5)

where the mixes of (1) and (2), and that of (5), may each be repeated. In the three forms

    published               c = e^2,     D_i = e^2 (r_i' + |s_i'|^2) / 2                         (6)
    published-unadjusted    c = e^2,     D_i = 0: as the publication does in its burn-in         (7)
    corrected               c = e^2 / 2, D_i = 0                                                 (8)

s_i follows the average slope, so that the average of the b_i takes Langevin steps. Of length
e^2 / 2N they have the noise of (3); the drift of (6) and (7) is twice theirs, and the draws have
the square of the posterior as their density: half its temperature. The half step of the leapfrog
method makes (8). (4) does not mend that: each agent decides alone, by the energy of the average
potential, on a candidate whose noise the other agents then average away. D_i of (6) is also not the
change of energy of the step (3), which is e^2 (r_i' - |s_i'|^2) / 2 + O(e^3); for the leapfrog
method it is O(e^3), and to the order of (6) nothing is to be rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Inbox
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler, no_info
from starlings.samplers.units import Units

FORMS = ("corrected", "published", "published-unadjusted")
"""The forms of the step and of the decision, eqs. (6) to (8)."""


class Tracked(NamedTuple):
    """What is tracked over the network, or an agent's own part of it."""

    slope: Any
    """s_i, or g_i."""
    bend: Any
    """r_i, or q_i."""


class MAHMCState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    base: Any
    """b_i."""
    momentum: Any
    """m_i."""
    own: Tracked
    """g_i and q_i, which are not sent."""
    tracked: Tracked
    """s_i and r_i."""
    outgoing: Any
    """What is being mixed, and sent: d numbers and one more."""


@pytree
@dataclass(frozen=True)
class MAHMC(Sampler):
    """Tracked gradients, one step of Hamiltonian dynamics, and gossip on positions.

    Args:
        step_size: e.
        form: "corrected", which draws from the posterior; "published", at half its temperature; or
            "published-unadjusted", the same without decisions.
        tracking_rounds: rounds in which slopes and bends are mixed in each cycle.
        consensus_rounds: rounds in which positions are mixed in each cycle.
    """

    step_size: Any
    form: str = choice(default="corrected")
    tracking_rounds: int = choice(default=1)
    consensus_rounds: int = choice(default=1)

    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="Decentralised MAHMC",
        exchanged="in turn: tracked slope and bend; position",
        floats_per_parameter=1,
        floats_besides=1,
        bias="corrected: second order in the step, agents over-dispersed; published: half the "
        "temperature, so that variances are halved",
        reference="Kungurtsev, Cobb, Javidi, Jalaian 2023",
        masked_as="mix",
        public_code="half the temperature; the sign of |s|^2 in the decision; repeated tracking "
        "adds the change of slopes in every repetition",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_choice(FORMS, form=self.form)
        counts = {"tracking_rounds", "consensus_rounds"}
        check_count(1, **{name: getattr(self, name) for name in counts})

    @property
    def cycle(self) -> int:
        """Rounds from one draw to the next."""
        return self.tracking_rounds + self.consensus_rounds

    def gradients_per_round(self, problem: Problem) -> float:
        """A gradient and a product with the Hessian in every cycle."""
        return 2 / self.cycle

    @property
    def drift(self) -> Any:
        """c of eqs. (6) to (8)."""
        return self.step_size**2 / (2 if self.form == "corrected" else 1)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[MAHMC]:
        """Steps e with e^2 / 2 = g / M, the length of a Langevin step."""
        return [cls(float(e), **fixed) for e in np.sqrt(2 * units.steps)]

    def init(self, agent: Agent, position: jax.Array, round: Round) -> MAHMCState:
        """Start at `position`, with nothing tracked yet."""
        nothing = Tracked(jnp.zeros_like(position), jnp.zeros((), position.dtype))
        outgoing = jnp.zeros(position.size + 1, position.dtype)
        state = MAHMCState(position, position, position, nothing, nothing, outgoing)
        return _begun(agent, round, state, position)

    def message(self, state: MAHMCState) -> jax.Array:
        """Slope and bend, or the position and a zero."""
        return state.outgoing

    def step(
        self, agent: Agent, state: MAHMCState, inbox: Inbox, round: Round
    ) -> tuple[MAHMCState, Info]:
        """One mix, of eqs. (1) and (2) or of eq. (5); what follows from the last one of each."""
        phase = (round.index - 1) % self.cycle
        state = state._replace(outgoing=inbox.mix)
        kind = jnp.where(phase == self.tracking_rounds - 1, 1, 0)
        kind = jnp.where(phase == self.cycle - 1, 2, kind)
        following = (
            lambda state: state,
            partial(self._decided, round),
            lambda state: _begun(agent, round, state, state.outgoing[:-1]),  # (5)
        )
        return jax.lax.switch(kind, following, state), no_info(state.position)

    def _decided(self, round: Round, state: MAHMCState) -> MAHMCState:
        """Eqs. (3) and (4), with the slope and the bend that were mixed."""
        tracked = Tracked(state.outgoing[:-1], state.outgoing[-1])
        candidate = (
            state.base + self.step_size * state.momentum + self.drift * tracked.slope  # (3)
        )
        position = candidate
        if self.form == "published":
            size = tracked.bend + tracked.slope @ tracked.slope
            change = self.step_size**2 * size / 2  # (6)
            threshold = jax.random.exponential(round.batch_key(), dtype=change.dtype)
            is_taken = (change <= threshold) & jnp.all(jnp.isfinite(candidate))
            position = jnp.where(is_taken, candidate, state.base)  # (4)
        outgoing = jnp.append(position, 0.0)
        return state._replace(position=position, tracked=tracked, outgoing=outgoing)


def _begun(agent: Agent, round: Round, state: MAHMCState, base: jax.Array) -> MAHMCState:
    """The beginning of a cycle from a base: momentum, slope and bend, and what of them is mixed."""
    momentum = round.private_noise(base)
    slope, turned = jax.jvp(agent.gradient, (base,), (momentum,))
    own = Tracked(-slope, momentum @ turned)
    changed = jax.tree.map(lambda s, new, old: s + new - old, state.tracked, own, state.own)
    outgoing = jnp.append(changed.slope, changed.bend)  # (1), (2)
    return MAHMCState(state.position, base, momentum, own, state.tracked, outgoing)

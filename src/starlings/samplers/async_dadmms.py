"""Asynchronous D-ADMMS: D-ADMMS that goes on without messages that were lost or are late.

Where D-ADMMS waits for every message, this sampler does not. Its duals belong to links instead of
agents, so that a lost message leaves one link as it was and nothing else. With r = 2 rho, d_i
neighbours of agent i, D = sum_j d_j and

    eps = 1 / (r D),     kappa = sqrt(2 eps),     B_t = w_1 + ... + w_t                       (1)

where w_t ~ N(0, I) is noise that all agents share, agent i makes in a round

    (z_ij, zeta_ij) <- half of (z_ij, zeta_ij) + what j has sent,   where it arrived          (2)
    c_i  = sum_j zeta_ij / d_i + 1,      t_i <- max(t_i, floor(c_i + 1/2))                    (3)
    x_i  = argmin_x f_i(x) + (r d_i / 2) |x|^2 - r (sum_j z_ij - d_i kappa B_{t_i})'x         (4)
    y_i  = x_i + kappa B_{t_i},          sends  2 (y_i, c_i) - (z_ij, zeta_ij)  to j          (5)

Coherent noise is a translation that all agents have in common. So y, in a frame that moves with the
noise, follows consensus ADMM without noise, on f_i(y - kappa B): a lost message delays it and does
not bias it. But then the agents take shorter steps, and the noise has to wait for them: its law is
right only if there is one w_t in each eps of Langevin time, which is what c measures. It is one
more coordinate under a force of 1 in total, and goes eps of Langevin time in a tick. Nobody needs
to know how many messages are lost.

Without loss the clock makes one tick a round, and all this is D-ADMMS with coherent noise. With it
there are `pace` ticks in a round, on average (see `network.faults`), and what is recorded is

    s_i = x_i - sqrt(eps (1 - pace_i / 2)) w_{t_i + 1},     pace_i = t_i / (rounds so far)    (6)

the half-noise output of D-ADMMS, where pace_i is 1.

If the pace is known, the clock can be left out: with `pace` = a every round is a tick, and

    t_i = the number of the round,     kappa = sqrt(2 eps a),     pace_i = a                  (7)

Where it is known wrongly, so is the variance of the draws, by the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Problem
from starlings.problem.agent import Agent
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.random.ticks import noise_between
from starlings.samplers.base import Card, Info, Sampler, UnitPosterior
from starlings.solvers.proximal import prepared, proximal_point


class AsyncDADMMSState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    place: Any
    """(y_i, c_i), (dim + 1,)."""
    links: Any
    """(z_ij, zeta_ij) in the slot of each neighbour j, (slot, dim + 1); 0 where there is none."""
    tick: Any
    """t_i."""
    frame: Any
    """B_{t_i}."""
    upcoming: Any
    """w_{t_i + 1}."""


@pytree
@dataclass(frozen=True)
class AsyncDADMMS(Sampler):
    """Noisy consensus ADMM for links that lose or delay messages.

    Args:
        rho: the penalty, as in `DADMMS`.
        pace: None (the default) for noise that follows a clock, eq. (3). A number for noise in
            every round, eq. (7); it has to be that of `Network.pace`.
    """

    rho: Any
    pace: Any = None

    reads_each = True
    card: ClassVar[Card] = Card(
        title="Asynchronous D-ADMMS",
        exchanged="position and clock, another message for each neighbour",
        floats_per_parameter=1,
        floats_besides=1,
        bias="second order in the step 1/(4 rho |E|), whatever is lost",
        reference="starlings",
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)
        if self.pace is not None:
            check_positive(pace=self.pace)

    @classmethod
    def tuned(cls, unit: UnitPosterior, **choices: Any) -> AsyncDADMMS:
        """A sampler with the penalty of `DADMMS`."""
        return cls(unit.rho, **choices)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse networks without edges, on which no clock goes on."""
        if network.num_edges == 0:
            raise ValueError(
                "Asynchronous D-ADMMS needs a network with edges; without them take `DADMMS`."
            )

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of (4), if the potential is quadratic."""
        return prepared(agent, 2 * self.rho * agent.degree)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> AsyncDADMMSState:
        """Start at `position`, with z_ij = x_i, tick 0 and a clock that stands at 0."""
        place = jnp.append(position, 0.0)
        exists = jnp.arange(agent.slots)[:, None] < agent.degree
        return AsyncDADMMSState(
            position=position,
            place=place,
            links=jnp.where(exists, place, 0.0),
            tick=jnp.zeros((), jnp.int32),
            frame=jnp.zeros_like(position),
            upcoming=round._replace(index=1).shared_noise(position),
        )

    def message(self, state: AsyncDADMMSState) -> jax.Array:
        """What is sent in (5), in the slot of each neighbour."""
        return 2 * state.place - state.links

    def step(
        self, agent: Agent, state: AsyncDADMMSState, inbox: Inbox, round: Round
    ) -> tuple[AsyncDADMMSState, Info]:
        """One round of eqs. (2) to (5)."""
        averaged = (state.links + inbox.each) / 2
        links = jnp.where(inbox.arrived[:, None], averaged, state.links)  # (2)
        *_, total_clock = total = links.sum(axis=0)
        clock = total_clock / jnp.maximum(agent.degree, 1) + 1  # (3)
        moved = _ticked(state, self._wanted_tick(state, clock, round), round)
        shift = self._kick(agent) * moved.frame
        linear = 2 * self.rho * (total[:-1] - agent.degree * shift)
        curvature = 2 * self.rho * agent.degree
        solution = proximal_point(agent, curvature, linear, start=state.position)  # (4)
        place = jnp.append(solution.point + shift, clock)  # (5)
        info = Info(residual=solution.residual, iterations=solution.iterations)
        return moved._replace(position=solution.point, place=place, links=links), info

    def draw(self, agent: Agent, state: AsyncDADMMSState, upcoming: Round) -> jax.Array:
        """s_i of eq. (6)."""
        pace = self._ticks_per_round(state, upcoming) if self.pace is None else self.pace
        spread = jnp.sqrt(self._step(agent) * (1 - pace / 2))
        return state.position - spread * state.upcoming  # (6)

    def _ticks_per_round(self, state: AsyncDADMMSState, upcoming: Round) -> jax.Array:
        """pace_i of eq. (6), which is 1 before the first round."""
        rounds = jnp.maximum(jnp.asarray(upcoming.index - 1, state.position.dtype), 1)
        return jnp.minimum(state.tick / rounds, 1)

    def _step(self, agent: Agent) -> Any:
        """eps of eq. (1)."""
        return 1 / (2 * self.rho * jnp.maximum(agent.total_degree, 1))

    def _kick(self, agent: Agent) -> Any:
        """kappa of eq. (1) or (7)."""
        return jnp.sqrt(2 * self._step(agent) * (1.0 if self.pace is None else self.pace))

    def _wanted_tick(self, state: AsyncDADMMSState, clock: jax.Array, round: Round) -> Any:
        """The new t_i of eq. (3) or (7)."""
        if self.pace is not None:
            return jnp.asarray(round.index, jnp.int32)
        return jnp.maximum(state.tick, jnp.floor(clock + 0.5).astype(jnp.int32))


def _ticked(state: AsyncDADMMSState, wanted: Any, round: Round) -> AsyncDADMMSState:
    """The state with the frame of the tick `wanted`."""
    between = (round.network_key, state.tick, wanted, state.upcoming)
    passed, upcoming = noise_between(*between)
    return state._replace(tick=wanted, frame=state.frame + passed, upcoming=upcoming)

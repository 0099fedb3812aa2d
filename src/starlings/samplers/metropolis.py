"""Metropolis without a coordinator: all agents share one point, and decide on it together.

A candidate is drawn from a seed that all agents share, so that nothing about it has to be sent:

    x' = sqrt(1 - b^2) x + b w,     w ~ N(0, I)                                             (1)

which is reversible with respect to N(0, I). With its share s_i = d_i / sum_j d_j of that reference
(the share of the posterior that `tuning` gives it), agent i needs no more than the change of

    phi_i(x) = f_i(x) - s_i |x|^2 / 2                                                       (2)

factorised   every agent draws its own u_i and rejects unless log u_i < phi_i(x) - phi_i(x').
             The candidate is taken if no agent rejects: a `FloodedVote`, `flood_rounds` rounds
             for each candidate. No agent learns the value of another.                      (3)
sum          the changes are added by a `ClimbingSum`, and one u that all agents share decides:
             log u < - sum_i change_i. This takes twice as many rounds for each candidate, and
             more candidates are taken, for
             prod_i min(1, exp(-change_i)) <= min(1, exp(-sum_i change_i)).                 (4)

Both leave exp(-sum_i f_i) exactly invariant, whatever b. The sum is worth its rounds where the
factorised acceptance is less than half of its own: with many agents, or agents whose potentials
change in opposite directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Inbox, Network
from starlings.network.agreement import Agreement, ClimbingSum, FloodedVote
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PilotLength, Sampler, UnitPosterior, no_info
from starlings.samplers.units import Units

DECISIONS = ("factorised", "sum")
"""The ways in which agents decide on a candidate, eqs. (3) and (4)."""
LENGTHS = 2.0 ** -(np.arange(1, 13) / 2)
"""Step lengths b that tuning tries, from 0.7 to 1/64, in units of the posterior's standard
deviation. At 1, candidates do not depend on the current point, and tails heavier than Gaussian
would be missed."""
CANDIDATE_POINTS = 200
"""Number of points from which tuning tries candidates."""
STICKY_QUANTILE = 0.1
"""The quantile of the acceptance over those points by which a step length is judged: the points at
which the chain sticks."""
SPREAD = 1.25
"""Standard deviation of those points in each coordinate, in units of the posterior's: more than 1,
since chains stick in the tails."""
SMALLEST_PACE = 1e-4
"""Squared step length times acceptance below which tuning finds no step length useful."""
CAUTIOUS_LENGTH = 0.1
"""The step length that tuning takes if it finds none useful."""
LARGEST_CHANGE = 1e30
"""The change of energy that stands for infinity: sums and differences of it stay numbers."""


class MetropolisState(NamedTuple):
    """One point, one candidate, and how far the agreement on the candidate has come."""

    position: Any
    """x, the same at every agent."""
    energy: Any
    """phi_i(x)."""
    candidate: Any
    """x', the same at every agent."""
    candidate_energy: Any
    """phi_i(x')."""
    agreement: Any
    """The state of the protocol by which the agents decide."""


@pytree
@dataclass(frozen=True)
class Metropolis(Sampler):
    """Exact draws at any step: candidates from a common seed, decided by messages of neighbours.

    Made for coordinates in which the posterior is near N(0, I), such as those of `tune`.

    Args:
        step_length: b in (0, 1]; at 1 candidates are independent of the current point.
        flood_rounds: rounds in which a flood reaches every agent: the diameter of the network, or
            more. `Metropolis.on(network, step_length)` fills it in.
        decision: "factorised" (one bit) or "sum" (one number, twice the rounds).
    """

    step_length: Any
    flood_rounds: int = choice()
    decision: str = choice(default="factorised")

    common_start = True
    pilot = PilotLength(chains=64, cycles=4000, draws=125)  # candidates are cheap, often rejected
    card: ClassVar[Card] = Card(
        title="Metropolis",
        exchanged="a vote or a sum",
        floats_per_parameter=0,
        floats_besides=1,
        bias="none; slow on networks of a large diameter",
        reference="Michel, Kapfer, Krauth 2014; Cotter et al. 2013",
    )

    def __post_init__(self) -> None:
        check_positive(step_length=self.step_length)
        is_traced = isinstance(self.step_length, jax.core.Tracer)
        if not is_traced and float(self.step_length) > 1:
            raise ValueError(f"`step_length` must be in (0, 1], got {self.step_length}.")
        check_count(1, flood_rounds=self.flood_rounds)
        check_choice(DECISIONS, decision=self.decision)

    @classmethod
    def on(cls, network: Network, step_length: float, decision: str = "factorised") -> Metropolis:
        """A sampler with as many rounds for a flood as this network needs."""
        return cls(step_length, max(network.diameter, 1), decision)

    @classmethod
    def tuned(cls, unit: UnitPosterior, **choices: Any) -> Metropolis:
        """A sampler with the step length b at which b^2 times the acceptance is largest.

        Candidates start from points somewhat wider than N(0, I), which all agents draw from one
        seed; what has to be summed over the network is one number for each candidate. The
        acceptance is that at the points where the chain sticks.
        """
        decision = choices.get("decision", "factorised")
        random = np.random.default_rng(0)  # the same points at every agent
        points, noise = random.standard_normal((2, CANDIDATE_POINTS, unit.dim))
        changes = _pilot_changes(unit.agents, SPREAD * points, noise)
        parts = jnp.minimum(0.0, -changes) if decision == "factorised" else -changes
        chance = np.exp(
            np.minimum(0.0, np.asarray(unit.gossip.sum(parts, "log-ratios of densities")[0]))
        )
        pace = LENGTHS**2 * np.quantile(chance, STICKY_QUANTILE, axis=1)
        length = LENGTHS[np.argmax(pace)] if pace.max() > SMALLEST_PACE else CAUTIOUS_LENGTH
        return cls.on(unit.gossip.network, float(length), decision)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse networks on which votes and sums do not reach every agent."""
        if network.num_edges == 0 and network.size > 1:
            raise ValueError("Metropolis decides by votes or sums: it needs a network with edges.")
        if self.flood_rounds < network.diameter:
            raise ValueError(
                f"`flood_rounds` must be at least {network.diameter}, the diameter of the network, "
                f"got {self.flood_rounds}."
            )

    @property
    def cycle(self) -> int:
        """Rounds for each candidate."""
        return self.protocol.cycle

    def gradients_per_round(self, problem: Problem) -> float:
        """One value of the potential, at the candidate of every cycle; no gradient."""
        return 1 / self.cycle

    @property
    def protocol(self) -> Agreement:
        """The protocol by which the agents decide."""
        if self.decision == "factorised":
            return FloodedVote(self.flood_rounds)
        return ClimbingSum(self.flood_rounds)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[Metropolis]:
        """Step lengths b with b^2 P = g, as far as they are at most 1."""
        lengths = np.sqrt(units.grid / units.pooled)
        return [cls.on(units.network, float(b), **fixed) for b in lengths if b <= 1]

    def init(self, agent: Agent, position: jax.Array, round: Round) -> MetropolisState:
        """Start at `position`, which must be the same at every agent, with nothing to decide."""
        energy = _energy(agent, position)
        agreement = self.protocol.start(agent.index, position.dtype)
        return MetropolisState(position, energy, position, energy, agreement)

    def message(self, state: MetropolisState) -> jax.Array:
        """One number of the protocol."""
        return state.agreement.outgoing[None]

    def step(
        self, agent: Agent, state: MetropolisState, inbox: Inbox, round: Round
    ) -> tuple[MetropolisState, Info]:
        """One round of the protocol; at the end of its cycle, the decision and a new candidate."""
        agreement = self.protocol.received(state.agreement, inbox, round.index)
        state = state._replace(agreement=agreement)
        is_over = self.protocol.is_over(round.index)
        state = jax.lax.cond(is_over, lambda: self._decide(agent, state, round), lambda: state)
        return state, no_info(state.position)

    def _decide(self, agent: Agent, state: MetropolisState, round: Round) -> MetropolisState:
        """Take or reject the candidate, and begin the agreement on the next one."""
        taken = self._is_taken(state, round)
        position = jnp.where(taken, state.candidate, state.position)
        energy = jnp.where(taken, state.candidate_energy, state.energy)
        b = self.step_length
        candidate = jnp.sqrt(1 - b**2) * position + b * round.shared_noise(position)  # (1)
        candidate_energy = _energy(agent, candidate)
        own = self._own_number(_bounded(candidate_energy - energy), round)
        agreement = self.protocol.new_cycle(state.agreement, own)
        return MetropolisState(position, energy, candidate, candidate_energy, agreement)

    def _is_taken(self, state: MetropolisState, round: Round) -> jax.Array:
        """The decision of all agents; there is no candidate yet when the first flood ends."""
        agreed = self.protocol.result(state.agreement)
        if self.decision == "factorised":
            taken = agreed == 0  # (3)
        else:
            taken = _log_uniform(round.shared_key(), agreed) < -agreed  # (4)
        return taken & (round.index != self.flood_rounds)

    def _own_number(self, change: jax.Array, round: Round) -> jax.Array:
        """What this agent contributes: 1 if it rejects, eq. (3), or its change, eq. (4)."""
        if self.decision == "sum":
            return change
        rejects = _log_uniform(round.batch_key(), change) >= -change  # (3)
        return rejects.astype(change.dtype)


def _energy(agent: Agent, x: jax.Array) -> jax.Array:
    """phi_i(x), eq. (2).

    It is infinite where the potential is not a number, so that a chain moves away from there.
    """
    energy = agent.potential(x) - agent.share * (x @ x) / 2
    return jnp.where(jnp.isnan(energy), jnp.inf, energy)


def _bounded(change: jax.Array) -> jax.Array:
    """The change with `LARGEST_CHANGE` for infinity and for what is not a number."""
    return jnp.clip(jnp.nan_to_num(change, nan=LARGEST_CHANGE), -LARGEST_CHANGE, LARGEST_CHANGE)


def change_of_energy(agent: Agent, x: jax.Array, candidate: jax.Array) -> jax.Array:
    """phi_i(x') - phi_i(x), at most `LARGEST_CHANGE` in size."""
    return _bounded(_energy(agent, candidate) - _energy(agent, x))


def _log_uniform(key: jax.Array, like: jax.Array) -> jax.Array:
    """log u, u uniform in (0, 1]; never minus infinity, which would accept any candidate."""
    return -jax.random.exponential(key, dtype=like.dtype)


@jax.jit
def _pilot_changes(agents: Agent, points: Any, noise: Any) -> jax.Array:
    """The change of every agent's energy, of shape (agent, length, point)."""

    def one(agent, length, point, kick):
        candidate = jnp.sqrt(1 - length**2) * point + length * kick
        return change_of_energy(agent, point, candidate)

    by_point = jax.vmap(one, in_axes=(None, None, 0, 0))
    by_length = jax.vmap(by_point, in_axes=(None, 0, None, None))
    return jax.vmap(by_length, in_axes=(0, None, None, None))(
        agents, jnp.asarray(LENGTHS), points, noise
    )

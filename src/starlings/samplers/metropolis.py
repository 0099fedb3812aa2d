"""Metropolis without a coordinator: all agents hold one point, and decide on it together.

A candidate is drawn from a seed that all agents share, so that nothing about it has to be sent:

    x' = sqrt(1 - b^2) x + b w,     w ~ N(0, I)                                             (1)

which is reversible with respect to N(0, I). With its share s_i = d_i / sum_j d_j of that reference
(the share of the posterior that `tuning` gives it), agent i needs no more than the change of

    phi_i(x) = f_i(x) - s_i |x|^2 / 2                                                       (2)

factorised   every agent draws its own u_i and rejects unless log u_i < phi_i(x) - phi_i(x').
             The candidate is taken if nobody rejects: a flood of one bit, `flood_rounds` rounds
             for each candidate. Nobody learns another's value.                             (3)
sum          the changes are summed up the levels of a breadth-first search from agent 0, the
             total floods back, and one u that all share decides: twice as many rounds for each
             candidate, and more candidates are taken, for
             prod_i min(1, exp(-change_i)) <= min(1, exp(-sum_i change_i)).                 (4)

Both leave exp(-sum_i f_i) exactly invariant, whatever b. The sum pays where the factorised
acceptance is less than half of its own: with many agents, or agents whose potentials change in
opposite directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PilotLength, Sampler, UnitPosterior, no_info

DECISIONS = ("factorised", "sum")
LENGTHS = 2.0 ** -(np.arange(1, 13) / 2)
"""Step lengths that tuning tries, 0.7 to 1/64. At 1, candidates that do not depend on where the
chain is would miss tails heavier than Gaussian."""
POINTS = 200
"""Number of points from which tuning tries candidates."""
STICKY = 0.1
"""A step length is judged by this quantile of the acceptances: where the chain sticks."""
SPREAD = 1.25
"""Standard deviation of those points: chains stick in the tails, so these must count."""
MEANINGFUL = 1e-4
"""Squared step length times acceptance below which no step length is any good."""
CAUTIOUS_LENGTH = 0.1
"""The step length where no step length leaves the points at which the chain sticks."""
LARGEST_CHANGE = 1e30
"""Stands for infinity, of which sums and differences stay meaningful."""


class MetropolisState(NamedTuple):
    """One point, one candidate, and how far the vote on it has come."""

    position: Any
    """x, the same at every agent."""
    energy: Any
    """phi_i(x)."""
    candidate: Any
    candidate_energy: Any
    part: Any
    """Of the sum: the changes of this agent and of those above it that it has heard of."""
    outgoing: Any
    """What neighbours hear: a bit, a share of the sum on its way to agent 0, or the total."""
    level: Any
    """The distance from agent 0; -1 while unknown."""
    parents: Any
    """The number of neighbours one level nearer to agent 0."""


@pytree
@dataclass(frozen=True)
class Metropolis(Sampler):
    """Exact draws at any step: candidates by a common seed, decided by neighbours talking.

    Made for coordinates in which the posterior is near N(0, I), such as those of `tune`.

    Args:
        step_length: b in (0, 1]; at 1 candidates are independent of where the chain is.
        flood_rounds: rounds in which a flood reaches everybody: the diameter of the network, or
            more. `Metropolis.on(network, step_length)` fills it in.
        decision: "factorised" (one bit) or "sum" (one number, twice the rounds).
    """

    step_length: Any
    flood_rounds: int = choice()
    decision: str = choice(default="factorised")

    common_start = True
    pilot = PilotLength(chains=64, cycles=4000, draws=125)  # candidates are cheap, often refused
    card: ClassVar[Card] = Card(
        title="Metropolis",
        exchanged="a vote or a sum",
        floats_per_parameter=0,
        floats_besides=1,
        bias="none; slow on wide networks",
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
        """With as many rounds for a flood as this network needs."""
        return cls(step_length, max(network.diameter, 1), decision)

    @classmethod
    def tuned(cls, unit: UnitPosterior, **choices: Any) -> Metropolis:
        """With the step length b that leaves sticky points fastest: b^2 x acceptance there.

        Candidates start from points somewhat wider than N(0, I), which all agents draw from one
        seed; what has to be summed over the network is one number for each candidate.
        """
        decision = choices.get("decision", "factorised")
        random = np.random.default_rng(0)  # the same points at every agent
        points, noise = random.standard_normal((2, POINTS, unit.dim))
        changes = _pilot_changes(unit.agents, SPREAD * points, noise)
        parts = jnp.minimum(0.0, -changes) if decision == "factorised" else -changes
        chance = np.exp(np.minimum(0.0, np.asarray(unit.gossip.sum(parts)[0])))
        pace = LENGTHS**2 * np.quantile(chance, STICKY, axis=1)
        length = LENGTHS[np.argmax(pace)] if pace.max() > MEANINGFUL else CAUTIOUS_LENGTH
        return cls.on(unit.gossip.network, float(length), decision)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse networks on which votes and sums do not reach everybody."""
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
        return self.flood_rounds * (1 if self.decision == "factorised" else 2)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> MetropolisState:
        """Start at `position`, which must be the same at every agent, with nothing to decide."""
        energy, nothing = _energy(agent, position), jnp.zeros((), position.dtype)
        is_root = agent.index == 0
        return MetropolisState(
            position,
            energy,
            candidate=position,
            candidate_energy=energy,
            part=nothing,
            outgoing=jnp.where(is_root & (self.decision == "sum"), 1.0, nothing),
            level=jnp.where(is_root, 0, -1),
            parents=jnp.ones((), position.dtype),
        )

    def message(self, state: MetropolisState) -> jax.Array:
        """One number."""
        return state.outgoing[None]

    def step(
        self, agent: Agent, state: MetropolisState, inbox: Inbox, round: Round
    ) -> tuple[MetropolisState, Info]:
        """One exchange of the vote; at the end of it the decision and the next candidate."""
        first, turn = self.flood_rounds, (round.index - self.flood_rounds) % self.cycle
        if self.decision == "factorised":
            state = state._replace(outgoing=jnp.maximum(state.outgoing, inbox.max[0]))
        else:
            state = jax.lax.cond(
                round.index <= first,
                lambda: _learn_level(state, inbox, round),
                lambda: _pass_on(state, inbox, turn, self.flood_rounds),
            )
        is_over = (round.index >= first) & (turn == 0)
        state = jax.lax.cond(is_over, lambda: self._decide(agent, state, round), lambda: state)
        return state, no_info(state.position)

    def _decide(self, agent: Agent, state: MetropolisState, round: Round) -> MetropolisState:
        """Take or leave the candidate, and open the vote on the next one."""
        has_candidate = round.index != self.flood_rounds
        if self.decision == "factorised":
            taken = state.outgoing == 0  # (3)
        else:
            taken = _log_uniform(round.shared_key(), state.outgoing) < -state.outgoing  # (4)
        taken = taken & has_candidate
        position = jnp.where(taken, state.candidate, state.position)
        energy = jnp.where(taken, state.candidate_energy, state.energy)
        b = self.step_length
        candidate = jnp.sqrt(1 - b**2) * position + b * round.shared_noise(position)  # (1)
        candidate_energy = _energy(agent, candidate)
        change = _bounded(candidate_energy - energy)
        if self.decision == "factorised":
            rejects = _log_uniform(round.batch_key(), change) >= -change  # (3)
            outgoing = rejects.astype(position.dtype)
        else:
            outgoing = jnp.where(state.level == self.flood_rounds, change / state.parents, 0.0)
        return state._replace(
            position=position,
            energy=energy,
            candidate=candidate,
            candidate_energy=candidate_energy,
            part=change,
            outgoing=outgoing,
        )


def _energy(agent: Agent, x: jax.Array) -> jax.Array:
    """Eq. (2), infinite where the potential is not a number: a chain that starts there leaves."""
    energy = agent.potential(x) - agent.share * (x @ x) / 2
    return jnp.where(jnp.isnan(energy), jnp.inf, energy)


def _bounded(change: jax.Array) -> jax.Array:
    return jnp.clip(jnp.nan_to_num(change, nan=LARGEST_CHANGE), -LARGEST_CHANGE, LARGEST_CHANGE)


def change_of_energy(agent: Agent, x: jax.Array, candidate: jax.Array) -> jax.Array:
    """phi_i(x') - phi_i(x)."""
    return _bounded(_energy(agent, candidate) - _energy(agent, x))


def _log_uniform(key: jax.Array, like: jax.Array) -> jax.Array:
    """Never minus infinity, at which even an unattainable candidate would be taken."""
    return -jax.random.exponential(key, dtype=like.dtype)


def _learn_level(state: MetropolisState, inbox: Inbox, round: Round) -> MetropolisState:
    """A wave from agent 0: who hears it for the first time hears all its parents at once."""
    heard = inbox.sum[0]
    reached = (state.level < 0) & (heard > 0)
    return state._replace(
        level=jnp.where(reached, round.index, state.level).astype(state.level.dtype),
        parents=jnp.where(reached, heard, state.parents),
        outgoing=reached.astype(heard.dtype),
    )


def _pass_on(state: MetropolisState, inbox: Inbox, turn: Any, depth: int) -> MetropolisState:
    """One round of the sum on its way down the levels, or of the total on its way back.

    In round `turn` <= depth those at level depth - turn hear from the level above; afterwards the
    total spreads, and minus infinity means that an agent does not know it yet.
    """
    climbs = jnp.where(turn == 0, 2 * depth, turn)
    is_turn = state.level == depth - climbs
    part = jnp.where(is_turn & (climbs <= depth), state.part + inbox.sum[0], state.part)
    share = jnp.where(is_turn, part / state.parents, 0.0)
    at_root = jnp.where(state.level == 0, part, -jnp.inf)
    known = jnp.where(jnp.isfinite(state.outgoing), state.outgoing, inbox.max[0])
    outgoing = jnp.where(climbs < depth, share, jnp.where(climbs == depth, at_root, known))
    return state._replace(part=part, outgoing=outgoing)


@jax.jit
def _pilot_changes(agents: Agent, points: Any, noise: Any) -> jax.Array:
    """(agent, length, point): the change of every agent's energy."""

    def one(agent, length, point, kick):
        candidate = jnp.sqrt(1 - length**2) * point + length * kick
        return change_of_energy(agent, point, candidate)

    by_point = jax.vmap(one, in_axes=(None, None, 0, 0))
    by_length = jax.vmap(by_point, in_axes=(None, 0, None, None))
    return jax.vmap(by_length, in_axes=(0, None, None, None))(
        agents, jnp.asarray(LENGTHS), points, noise
    )

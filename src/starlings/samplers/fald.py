"""FALD and VR-FALD*: federated averaging Langevin dynamics (Plassier, Moulines, Durmus 2023).

Each of b sites walks by itself. With z ~ N(0, I) for all sites, z_i ~ N(0, I) for each of them, and
gradients or estimates g_i of them at minibatches,

    y_i' = y_i - gamma G_i + sqrt(2 gamma) (sqrt(tau / b) z + sqrt(1 - tau) z_i),           (1)
    G_i  = g_i(y_i)                                                                         (2)

and after each step, with probability p, all sites go on from the mean of all y_i', the next iterate
x of the hub. The mean takes Langevin steps of gamma / b on sum_i f_i. Whether to communicate is
drawn from what all sites share, so that they know the number of steps before they begin.

Where sites differ, they drift apart between two messages. VR-FALD* takes that out:

    G_i = g_i(y_i) - g_i(Y) + C,     C = (1/b) sum_i grad f_i(Y),                           (3)

with the same minibatch at y_i and at Y. In each step, with probability q, the reference Y becomes
the mean of all y_i before that step, which is used from the next step on. At the start Y = x.

All that a hub has to find are means of one vector of each site, so that a cycle of two rounds finds
one mean: that of positions after a step, that of positions before a step, or C. A refresh costs two
cycles more, in which the iterate of the hub stays what it is. Its length in cycles says nothing
about the iterate, so that draws taken once in a cycle have the law of the iterates.

The paper prints sqrt(tau) for sqrt(tau / b) in its eq. (4); its algorithms have (1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_count, check_positive
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState, num_sites
from starlings.samplers.local_steps import (
    Keys,
    Scales,
    Slope,
    check_part,
    check_probability,
    local_steps,
    rows_per_step,
    slope_of,
    steps_until,
)
from starlings.solvers.gradients import batch_gradient

POSITIONS, REFERENCE, SLOPES = 0, 1, 2
"""What a site has sent, and then hears the mean of: y_i', y_i before a step, or grad f_i(Y)."""
PRINTED = (
    "in code for neural networks gradients are multiplied by the rows of all b sites, which makes "
    "the temperature 1/b; eq. (4) of the paper prints sqrt(tau) for sqrt(tau/b)"
)
"""What the paper and its code do instead, also for VR-FALD*."""


@pytree
@dataclass(frozen=True)
class FALD(HubSampler):
    """Local Langevin steps, a random number of them, between two averages.

    Args:
        step_size: gamma; the iterates take Langevin steps of gamma over the number of sites.
        averaging: p, the probability after each step that sites communicate: 1/p steps on average.
        shared_part: tau, the part of the noise's variance that all sites draw from one seed. At 0
            it is private; at 1 it hides nothing, and what noise adds between two messages is gone.
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    averaging: Any = 0.1
    shared_part: Any = 1.0
    batch_size: int | None = choice(default=None)

    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="FALD",
        exchanged="position y_i after local steps; their mean",
        floats_per_parameter=1,
        bias="first order in the step: means where sites differ, and variances",
        reference="Plassier, Moulines, Durmus 2023",
        public_code=PRINTED,
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_probability(averaging=self.averaging)
        check_part(shared_part=self.shared_part)
        if self.batch_size is not None:
            check_count(1, batch_size=self.batch_size)

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Steps (1) from the mean that was heard until the next message."""
        events, shared = jax.random.split(round.shared_key())
        count = steps_until(self.averaging, events, heard.dtype)
        keys, slope = Keys(shared, round.batch_key()), slope_of(agent, self.batch_size)  # (2)
        _, found = local_steps(_scales(self, agent), slope, heard, count, keys)  # (1)
        return HubState(heard, found)

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """The mean of all sites."""
        mean = total / num_sites(agent)
        return HubState(mean, mean)

    def gradients_per_round(self, problem: Problem) -> float:
        """Half the local steps of a cycle, whose rounds are two."""
        return rows_per_step(self.batch_size, problem) / (2 * float(self.averaging))


class Reference(NamedTuple):
    """What a site of VR-FALD* remembers; the hub remembers nothing."""

    current: Any
    """y_i."""
    before: Any
    """y_i before the last step."""
    point: Any
    """Y."""
    slope: Any
    """The gradient of f_i at Y."""
    mean_slope: Any
    """C."""
    sent: Any
    """`POSITIONS`, `REFERENCE` or `SLOPES`."""
    refreshes: Any
    """Whether `before` has to be sent after the positions."""


@pytree
@dataclass(frozen=True)
class VRFALD(HubSampler):
    """FALD with control variates: sites that differ do not drift apart.

    Args:
        step_size: gamma, as in `FALD`.
        averaging: p, the probability after each step that positions are averaged.
        refreshing: q, the probability in each step that the reference is renewed.
        shared_part: tau, as in `FALD`.
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    averaging: Any = 0.1
    refreshing: Any = 0.1
    shared_part: Any = 1.0
    batch_size: int | None = choice(default=None)

    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="VR-FALD*",
        exchanged="position y_i or gradient, and which; their mean",
        floats_per_parameter=1,
        floats_besides=1,
        bias="first order in the step in variances; none in means of Gaussians",
        reference="Plassier, Moulines, Durmus 2023",
        public_code=PRINTED,
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_probability(averaging=self.averaging, refreshing=self.refreshing)
        check_part(shared_part=self.shared_part)
        if self.batch_size is not None:
            check_count(1, batch_size=self.batch_size)

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> Reference:
        """Nothing yet; what is heard first is the reference."""
        nothing = jnp.zeros_like(position)
        return Reference(
            current=nothing,
            before=nothing,
            point=nothing,
            slope=nothing,
            mean_slope=nothing,
            sent=jnp.int32(REFERENCE),
            refreshes=jnp.zeros((), bool),
        )

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Take in the mean that was heard; go on, unless another one is needed before."""
        memory, mean = state.memory, heard[:-1]
        is_start = round.index == 1
        moves = (memory.sent == POSITIONS) | is_start
        memory = self._informed(agent, memory, mean, moves)
        refers = (memory.sent == POSITIONS) & memory.refreshes
        shows = memory.sent == REFERENCE
        walks = ~(refers | shows)
        before, found, averages, refreshes = self._walked(agent, memory, walks, round)
        sent = jnp.where(walks & averages, POSITIONS, jnp.where(shows, SLOPES, REFERENCE))
        after = memory._replace(
            current=found,
            before=jnp.where(walks, before, memory.before),
            sent=sent.astype(jnp.int32),
            refreshes=walks & averages & refreshes,
        )
        options = [after.current, after.before, after.slope]
        outgoing = jnp.select([after.sent == kind for kind in range(3)], options)
        told = jnp.asarray(after.sent == POSITIONS, mean.dtype)
        position = jnp.where(moves, mean, state.position)
        return HubState(position, self.packed(outgoing, told), after)

    def _informed(
        self, agent: Agent, memory: Reference, mean: jax.Array, moves: jax.Array
    ) -> Reference:
        """The memory with a mean of what was sent."""
        is_new = memory.sent == REFERENCE
        return memory._replace(
            current=jnp.where(moves, mean, memory.current),
            point=jnp.where(is_new, mean, memory.point),
            slope=jnp.where(is_new, agent.gradient(mean), memory.slope),
            mean_slope=jnp.where(memory.sent == SLOPES, mean, memory.mean_slope),
        )

    def _walked(
        self, agent: Agent, memory: Reference, walks: jax.Array, round: Round
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Steps (1) until something happens: the last two points, and whether each event does."""
        p, q, dtype = self.averaging, self.refreshing, memory.current.dtype
        either = p + q - p * q
        waiting, kind, shared = jax.random.split(round.shared_key(), 3)
        count = jnp.where(walks, steps_until(either, waiting, dtype), 0)
        keys, slope = Keys(shared, round.batch_key()), self._slope(agent, memory)
        before, found = local_steps(_scales(self, agent), slope, memory.current, count, keys)
        place = either * jax.random.uniform(kind, dtype=dtype)  # below p: averages
        return before, found, place < p, (place < p * q) | (place >= p)

    def _slope(self, agent: Agent, memory: Reference) -> Slope:
        """G_i of eq. (3)."""
        size = self.batch_size
        if size is None:
            return lambda y, _: agent.gradient(y) - memory.slope + memory.mean_slope  # (3)

        def estimate(y: jax.Array, key: jax.Array) -> jax.Array:
            g = batch_gradient(agent, size, key)
            return g(y) - g(memory.point) + memory.mean_slope  # (3)

        return estimate

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """A mean of all sites, which is the next iterate if it is that of positions."""
        *_, told = mean = total / num_sites(agent)
        position = jnp.where(told > 0.5, mean[:-1], state.position)
        return HubState(position, self.packed(mean[:-1]), state.memory)

    def gradients_per_round(self, problem: Problem) -> float:
        """Steps, of two minibatches or one gradient, and refreshes, over means, of two rounds."""
        p, q = float(self.averaging), float(self.refreshing)
        rows = rows_per_step(self.batch_size, problem)
        per_step = rows if self.batch_size is None else 2 * rows
        return (per_step + q) / (2 * (p + 2 * q))


def _scales(sampler: FALD | VRFALD, agent: Agent) -> Scales:
    """The numbers of eq. (1)."""
    gamma, tau = sampler.step_size, sampler.shared_part
    spread = jnp.sqrt(2 * gamma)
    return Scales(gamma, spread * jnp.sqrt(tau / num_sites(agent)), spread * jnp.sqrt(1 - tau))

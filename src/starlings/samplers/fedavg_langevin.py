"""FA-LD: federated averaging Langevin dynamics (Deng, Zhang, Ma, Song, Lin 2024).

Site c has the weight p_c, which sum to 1. From the iterate x of the hub, y_c = x, each site takes K
steps with gradients or estimates g_c of them,

    y_c' = y_c - (eta / p_c) g_c(y_c) + sqrt(2 eta) (rho z + sqrt((1 - rho^2) / p_c) z_c),  (1)

z ~ N(0, I) for all sites and z_c ~ N(0, I) for each of them, and then the next iterate is

    x' = sum_c p_c y_c                                    if all sites take part;            (2)
    x' = (1/S) sum over S sites, drawn with               otherwise.                         (3)
         replacement and the probabilities p_c, or
         without replacement where all p_c are equal

The average of (1) is a Langevin step of eta on sum_c f_c. With all sites, K = 1 is that step; (3)
leaves a bias that does not vanish with eta. Sites that are not drawn send zeros. With equal weights
and eta = gamma / b for b sites, (1) is that of `starlings.samplers.fald`, with rho^2 = tau.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_count, check_positive
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState, num_sites
from starlings.samplers.local_steps import (
    Keys,
    Scales,
    check_part,
    local_steps,
    rows_per_step,
    slope_of,
)


@pytree
@dataclass(frozen=True)
class FedAvgLangevin(HubSampler):
    """A fixed number of local Langevin steps between two weighted averages.

    Args:
        step_size: eta, the step of the average; sites with small weights take longer ones.
        local_steps: K.
        shared_part: rho^2, the part of the noise's variance that all sites draw from one seed. At
            0 it is private; at 1 it hides nothing, and sites drift apart the least.
        weights: numbers in proportion to p_c, of all sites in their order; equal ones if None. As
            published they are numbers of rows: `FedAvgLangevin.on(problem, step_size)`.
        participants: S, the number of sites that are drawn for each average; all if None.
        with_replacement: whether they are drawn with replacement.
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    local_steps: int = choice(default=10)
    shared_part: Any = 1.0
    weights: Sequence[Any] | None = None
    participants: int | None = choice(default=None)
    with_replacement: bool = choice(default=True)
    batch_size: int | None = choice(default=None)

    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="FA-LD",
        exchanged="position y_c after K local steps; their weighted mean",
        floats_per_parameter=1,
        bias="first order in the step, more with more local steps and where sites differ; does not "
        "vanish where some sites are left out",
        reference="Deng, Zhang, Ma, Song, Lin 2024",
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_count(1, local_steps=self.local_steps)
        check_part(shared_part=self.shared_part)
        for name in ("participants", "batch_size"):
            if getattr(self, name) is not None:
                check_count(1, **{name: getattr(self, name)})
        if self.weights is not None:
            if np.ndim(self.weights) != 1:
                raise ValueError(
                    f"`weights` must be a list with a number for each site, got {self.weights!r}."
                )
            object.__setattr__(self, "weights", tuple(self.weights))
            for weight in self.weights:
                check_positive(weights=weight)

    @classmethod
    def on(cls, problem: Problem, step_size: float, **settings: Any) -> FedAvgLangevin:
        """A sampler with the numbers of rows of all sites as weights."""
        rows = problem.num_rows if problem.hub is None else problem.num_rows[1:]
        return cls(step_size, weights=[float(count) for count in rows], **settings)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse other networks than a star, and weights or participants of other problems."""
        super().check(problem, network)
        sites = network.size - 1
        if self.weights is not None and len(self.weights) != sites:
            raise ValueError(
                f"`weights` has {len(self.weights)} numbers, and there are {sites} sites: take "
                "`FedAvgLangevin.on(problem, step_size)`."
            )
        if self.participants is None or self.with_replacement:
            return
        if self.participants > sites:
            raise ValueError(
                f"`participants` is {self.participants}, and without replacement there are {sites}."
            )
        if self.weights is not None and min(self.weights) < max(self.weights):
            raise ValueError(
                "sites are drawn without replacement with equal `weights` only: leave `weights` "
                "out, or take `with_replacement=True`."
            )

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """K steps (1) from the iterate, and the part of the next one."""
        eta, weight = self.step_size, self._weight(agent)
        shared = jnp.sqrt(2 * eta * self.shared_part)
        private = jnp.sqrt(2 * eta * (1 - self.shared_part) / weight)
        scales, slope = Scales(eta / weight, shared, private), slope_of(agent, self.batch_size)
        whom, seed = jax.random.split(round.shared_key())
        keys = Keys(seed, round.batch_key())
        _, found = local_steps(scales, slope, heard, self.local_steps, keys)  # (1)
        return HubState(heard, self._part(agent, whom, heard.dtype) * found)

    def _weight(self, agent: Agent) -> Any:
        """p_c; the hub, whose weight is not used, takes that of the first site."""
        if self.weights is None:
            return 1 / num_sites(agent)
        weights = jnp.asarray(self.weights, agent.num_agents.dtype)
        return weights[jnp.maximum(agent.index - 1, 0)] / weights.sum()

    def _part(self, agent: Agent, key: jax.Array, dtype: Any) -> Any:
        """By how much this site counts in the next iterate."""
        count = self.participants
        if count is None:
            return self._weight(agent)  # (2)
        if not self.with_replacement:
            return _is_drawn(agent, count, key, dtype) / jnp.asarray(count, dtype)  # (3)
        uniforms = jax.random.uniform(key, (count,), dtype)
        if self.weights is None:
            before = jnp.minimum(jnp.floor(num_sites(agent) * uniforms), num_sites(agent) - 1)
        else:
            *until, total = jnp.cumsum(jnp.asarray(self.weights, dtype))
            before = jnp.searchsorted(jnp.asarray(until), total * uniforms)
        return jnp.mean(before + 1 == agent.index, dtype=dtype)  # (3)

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """The next iterate, eq. (2) or (3)."""
        return HubState(total, total)

    def gradients_per_round(self, problem: Problem) -> float:
        """Half the local steps of a cycle, whose rounds are two."""
        return self.local_steps * rows_per_step(self.batch_size, problem) / 2


def _is_drawn(agent: Agent, count: int, key: jax.Array, dtype: Any) -> jax.Array:
    """Whether this site is among `count` sites drawn without replacement.

    One after the other, each site is drawn with the probability that so many are left to be drawn
    of so many sites.
    """
    sites = jnp.asarray(num_sites(agent), jnp.int32)

    def one(site: Any, found: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        left, own = found
        uniform = jax.random.uniform(jax.random.fold_in(key, site), dtype=dtype)
        takes = uniform * (sites + 1 - site) < left
        return left - takes, jnp.where(site == agent.index, takes, own)

    start = (jnp.int32(count), jnp.zeros((), bool))
    return jax.lax.fori_loop(1, sites + 1, one, start)[1]

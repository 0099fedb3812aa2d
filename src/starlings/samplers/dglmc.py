"""DG-LMC: Langevin steps within split Gibbs (Plassier, Vono, Durmus, Moulines 2021).

Each of b sites has a copy z_i of the parameters x, tied to them with a variance rho_i of its own:

    exp(-sum_i f_i(z_i) - sum_i |x - z_i|^2 / (2 rho_i))                                    (1)

Given x, every site makes N Langevin steps from where its copy was, and the hub draws x given them:

    z_i <- z_i - g_i (grad f_i(z_i) + (z_i - x) / rho_i) + sqrt(2 g_i) w,     N times,      (2)
    x    ~ N(sum_i (z_i / rho_i) / q, 1 / q),     q = sum_i 1 / rho_i                       (3)

with the steps of the authors, for f_i with curvature up to L_i,

    g_i = 1 / (N (1 / rho_i + L_i))                                                         (4)

L_i is the largest eigenvalue of the Hessian of f_i where the site starts, if that is positive, and
else 0. A site sends z_i / rho_i and 1 / rho_i, so that the hub need not know what rho_i is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_count, check_positive
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState
from starlings.samplers.units import Units


class DGLMCMemory(NamedTuple):
    """What a site has of its own."""

    copy: Any
    """z_i."""
    step: Any
    """g_i of eq. (4)."""


@pytree
@dataclass(frozen=True)
class DGLMC(HubSampler):
    """Sites take Langevin steps near the hub, which draws near their weighted mean.

    Args:
        variance: rho_i, by which copies are tied: one number for all sites, or a list with one for
            each site, in their order. The smaller, the nearer is the hub to the posterior, and the
            slower does it move.
        local_steps: N, the Langevin steps of a site in each cycle.
        step_scale: what the steps (4) are multiplied by; 1 as published.
    """

    variance: Any
    local_steps: int = choice(default=1)
    step_scale: Any = 1.0

    step_field = "step_scale"
    card: ClassVar[Card] = Card(
        title="DG-LMC",
        exchanged="position; copy over its variance, and one over that variance",
        floats_per_parameter=1,
        floats_besides=1,
        bias="first order in the variances and in the steps",
        reference="Plassier, Vono, Durmus, Moulines 2021",
        public_code="some examples take one step size at all sites, whatever their curvatures",
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(step_scale=self.step_scale)
        check_count(1, local_steps=self.local_steps)
        if isinstance(self.variance, np.ndarray) and self.variance.ndim == 1:
            object.__setattr__(self, "variance", tuple(self.variance))
        for variance in self.variance if self._has_list else (self.variance,):
            check_positive(variance=variance)

    @property
    def _has_list(self) -> bool:
        """Whether every site has a variance of its own."""
        return isinstance(self.variance, Sequence)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[DGLMC]:
        """Ties of variance g / M, with the steps of the authors."""
        return [cls(float(variance), **fixed) for variance in units.steps]

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse a list of variances that is not as long as there are sites."""
        super().check(problem, network)
        sites = network.size - 1
        if self._has_list and len(self.variance) != sites:
            raise ValueError(
                f"`variance` has {len(self.variance)} numbers, and there are {sites} sites: give "
                "one number for all, or one for each site."
            )

    def gradients_per_round(self, problem: Problem) -> float:
        """N times in two rounds."""
        return self.local_steps / 2

    def gradients_until(self, rounds: np.ndarray, problem: Problem) -> np.ndarray:
        """Those of all rounds, and the Hessian for eq. (4)."""
        return (rounds > 0) + super().gradients_until(rounds, problem)

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> DGLMCMemory:
        """Copies start where their sites do, which decides the step (4)."""
        steepest = jnp.maximum(jnp.linalg.eigvalsh(agent.hessian(position))[-1], 0.0)
        bound = self.local_steps * (1 / self._variance_of(agent) + steepest)
        return DGLMCMemory(position, (self.step_scale / bound).astype(position.dtype))  # (4)

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Eq. (2)."""
        x, variance, (copy, step) = heard[:-1], self._variance_of(agent), state.memory

        def moved(z: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
            slope = agent.gradient(z) + (z - x) / variance
            noise = jax.random.normal(key, z.shape, z.dtype)
            return z - step * slope + jnp.sqrt(2 * step) * noise, None  # (2)

        keys = jax.random.split(round.batch_key(), self.local_steps)
        copy, _ = jax.lax.scan(moved, copy, keys)
        outgoing = jnp.append(copy, 1.0) / variance
        return HubState(x, outgoing, state.memory._replace(copy=copy))

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eq. (3)."""
        mean, precision = total[:-1] / total[-1], total[-1]
        position = mean + round.private_noise(mean) / jnp.sqrt(precision)  # (3)
        return HubState(position, self.packed(position), state.memory)

    def _variance_of(self, agent: Agent) -> Any:
        """rho_i of a site; the hub, which comes first, makes no use of its own."""
        variances = jnp.asarray(self.variance)
        return variances[agent.index - 1] if self._has_list else variances

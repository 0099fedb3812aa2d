"""What a problem computes: its agents, and the values and derivatives of their potentials."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.problem.agent import Agent
from starlings.problem.fields import ProblemFields
from starlings.problem.local import local_names
from starlings.problem.quadratic import Quadratic
from starlings.problem.stacking import computed_quadratic, stacked_agents


@dataclass(frozen=True, eq=False, repr=False)
class ProblemValues(ProblemFields):
    """The fields of a `Problem`, and numbers that are computed from them."""

    @functools.cached_property
    def quadratic(self) -> Quadratic | None:
        """H_i, b_i and c_i of every agent, eq. (2); None if the potentials are not quadratic."""
        if self.known_quadratic is None and self.is_quadratic:
            return computed_quadratic(self)
        return self.known_quadratic

    @functools.cached_property
    def local_names(self) -> list[str]:
        """The names of saved values of which every agent has its own; see `problem.local`."""
        return local_names(self)

    def potential(self, z: Any) -> float:
        """The pooled potential F(z), the sum of all f_i."""
        return float(self.potentials(z).sum())

    def potentials(self, z: Any) -> np.ndarray:
        """f_i(z) of every agent at one z, (agent,)."""
        return self._for_every_agent(lambda agent, z: agent.potential(z), z)

    def hessians(self, z: Any) -> np.ndarray:
        """The Hessian of every f_i at one z, (agent, dim, dim)."""
        return self._for_every_agent(lambda agent, z: agent.hessian(z), z)

    def _for_every_agent(self, function: Callable[[Agent, Any], jax.Array], z: Any) -> np.ndarray:
        with jax.enable_x64(True):
            by_agent = jax.jit(jax.vmap(function, in_axes=(0, None)))
            return np.asarray(by_agent(self.agents(), jnp.asarray(z, float)))

    def exact_posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the posterior of a quadratic problem, in closed form.

        covariance = (sum_i H_i)^-1,   mean = covariance sum_i b_i          (3)
        """
        if self.quadratic is None:
            raise ValueError(
                "the posterior has a closed form only for quadratic potentials, such as linear "
                "regression with known noise."
            )
        covariance = np.linalg.inv(np.sum(self.quadratic.hessian, axis=0))
        return covariance @ np.sum(self.quadratic.linear, axis=0), covariance  # (3)

    def agents(self, network: Network | None = None, dtype: Any = np.float64) -> Agent:
        """All agents whose rows are here, stacked along a first axis, as the runtimes need them.

        Args:
            network: in the order of the problem's sites; None for agents without neighbours.
            dtype: the type of the floating-point arrays.
        """

        def converted(array: Any) -> jax.Array:
            array = np.asarray(array)
            return jnp.asarray(array, dtype if array.dtype.kind == "f" else None)

        found = jax.tree.map(converted, stacked_agents(self, network, self.quadratic))
        return found if self.integrate is None else self.integrate(found)

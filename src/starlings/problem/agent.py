"""One agent of a problem, as a sampler sees it: its potential f_i and the derivatives of that.

f_i(z) = - sum_{r in D_i} log p(r | z) - (1/N) log p(z)                (1)
f_i(z) = z'H_i z / 2 - b_i'z + c_i           where it is quadratic     (2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from starlings.problem.coordinates import Frame
from starlings.problem.likelihood import derivatives_of
from starlings.problem.quadratic import Quadratic
from starlings.pytrees import pytree


@pytree
@dataclass(frozen=True)
class Agent:
    """What one agent may look at: its own rows, its share of the prior, its own links.

    The arrays of all agents are stacked along a first axis; inside `step` there is one agent.
    Shards are padded to one length with rows of weight zero.
    """

    rows: Any
    row_weights: Any
    num_rows: Any
    prior_share: Any
    quadratic: Quadratic | None
    degree: Any
    """The number of its neighbours."""
    total_degree: Any
    """The sum of all degrees, twice the number of edges; agreed on once, before the run."""
    num_agents: Any
    index: Any
    """Its place in the order of the agents."""
    frame: Frame | None
    """Where z is not the model's own flat vector."""
    log_likelihoods: Callable[..., jax.Array] = field(metadata={"static": True})
    """(x, rows) -> one log-likelihood per row, at the model's flat vector."""
    log_prior: Callable[..., jax.Array] = field(metadata={"static": True})
    """x -> log-density, with the log-determinant of the constraints."""

    @property
    def share(self) -> jax.Array:
        """The part of the posterior that is this agent's: d_i / sum_j d_j, or 1/N without edges."""
        by_degree = self.degree / jnp.maximum(self.total_degree, 1)
        return jnp.where(self.total_degree > 0, by_degree, 1 / self.num_agents)

    def potential(self, z: jax.Array) -> jax.Array:
        """f_i(z), eq. (1) or (2)."""
        if self.quadratic is not None:
            q = self.quadratic
            return 0.5 * z @ (q.hessian @ z) - q.linear @ z + q.constant
        return self._potential(z, self.rows, self.row_weights)

    def gradient(self, z: jax.Array) -> jax.Array:
        """The gradient of f_i at z."""
        if self.quadratic is not None:
            return self.quadratic.hessian @ z - self.quadratic.linear
        if self.has_structure:
            return self._by_structure(z)[1]
        return jax.grad(self.potential)(z)

    def hessian(self, z: jax.Array) -> jax.Array:
        """The matrix of second derivatives of f_i at z."""
        if self.quadratic is not None:
            return self.quadratic.hessian
        if self.has_structure:
            return self._by_structure(z)[2]
        return jax.jacfwd(self.gradient)(z)

    def derivatives(self, z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """f_i, its gradient and its Hessian at z, in one pass over the rows where it can be."""
        if self.has_structure:
            return self._by_structure(z)
        return derivatives_of(self.potential, z)

    @property
    def has_structure(self) -> bool:
        """Whether the likelihood knows its own derivatives: see `RowwiseLikelihood`."""
        return getattr(self.log_likelihoods, "has_structure", False)

    def _by_structure(self, z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Eq. (1) and its derivatives; what is not used of them is not computed under jit."""
        x = z if self.frame is None else self.frame.to_original(z)
        rows = self.log_likelihoods.derivatives(x, self.rows, self.row_weights)  # type: ignore[attr-defined]
        prior = derivatives_of(self.log_prior, x)
        found = tuple(-row - self.prior_share * own for row, own in zip(rows, prior, strict=True))
        return found if self.frame is None else self.frame.pull_back(z, *found)

    def batch_potential(self, z: jax.Array, batch: jax.Array) -> jax.Array:
        """An unbiased estimate of f_i(z) from the rows with the indices `batch`."""
        rows = jax.tree.map(lambda column: column[batch], self.rows)
        scale = self.num_rows / batch.shape[0]
        weights = jnp.full(batch.shape, scale, z.dtype)
        return self._potential(z, rows, weights)

    def _potential(self, z, rows, weights):
        x, tilt = z, jnp.zeros((), z.dtype)
        if self.frame is not None:
            x, tilt = self.frame.to_original(z), self.frame.tilt(z)
        log_likelihood = jnp.sum(weights * self.log_likelihoods(x, rows))
        return -log_likelihood - self.prior_share * self.log_prior(x) - tilt  # (1)

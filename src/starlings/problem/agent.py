"""One agent of a problem, as a sampler sees it: its potential f_i and the derivatives of f_i.

    f_i(z) = - sum_{r in D_i} log p(r | z) - s_i log p(z)                  (1)
    f_i(z) = z'H_i z / 2 - b_i'z + c_i           if f_i is quadratic       (2)

    f_i(z) = - sum_{r in D_i} log p(r | z) - s_i log p(x) - log p(u_i | x),   z = (x, u_i)  (3)

where u_i are parameters of the agent's own, if there are any (see `problem.local`). D_i are the
rows of the agent, and s_i is its share of the prior: 1/N for each of N agents, unless there is a
hub (see `problem.hub`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from starlings.problem.coordinates import Frame
from starlings.problem.likelihood import Derivatives, Likelihood, derivatives_of
from starlings.problem.quadratic import Quadratic
from starlings.problem.shards import Rows
from starlings.pytrees import pytree


@pytree
@dataclass(frozen=True)
class Agent:
    """What one agent may use: its own rows, its share of the prior, its own number of neighbours.

    The arrays of all agents are stacked along a first axis; inside `step` there is one agent, and
    the shapes below are those of one agent. All agents have equally many rows, since shorter
    shards are padded with rows of weight zero.
    """

    rows: Any
    """Columns by name, each (row, ...)."""
    row_weights: Any
    """1 for a row of the agent and 0 for a row of the padding, (row,)."""
    num_rows: Any
    """The number of rows of the agent, without the padding."""
    prior_share: Any
    """The part s_i of the log-prior that belongs to this agent."""
    quadratic: Quadratic | None
    """H_i, b_i and c_i of eq. (2); None if the potential is not known to be quadratic."""
    degree: Any
    """d_i, the number of neighbours of the agent."""
    total_degree: Any
    """sum_j d_j, twice the number of edges; the agents compute it once, before the run."""
    share: Any
    """The part of the posterior that the agent carries, see `Network.shares`."""
    num_agents: Any
    """N, the number of agents."""
    index: Any
    """The number of the agent, counted from 0 in the order of the problem's sites."""
    frame: Frame | None
    """The map from z to the model's flat vector x; None if they are the same."""
    log_likelihoods: Likelihood = field(metadata={"static": True})
    """(x, rows) -> one log-likelihood per row, at the model's flat vector x."""
    log_prior: Callable[[jax.Array], jax.Array] = field(metadata={"static": True})
    """x -> log-density, with the log-determinant of the constraints."""
    log_local_prior: Callable[[jax.Array], jax.Array] | None = field(
        default=None, metadata={"static": True}
    )
    """(x, u_i) -> log p(u_i | x) of eq. (3); None where no parameter is local."""
    num_local: int = field(default=0, metadata={"static": True})
    """The number of entries of u_i, the last ones of z."""
    neighbours: Any = None
    """The numbers of its neighbours, and negative ones for nobody, (most neighbours of any agent,);
    None unless the sampler `draws_edges`."""
    place: Any = None
    """What the sampler has to know of the agent's place in the network, see `Sampler.placed`."""
    slots: int = field(default=0, metadata={"static": True})
    """The largest number of neighbours of any agent, the length of `Inbox.each`; 0 for samplers
    that do not read it."""

    def potential(self, z: jax.Array) -> jax.Array:
        """f_i(z), eq. (1) or (2)."""
        if self.quadratic is not None:
            q = self.quadratic
            return 0.5 * z @ (q.hessian @ z) - q.linear @ z + q.constant
        return self._potential(z, self.rows, self.row_weights)

    def gradient(self, z: jax.Array) -> jax.Array:
        """The gradient of f_i at z, (dim,)."""
        if self.quadratic is not None:
            return self.quadratic.hessian @ z - self.quadratic.linear
        if self.has_derivatives:
            return self._known_derivatives(z)[1]
        return jax.grad(self.potential)(z)

    def value_and_gradient(self, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """f_i and its gradient at z."""
        return self.potential(z), self.gradient(z)

    def hessian(self, z: jax.Array) -> jax.Array:
        """The matrix of second derivatives of f_i at z, (dim, dim)."""
        if self.quadratic is not None:
            return self.quadratic.hessian
        if self.has_derivatives:
            return self._known_derivatives(z)[2]
        return jax.jacfwd(self.gradient)(z)

    def derivatives(self, z: jax.Array) -> Derivatives:
        """f_i, its gradient and its Hessian at z, in one pass over the rows if that is possible."""
        if self.has_derivatives:
            return self._known_derivatives(z)
        return derivatives_of(self.potential, z)

    @property
    def has_derivatives(self) -> bool:
        """Whether the likelihood computes its own derivatives, see `Likelihood.derivatives`."""
        return self.log_likelihoods.has_derivatives

    def _known_derivatives(self, z: jax.Array) -> Derivatives:
        """Eq. (1) and its derivatives, from those of the likelihood; jit drops what is not used."""
        x = z if self.frame is None else self.frame.to_original(z)
        rows = self.log_likelihoods.derivatives(x, self.rows, self.row_weights)
        prior = derivatives_of(self.log_prior, x)
        value, gradient, hessian = (
            -row - self.prior_share * own for row, own in zip(rows, prior, strict=True)
        )
        if self.frame is None:
            return value, gradient, hessian
        return self.frame.pull_back(z, value, gradient, hessian)

    def batch_potential(self, z: jax.Array, batch: jax.Array) -> jax.Array:
        """An unbiased estimate of f_i(z) from the rows with the indices `batch`."""
        rows = jax.tree.map(lambda column: column[batch], self.rows)
        scale = self.num_rows / batch.shape[0]
        weights = jnp.full(batch.shape, scale, z.dtype)
        return self._potential(z, rows, weights)

    def row_log_likelihoods(self, z: jax.Array, rows: Rows) -> jax.Array:
        """log p(r | z) of some rows, (row,)."""
        x = z if self.frame is None else self.frame.to_original(z)
        return self.log_likelihoods(x, rows)

    def prior_potential(self, z: jax.Array) -> jax.Array:
        """What f_i(z) has beside its rows: the agent's share of the prior, and its tilt."""
        if self.frame is None:
            return self._own_prior(z)
        return self._own_prior(self.frame.to_original(z)) - self.frame.tilt(z)

    def _own_prior(self, x: jax.Array) -> jax.Array:
        """Minus the agent's part of the log-prior, at the model's flat vector."""
        shared = -self.prior_share * self.log_prior(x)
        return shared if self.log_local_prior is None else shared - self.log_local_prior(x)  # (3)

    @property
    def knows_gradient(self) -> bool:
        """Whether `gradient` needs no automatic differentiation of the rows' likelihood."""
        return self.quadratic is not None or self.has_derivatives

    @property
    def is_sum_over_rows(self) -> bool:
        """Whether the potential is computed from the rows, one after the other."""
        return self.quadratic is None

    def _potential(self, z: jax.Array, rows: Rows, weights: jax.Array) -> jax.Array:
        log_likelihood = jnp.sum(weights * self.row_log_likelihoods(z, rows))
        return -log_likelihood + self.prior_potential(z)  # (1)


def sum_over(agents: Agent, function: Callable[[Agent], Any]) -> Any:
    """The sum of function(agent) over stacked agents.

    Coordinates are the same for all agents, and the sum depends on the average share of the prior
    only. They are not stacked here, so that what depends on nothing else is computed, and
    differentiated, once for all of them.
    """
    shares = agents.prior_share
    average = jnp.where(jnp.ptp(shares) == 0, shares[0], shares.mean())  # no rounding of equal ones
    common: dict[str, Any] = {"prior_share": average}
    axes = replace(jax.tree.map(lambda _: 0, agents), prior_share=None)
    if agents.frame is not None:
        frame = agents.frame
        common["frame"] = replace(frame, centre=frame.centre[0], scale=frame.scale[0])
        axes = replace(axes, frame=replace(axes.frame, centre=None, scale=None))
    return jax.vmap(function, in_axes=(axes,))(replace(agents, **common)).sum(axis=0)

"""The potential of the shared parameters alone: a site integrates its own parameters out by itself.

With f(x, u) the potential of one agent, in which u are the q parameters of its own,

    F(x) = - log integral exp(-f(x, u)) du                                                  (1)

and these sum over the agents to the potential of the marginal posterior of x. With m the minimum of
f(x, .), S a root of the inverse of its Hessian there, and nodes t_k in q dimensions that integrate
functions times exp(-|t|^2 / 2) with weights w_k, adaptive Gauss-Hermite quadrature is

    F(x) = - log |det S| - log sum_k w_k exp(|t_k|^2 / 2 - f(x, m + S t_k))                 (2)

It is exact where f is quadratic in u, and its error falls geometrically with the number of nodes
where f is smooth. (1) does not depend on m and S, so that derivatives take them as constants:

    grad F(x) = sum_k v_k grad_x f(x, m + S t_k),   v_k the terms of (2), as shares of one  (3)

HMC accepts by differences of (2) itself: an error of (3) costs acceptance, and not exactness.

Given x, the agent draws its own parameters from exp(-f(x, u)) by iterated sampling importance
resampling (Andrieu, Lee and Vihola 2018). From a proposal m + S t, with t of Student's law h,

    u <- u or one of `PROPOSALS` - 1 new proposals u', with weights exp(-f(x, u')) / h(u')  (4)

leaves that law invariant exactly, and `SWEEPS` repetitions from a first proposal come near it
geometrically: for weights of at most c times their mean, the distance is multiplied each time by
no more than 1 - (P - 1) / (P - 2 + 2 c), with P proposals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.agent import Agent
from starlings.problem.likelihood import Derivatives
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.solvers.newton import minimise
from starlings.solvers.objective import Objective

PROPOSALS, SWEEPS = 16, 4
"""Proposals of a repetition of (4), with the present point, and repetitions."""
FREEDOM = 5
"""Degrees of freedom of the proposals' law h."""


class Near(NamedTuple):
    """Where an agent's own parameters are, given x."""

    mode: Any
    """m, (local,)."""
    root: Any
    """S, (local, local)."""


class Nodes(NamedTuple):
    """The nodes of eq. (2), padded so that programs are compiled once for all numbers of nodes."""

    points: Any
    """t_k, (node, local)."""
    logs: Any
    """log w_k + |t_k|^2 / 2, (node,)."""
    count: Any
    """The number of nodes without the padding."""


@dataclass(frozen=True)
class Integral:
    """What makes an agent of shared and local parameters one of shared parameters only."""

    num_local: int
    log_local_prior: Callable[[jax.Array], jax.Array]
    nodes: int
    """Nodes in each dimension."""
    most: int
    """The largest number of nodes in each dimension, to which they are padded."""

    def __call__(self, agents: Agent) -> MarginalAgent:
        """The agents with the potential (2), where `agents` have shared parameters only."""
        own: dict[str, Any] = {part.name: getattr(agents, part.name) for part in fields(Agent)}
        weights, given = agents.row_weights, self._nodes()

        def of_each(array: Any) -> jax.Array:
            array = jnp.asarray(array, weights.dtype if array.dtype.kind == "f" else None)
            return jnp.broadcast_to(array, (len(weights), *array.shape))

        nodes = jax.tree.map(of_each, given)
        return MarginalAgent(
            **own, nodes=nodes, own_dim=self.num_local, own_prior=self.log_local_prior
        )

    def _nodes(self) -> Nodes:
        points, logs = gauss_hermite(self.nodes, self.num_local)
        missing = len(gauss_hermite(max(self.nodes, self.most), self.num_local)[1]) - len(logs)
        padded = np.pad(points, ((0, missing), (0, 0))), np.pad(logs, (0, missing))
        return Nodes(*padded, np.asarray(len(logs)))


@pytree
@dataclass(frozen=True)
class MarginalAgent(Agent):
    """An agent whose potential is (2); rows and priors are those of shared and local parameters."""

    nodes: Nodes | None = None
    own_dim: int = field(default=0, metadata={"static": True})
    """q, the number of parameters that are integrated out."""
    own_prior: Callable[[jax.Array], jax.Array] | None = field(
        default=None, metadata={"static": True}
    )
    """(x, u) -> log p(u | x)."""

    @property
    def joint(self) -> Agent:
        """The agent of shared and local parameters, in the coordinates of the model."""
        own: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(Agent)}
        changed = {"num_local": self.own_dim, "log_local_prior": self.own_prior, "frame": None}
        return Agent(**{**own, **changed})

    def potential(self, z: jax.Array) -> jax.Array:
        """F at z, eq. (2)."""
        joint, x = self.joint, self._original(z)
        near = self.near(x)

        def add(total: Any, point: Any, log_weight: Any) -> Any:
            return jnp.logaddexp(total, log_weight - _at(joint, x, _placed(near, point)))

        total = self._over_nodes(add, jnp.asarray(-jnp.inf, x.dtype))
        return self._tilted(z, _finished(near, total))  # (2)

    def gradient(self, z: jax.Array) -> jax.Array:
        """The gradient of F at z, eq. (3), (dim,)."""
        return self.value_and_gradient(z)[1]

    def value_and_gradient(self, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """F and its gradient at z, from the same nodes."""
        joint, x = self.joint, self._original(z)
        near = self.near(x)

        def add(carried: Any, point: Any, log_weight: Any) -> Any:
            total, mean = carried
            value, slope = jax.value_and_grad(partial(_at, joint))(x, _placed(near, point))
            new = log_weight - value
            whole = jnp.logaddexp(total, new)
            before, now = _share(total, whole), _share(new, whole)
            return whole, before * mean + now * jnp.where(now > 0, slope, 0.0)  # (3)

        begin = jnp.asarray(-jnp.inf, x.dtype), jnp.zeros_like(x)
        total, slope = self._over_nodes(add, begin)
        value = _finished(near, total)
        if self.frame is None:
            return value, slope
        none = jnp.zeros((x.size, x.size), x.dtype)
        return self.frame.pull_back(z, value, slope, none)[:2]

    def hessian(self, z: jax.Array) -> jax.Array:
        """The matrix of second derivatives of F at z, (dim, dim)."""
        return jax.jacfwd(self.gradient)(z)

    def derivatives(self, z: jax.Array) -> Derivatives:
        """F, its gradient and its Hessian at z."""
        return *self.value_and_gradient(z), self.hessian(z)

    @property
    def has_derivatives(self) -> bool:
        """False: the likelihood's own derivatives are those with local parameters."""
        return False

    @property
    def knows_gradient(self) -> bool:
        """True: eq. (3)."""
        return True

    @property
    def is_sum_over_rows(self) -> bool:
        """False: an integral of an exponential of such a sum."""
        return False

    def near(self, x: jax.Array) -> Near:
        """m and S at x; 0 and I where there is no minimum, from which (2) is right, and rough."""
        x, joint = jax.lax.stop_gradient(x), self.joint
        origin, unit = jnp.zeros(joint.num_local, x.dtype), jnp.eye(joint.num_local, dtype=x.dtype)
        of_local = partial(_at, joint, x)
        derivatives = partial(_derivatives, of_local)
        mode = minimise(Objective(of_local, derivatives), origin).point
        factor = jnp.linalg.cholesky(derivatives(mode)[2])
        root = jax.scipy.linalg.solve_triangular(factor, unit, lower=True, trans="T")
        is_known = jnp.isfinite(mode).all() & jnp.isfinite(root).all()
        near = Near(jnp.where(is_known, mode, origin), jnp.where(is_known, root, unit))
        return jax.lax.stop_gradient(near)

    def own_draw(self, x: jax.Array, key: jax.Array, iteration: Any) -> jax.Array:
        """A draw of the local parameters given x in the model's coordinates, eq. (4), (local,).

        Args:
            x: the shared parameters, (shared,).
            key: the key of private noise of the agent and the chain.
            iteration: the number of the draw, which addresses its random numbers.
        """
        joint, near = self.joint, self.near(x)
        like = jnp.zeros((PROPOSALS, joint.num_local + FREEDOM), x.dtype)

        def sweep(number: Any, present: Any) -> Any:
            address = Round(iteration * SWEEPS + number, key, key)
            t = _students(address.private_noise(like))
            t = t.at[0].set(jnp.where(number == 0, t[0], present))
            of_node = jax.lax.map(lambda each: -_at(joint, x, _placed(near, each)), t)
            logs = of_node - _log_student(t)
            logs = jnp.where(jnp.isnan(logs), -jnp.inf, logs)
            return t[jax.random.categorical(address.batch_key(), logs)]  # (4)

        begin = jnp.zeros(joint.num_local, x.dtype)
        return _placed(near, jax.lax.fori_loop(0, SWEEPS, sweep, begin))

    def _original(self, z: jax.Array) -> jax.Array:
        return z if self.frame is None else self.frame.to_original(z)

    def _tilted(self, z: jax.Array, value: jax.Array) -> jax.Array:
        return value if self.frame is None else value - self.frame.tilt(z)

    def _over_nodes(self, add: Callable[[Any, Any, Any], Any], begin: Any) -> Any:
        """add(carried, t_k, log of its weight) over all nodes, one after the other."""
        nodes = self.nodes
        assert nodes is not None
        return jax.lax.fori_loop(
            0, nodes.count, lambda k, carried: add(carried, nodes.points[k], nodes.logs[k]), begin
        )


def gauss_hermite(number: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes t_k of eq. (2), (node, dim), and log w_k + |t_k|^2 / 2, (node,).

    >>> nodes, logs = gauss_hermite(5, 2)
    >>> round(float(np.exp(logs) @ np.exp(-np.sum(nodes**2, axis=1) / 2)), 12)  # 2 pi
    6.28318530718
    """
    points, weights = np.polynomial.hermite_e.hermegauss(number)
    nodes = np.array(list(itertools.product(points, repeat=dim)))
    products = np.prod(list(itertools.product(weights, repeat=dim)), axis=1)
    return nodes, np.log(products) + np.sum(nodes**2, axis=1) / 2


def _at(joint: Agent, x: jax.Array, u: jax.Array) -> jax.Array:
    """f(x, u)."""
    return joint.potential(jnp.concatenate([x, u]))


def _derivatives(function: Callable[[jax.Array], jax.Array], u: jax.Array) -> Derivatives:
    """A function of few numbers with its derivatives, traced once: models take long to trace."""

    def along(unit: jax.Array) -> tuple[Any, Any]:
        return jax.jvp(jax.value_and_grad(function), (u,), (unit,))

    unit = jnp.eye(u.size, dtype=u.dtype)
    (value, gradient), (_, hessian) = jax.vmap(along, out_axes=((None, None), (0, 0)))(unit)
    return value, gradient, hessian


def _placed(near: Near, t: jax.Array) -> jax.Array:
    """m + S t."""
    return near.mode + near.root @ t


def _finished(near: Near, total: jax.Array) -> jax.Array:
    """Eq. (2), from the logarithm of its sum."""
    return -jnp.sum(jnp.log(jnp.abs(jnp.diag(near.root)))) - total  # S is triangular


def _share(part: jax.Array, whole: jax.Array) -> jax.Array:
    """exp(part - whole), and 0 where both are minus infinity."""
    return jnp.where(jnp.isneginf(whole), 0.0, jnp.exp(part - whole))


def _students(normal: jax.Array) -> jax.Array:
    """Numbers of Student's law, (number, local), from normal ones (number, local + `FREEDOM`)."""
    squares = jnp.sum(normal[:, -FREEDOM:] ** 2, axis=1, keepdims=True)
    return normal[:, :-FREEDOM] / jnp.sqrt(squares / FREEDOM)


def _log_student(t: jax.Array) -> jax.Array:
    """log h of t (number, local), up to a constant."""
    return -(FREEDOM + t.shape[1]) / 2 * jnp.log1p(jnp.sum(t**2, axis=1) / FREEDOM)

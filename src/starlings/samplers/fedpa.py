"""FedPA: federated posterior averaging (Al-Shedivat, Gillenwater, Xing, Rostamizadeh 2021).

In each of T cycles, every site goes from the hub's x with a gradient g_i of f_i, full or from a
minibatch, over its n_i rows,

    y <- y - alpha g_i(y) / n_i,     from y = x,                                            (1)

and takes the averages of K steps in a row as draws y_1, ..., y_n of its own posterior, after B
steps that are dropped. With their mean m_i and covariance C_i, shrunk towards the identity,

    S_i = r I + (1 - r) C_i,     r = 1 / (1 + (n - 1) s),                                   (2)
    d_i = S_i^-1 (x - m_i),                                                                 (3)

and the hub makes a step with momentum along the mean over b sites,

    v' = beta v + (1 / b) sum_i d_i,     x' = x - eta v'                                    (4)

With S_i and m_i those of Gaussian sites, (4) stops at the mode of the posterior. With s = 0 it is
federated averaging, which stops elsewhere. Matrices are not formed for (3): with I + s sum (y - m)
(y - m)' of the first t draws in place of S_i, their mean m_t, and d_1 = x - y_1,

    u_t = y_t - m_{t-1},     c_t = s (t - 1) / t,                                           (5)
    v_t = u_t - sum_{k<t} c_k v_k (v_k'u_t) / (1 + c_k u_k'v_k),                            (6)
    d_t = d_{t-1} - (1 + c_t (t u_t'd_{t-1} - u_t'v_t) / (1 + c_t u_t'v_t)) v_t / t         (7)

and d_i = (1 + (n - 1) s) d_n, by O(n^2) products of vectors.

So far it searches, and draws nothing. Draws are a Laplace step, which is not part of the paper: in
cycle T + 1 the sites send the Hessians of f_i at the last x, and from then on the hub draws

    x' ~ N(x_T, (sum_i Hess f_i(x_T))^-1)                                                   (8)

in every cycle, for which no site has to send anything. Burn-in has to be 2 T + 2 rounds or more.
"""

from __future__ import annotations

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
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState, num_sites
from starlings.samplers.units import Units
from starlings.solvers.gradients import gradient_with

SEARCH, HESSIANS, DRAWS = range(3)
"""The phases: cycles 1 to T, cycle T + 1, and all others."""


class FedPAMemory(NamedTuple):
    """What the hub keeps; nobody else uses it."""

    velocity: Any
    """v of eq. (4)."""
    mode: Any
    """x_T."""
    root: Any
    """The Cholesky factor of the precision of (8), (dim, dim)."""


@pytree
@dataclass(frozen=True)
class FedPA(HubSampler):
    """Sites say where their own posterior pulls, by draws of it; then a Laplace step.

    Args:
        client_step: alpha; (1) is stable below 2 over the curvature of f_i per row.
        server_step: eta.
        shrinkage: s; 0 for federated averaging. The larger, the less is a covariance shrunk.
        momentum: beta, from 0 to below 1.
        updates: T, the cycles of the search.
        samples: n, the draws of a site in each of them.
        window: K, the steps that are averaged to a draw. A pass through the rows makes the spread
            of the averages that of the site's posterior, if gradients are those of minibatches.
        local_burn_in: B.
        batch_size: rows of a minibatch, drawn with replacement; all rows if None, and the averages
            then have no spread but that of their way to the site's mode.
    """

    client_step: Any
    server_step: Any = 1.0
    shrinkage: Any = 0.01
    momentum: Any = 0.0
    updates: int = choice(default=100)
    samples: int = choice(default=10)
    window: int = choice(default=10)
    local_burn_in: int = choice(default=100)
    batch_size: int | None = choice(default=None)

    step_field = "client_step"
    card: ClassVar[Card] = Card(
        title="FedPA",
        exchanged="position; directions to the sites' means, and once their Hessians",
        floats_per_parameter=1,
        floats_per_pair=1,
        bias="a Gaussian, about what the search has found; that is near the mode where the sites' "
        "posteriors are Gaussian and well sampled",
        reference="Al-Shedivat, Gillenwater, Xing, Rostamizadeh 2021; Laplace step: starlings",
        public_code="it searches only, and draws nothing",
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(client_step=self.client_step, server_step=self.server_step)
        if self.shrinkage != 0:
            check_positive(shrinkage=self.shrinkage)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"`momentum` must be from 0 to below 1, got {self.momentum}.")
        check_count(1, updates=self.updates, samples=self.samples, window=self.window)
        check_count(0, local_burn_in=self.local_burn_in)
        if self.batch_size is not None:
            check_count(1, batch_size=self.batch_size)

    @property
    def local_steps(self) -> int:
        """Steps (1) of a site in each cycle of the search."""
        return self.local_burn_in + self.samples * self.window

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """Those of every `HubSampler`, but for sites that have sent their Hessians."""
        most = np.where(np.arange(network.size) == network.centre, np.inf, self.updates + 1)
        return np.minimum(super().messages_until(rounds, network), most).astype(int)

    def gradients_per_round(self, problem: Problem) -> float:
        """None in the long run; see `gradients_until`."""
        return 0.0

    def gradients_until(self, rounds: np.ndarray, problem: Problem) -> np.ndarray:
        """Steps (1) in T cycles, by their share of the rows, and then a Hessian."""
        rows = float(problem.num_rows[problem.num_rows > 0].mean())
        share = 1.0 if self.batch_size is None else self.batch_size / rows
        cycles = (rounds + 1) // 2
        searched = np.minimum(cycles, self.updates) * self.local_steps * share
        return searched + (cycles > self.updates)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[FedPA]:
        """Steps alpha / n = g / M, with n the fewest rows that a site has."""
        rows = units.problem.num_rows
        steps = rows[rows > 0].min() * units.steps
        return [cls(float(step), **fixed) for step in steps]

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> FedPAMemory:
        """Nothing is known yet."""
        nothing = jnp.zeros_like(position)
        return FedPAMemory(nothing, nothing, jnp.eye(position.size, dtype=position.dtype))

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """A direction (3), a Hessian for (8), or nothing."""
        x = heard[: state.position.size]

        def direction(x: jax.Array) -> jax.Array:
            draws = self._draws(agent, x, round.batch_key())
            return self.packed(shrunk_direction(x, draws, self.shrinkage))  # (3)

        def curvature(x: jax.Array) -> jax.Array:
            return self.packed(jnp.zeros_like(x), agent.hessian(x)[jnp.triu_indices(x.size)])  # (8)

        phases = direction, curvature, lambda x: self.packed(jnp.zeros_like(x))
        cycle = (round.index + 1) // 2
        return state._replace(position=x, outgoing=jax.lax.switch(self._phase(cycle), phases, x))

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eq. (4), or a draw (8), for which the Hessians are added up once."""
        size = state.position.size

        def moved(state: HubState) -> HubState:
            mean = total[:size] / num_sites(agent)
            velocity = self.momentum * state.memory.velocity + mean  # (4)
            position = state.position - self.server_step * velocity  # (4)
            return HubState(position, self.packed(position), FedPAMemory(velocity, position, root))

        def fitted(state: HubState) -> HubState:
            upper = jnp.zeros_like(root).at[jnp.triu_indices(size)].set(total[size:])
            factor = jnp.linalg.cholesky(upper + jnp.triu(upper, 1).T)
            return drawn(state._replace(memory=state.memory._replace(root=factor)))

        def drawn(state: HubState) -> HubState:
            upper, noise = state.memory.root.T, round.private_noise(state.position)
            away = jax.scipy.linalg.solve_triangular(upper, noise, lower=False)
            position = state.memory.mode + away  # (8)
            return state._replace(position=position, outgoing=self.packed(position))

        root = state.memory.root
        return jax.lax.switch(self._phase(round.index // 2), (moved, fitted, drawn), state)

    def _phase(self, cycle: Any) -> Any:
        """`SEARCH`, `HESSIANS` or `DRAWS`."""
        return jnp.clip(cycle - self.updates, SEARCH, DRAWS)

    def _draws(self, agent: Agent, x: jax.Array, key: jax.Array) -> jax.Array:
        """y_1, ..., y_n, (samples, dim)."""
        pace = self.client_step / jnp.maximum(agent.num_rows, 1)
        keys = jax.random.split(key, self.local_steps)
        dropped, kept = keys[: self.local_burn_in], keys[self.local_burn_in :]

        def moved(y: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            y = y - pace * gradient_with(key, agent, y, self.batch_size)  # (1)
            return y, y

        def averaged(y: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
            y, path = jax.lax.scan(moved, y, keys)
            return y, path.mean(axis=0)

        y, _ = jax.lax.scan(moved, x, dropped)
        return jax.lax.scan(averaged, y, kept.reshape(self.samples, self.window))[1]


class _Directed(NamedTuple):
    """What eqs. (5) to (7) make of the first t draws."""

    mean: Any
    direction: Any
    vectors: Any
    """v_k, (draw, dim), with zeros for those that are not known yet."""
    weights: Any
    """c_k / (1 + c_k u_k'v_k), (draw,)."""


def shrunk_direction(x: jax.Array, draws: jax.Array, shrinkage: Any) -> jax.Array:
    """d_i of eqs. (2) and (3) from draws (draw, dim), by eqs. (5) to (7)."""

    def added(state: _Directed, index: jax.Array) -> tuple[_Directed, None]:
        mean, direction, vectors, weights = state
        t = index + 1
        u, c = draws[index] - mean, shrinkage * index / t  # (5)
        v = u - vectors.T @ (weights * (vectors @ u))  # (6)
        weight = c / (1 + c * (u @ v))
        factor = 1 + weight * (t * (u @ direction) - u @ v)
        direction = direction - factor * v / t  # (7)
        vectors, weights = vectors.at[index].set(v), weights.at[index].set(weight)
        return _Directed(mean + u / t, direction, vectors, weights), None

    count = len(draws)
    nothing = jnp.zeros_like(draws), jnp.zeros_like(draws[:, 0])
    start = _Directed(draws[0], x - draws[0], *nothing)
    last, _ = jax.lax.scan(added, start, jnp.arange(1, count))
    return (1 + (count - 1) * shrinkage) * last.direction

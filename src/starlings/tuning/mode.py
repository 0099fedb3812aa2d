"""The mode of the pooled posterior, by Newton's method on sums over the network.

With F = sum_i f_i, from sums of values, gradients and Hessians that every agent holds alike,

    x <- x - t |H|^-1 sum_i grad f_i(x),   t = 1, 1/2, 1/4, ... while F falls               (1)

where |H| has the absolute eigenvalues of sum_i Hess f_i, scaled to a unit diagonal first: far from
the mode a Hessian may be indefinite, and parameters differ in scale by orders. Past
`DENSE_DIMENSION` parameters only the diagonal of the Hessian is summed, and the direction is that
of L-BFGS started from it: a matrix with d^2 entries would be too much to send and to factorise.

Automatic differentiation is wrong at the very point where a density has a kink in one of its terms,
such as max(x, 0) or |x| at x = 0, even where the kinks of all terms cancel: the derivative there is
that of one side. Round numbers are such points, so derivatives are taken beside them, with
w ~ N(0, I) from a seed that all agents share and s_k the smaller of 1 and H_kk^-1/2,

    x_k + NUDGE s_k w_k                                                                      (2)

which moves the mode by a hundred-millionth of a standard deviation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import TuningError
from starlings.network.gossip import Gossip
from starlings.problem.agent import Agent

DENSE_DIMENSION = 300
MAX_ITERATIONS = 200
MEMORY = 20
"""Pairs of steps and changes of gradient that L-BFGS remembers."""
TOLERANCE = 1e-9
"""On half the squared Newton decrement: what F could still fall by."""
SMALLEST_EIGENVALUE = 1e-12
"""Of the scaled Hessian; rounding blurs it by some 1e-15, so that a smaller one is not known."""
NUDGE = 1e-8
TRIALS = 2.0 ** -np.arange(20)
PROBE = 1e-3
"""Of a search direction, by which its slope is measured from values on both sides."""

Derivatives = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of every agent: its value, gradient and Hessian, a matrix or the vector of its diagonal."""


class _StuckError(TuningError):
    """The search cannot move from where it is; from elsewhere it may."""


class Mode(NamedTuple):
    """Where the summed potential is least."""

    point: np.ndarray
    hessian: np.ndarray
    """The summed Hessian there: a matrix, or past `DENSE_DIMENSION` the vector of its diagonal."""
    iterations: int


def find_mode(
    gossip: Gossip,
    agents: Agent,
    starts: Sequence[np.ndarray],
    in_words: Callable[[np.ndarray], str] = str,
) -> Mode:
    """The mode by eq. (1), from the first start or, where the search gets stuck, from the others.

    `in_words` tells people where a point is.
    """
    first_failure: TuningError | None = None
    for start in starts:
        try:
            return _search(gossip, agents, start, in_words)
        except _StuckError as failure:
            first_failure = first_failure or TuningError(str(failure))
    assert first_failure is not None
    raise first_failure


def _search(
    gossip: Gossip, agents: Agent, start: np.ndarray, in_words: Callable[[np.ndarray], str]
) -> Mode:
    """Eq. (1) from one start."""
    point = agreed(gossip, beside(agents, start, np.ones_like(start)))
    directions = Newton() if len(point) <= DENSE_DIMENSION else LimitedMemory()
    for iteration in range(MAX_ITERATIONS):
        value, gradient, hessian = summed(gossip, derivatives_at(agents, point))
        if not np.isfinite(value):
            raise _StuckError(
                "the log-posterior is not finite where the search for its mode begins, at "
                f"{in_words(point)}; say with `initial` where it is."
            )
        direction = directions.next(point, gradient, hessian)
        if -gradient @ direction / 2 < TOLERANCE:
            return Mode(point, hessian, iteration)
        values = gossip.sum(values_at(agents, point + TRIALS[:, None] * direction))[0]
        allowed = value + 1e-4 * TRIALS * (gradient @ direction) + 1e-12 * abs(value)
        good = np.flatnonzero(np.asarray(values) <= allowed)
        if len(good) == 0:
            _explain(gossip, agents, point, direction, gradient @ direction, in_words)
        following = point + TRIALS[good[0]] * direction  # (1)
        point = agreed(gossip, beside(agents, following, _widths(hessian)))
    raise TuningError(
        f"no mode was found in {MAX_ITERATIONS} Newton iterations: the log-posterior still rises "
        f"at {in_words(point)}. A hierarchical model in its centred form (theta ~ N(mu, tau)) has "
        "no mode, since its density is infinite at tau = 0: write it non-centred (theta = mu + tau "
        "* eta, eta ~ N(0, 1)). A model without a proper prior may have no mode either. Otherwise "
        "say with `initial` where the mode is, or choose a sampler yourself."
    )


def beside(agents: Agent, point: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Eq. (2); where potentials are quadratic, the point itself: their derivatives are known."""
    if agents.quadratic is not None:
        return point
    return point + NUDGE * widths * np.random.default_rng(0).standard_normal(len(point))  # (2)


def _widths(hessian: np.ndarray) -> np.ndarray:
    """s of eq. (2)."""
    diagonal = hessian if hessian.ndim == 1 else np.diag(hessian)
    return 1 / np.sqrt(np.maximum(np.abs(diagonal), 1.0))


def _explain(
    gossip: Gossip,
    agents: Agent,
    point: np.ndarray,
    direction: np.ndarray,
    slope: float,
    in_words: Callable[[np.ndarray], str],
) -> NoReturn:
    """Why F does not fall along a direction of descent: are its derivatives wrong?"""
    step = PROBE / max(1.0, np.sqrt(-slope))
    ends = point + step * np.array([[1.0], [-1.0]]) * direction
    ahead, behind = np.asarray(gossip.sum(values_at(agents, ends))[0])
    measured = (ahead - behind) / (2 * step)
    if np.isfinite(measured) and abs(measured - slope) <= 0.1 * abs(slope):
        raise _StuckError(
            f"no mode was found: the search is stuck at {in_words(point)}. Where a density has "
            "kinks, as by |x| or max(x, 0), write it with smooth functions or choose a sampler "
            "yourself; otherwise say with `initial` where the mode is."
        )
    raise _StuckError(
        f"the log-posterior has wrong derivatives at {in_words(point)}: along the direction of the "
        f"search its slope is {-measured:.3g} by its values and {-slope:.3g} by automatic "
        "differentiation. Kinks, rounding, comparisons and stopped gradients do that: write the "
        "model with smooth functions, or choose a sampler yourself."
    )


class Newton:
    """Directions from the whole Hessian."""

    def next(self, point: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """-|H|^-1 g, by the eigenvalues of H scaled to a unit diagonal."""
        unit, values, vectors = _scaled_eigen(hessian)
        return -unit * (vectors @ ((vectors.T @ (unit * gradient)) / values))


class LimitedMemory:
    """Directions of L-BFGS, started from the absolute diagonal of the Hessian."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def next(self, point: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """-B g, with B the inverse Hessian that the remembered pairs suggest."""
        self._remember(point, gradient)
        direction, passed = -gradient, []
        for step, change in reversed(self.pairs):
            share = (step @ direction) / (step @ change)
            direction = direction - share * change
            passed.append(share)
        direction = direction / np.maximum(np.abs(hessian), SMALLEST_EIGENVALUE)
        for (step, change), share in zip(self.pairs, reversed(passed), strict=True):
            direction = direction + (share - (change @ direction) / (step @ change)) * step
        return direction

    def _remember(self, point: np.ndarray, gradient: np.ndarray) -> None:
        if self.last is not None:
            step, change = point - self.last[0], gradient - self.last[1]
            if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
                self.pairs.append((step, change))
        self.last = (point, gradient)


def inverse_root(hessian: np.ndarray) -> np.ndarray:
    """L with L L' = |H|^-1, a matrix or the vector of a diagonal."""
    if hessian.ndim == 1:
        return 1 / np.sqrt(np.maximum(np.abs(hessian), SMALLEST_EIGENVALUE))
    unit, values, vectors = _scaled_eigen(hessian)
    return unit[:, None] * vectors / np.sqrt(values)


def flat_direction(hessian: np.ndarray) -> np.ndarray | None:
    """How much each parameter takes part in a direction of no known curvature, if there is one."""
    if hessian.ndim == 1:
        return None
    _, values, vectors = _scaled_eigen(hessian)
    flattest = int(values.argmin())
    return np.abs(vectors[:, flattest]) if values[flattest] <= SMALLEST_EIGENVALUE else None


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    diagonal = np.abs(np.diag(hessian))
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-12)))
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    return unit, np.maximum(np.abs(values), SMALLEST_EIGENVALUE), vectors


def summed(gossip: Gossip, derivatives: Derivatives) -> tuple[float, np.ndarray, np.ndarray]:
    """F, its gradient and its Hessian (or the diagonal), from `derivatives_at` of every agent."""
    values, gradients, packed = derivatives
    dim, is_dense = gradients.shape[1], packed.ndim == 3
    if is_dense:
        upper = np.triu_indices(dim)
        packed = packed[:, *upper]
    total = np.asarray(gossip.sum(np.column_stack([values, gradients, packed])))[0]
    value, gradient, packed = float(total[0]), total[1 : 1 + dim], total[1 + dim :]
    if not is_dense:
        return value, gradient, packed
    hessian = np.zeros((dim, dim))
    hessian[upper] = packed
    return value, gradient, hessian + np.triu(hessian, 1).T


def derivatives_at(agents: Agent, point: np.ndarray) -> Derivatives:
    """f_i, its gradient and its Hessian (or the diagonal), agent by agent."""
    if agents.quadratic is None:
        values, gradients, hessians = map(np.asarray, _derivatives_at(agents, point))
        return values, gradients, hessians
    values, gradients, hessians = agents.quadratic.derivatives(point)  # without compiling anything
    is_dense = len(point) <= DENSE_DIMENSION
    return values, gradients, hessians if is_dense else np.einsum("ijj->ij", hessians)


@jax.jit
def _derivatives_at(agents: Agent, point: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jax.vmap(lambda a: (a.potential(point), a.gradient(point), hessian_of(a, point)))(agents)


def hessian_of(agent: Agent, point: jax.Array) -> jax.Array:
    """The Hessian of one agent's potential, or its diagonal past `DENSE_DIMENSION`."""
    if len(point) <= DENSE_DIMENSION:
        hessian = agent.hessian(point)
        return (hessian + hessian.T) / 2

    def entry(k):
        unit = jnp.zeros_like(point).at[k].set(1.0)
        return jax.jvp(agent.gradient, (point,), (unit,))[1][k]

    return jax.lax.map(entry, jnp.arange(len(point)))


def values_at(agents: Agent, points: np.ndarray) -> Any:
    """f_i of every agent at several points, (agent, point)."""
    if agents.quadratic is None:
        return _values_at(agents, points)
    return np.column_stack([agents.quadratic.values(point) for point in points])


@jax.jit
def _values_at(agents: Agent, points: Any) -> jax.Array:
    return jax.vmap(lambda agent: jax.vmap(agent.potential)(points))(agents)


def agreed(gossip: Gossip, value: np.ndarray) -> np.ndarray:
    """The value as agent 0 has it, after it has flooded the network."""
    copies = np.broadcast_to(value, (len(gossip.network.local), *np.shape(value)))
    return gossip.flood(copies)[-1]

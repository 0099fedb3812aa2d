"""The exact law of every sampler on quadratic potentials.

With f_i(x) = x'H_i x / 2 - b_i'x all samplers are linear-Gaussian recursions of a stacked state s,

    s' = T s + c + B w,      w ~ N(0, I)                                                  (1)
    draws = E s + e,         e ~ N(0, R)  (the half-noise output; otherwise R = 0)        (2)

so their means and covariances are known at every round and in the limit:

    mean' = T mean + c,      cov' = T cov T' + B B'                                       (3)

The matrices are written from the equations of the papers, for all agents at once, and not from
`step`: a test that compares a simulation with this module compares two derivations.

Notation: A adjacency, D = diag(degrees), L = D - A, L+ = D + A, W Metropolis weights, all acting on
stacked vectors (a Kronecker product with the identity of the parameters), H = blockdiag(H_i).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from starlings.errors import StabilityError
from starlings.network import Network
from starlings.problem import Problem
from starlings.samplers import CADMM, DADMMS, DSGHMC, DSGLD, DULA, Decay, MidpointADMMS

LARGEST_CHECKED = 400


class Recursion(NamedTuple):
    """T, c and B of eq. (1) in one round."""

    transition: np.ndarray
    offset: np.ndarray
    noise: np.ndarray

    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue of T: the factor of the slowest mode per round."""
        return float(np.max(np.abs(np.linalg.eigvals(self.transition))))


@dataclass(frozen=True)
class Moments:
    """Mean (agents, dim) and covariance (agents dim, agents dim) of all agents' draws."""

    mean: np.ndarray
    covariance: np.ndarray

    def agent(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of one agent's draw."""
        dim = self.mean.shape[1]
        block = slice(index * dim, (index + 1) * dim)
        return self.mean[index], self.covariance[block, block]

    def average(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the average over the agents."""
        size, dim = self.mean.shape
        blocks = self.covariance.reshape(size, dim, size, dim)
        return self.mean.mean(axis=0), blocks.mean(axis=(0, 2))

    def worst_agent_w2(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        """The largest W2 distance of an agent's law from a Gaussian."""
        agents = range(len(self.mean))
        return max(gaussian_w2(*self.agent(i), mean, covariance) for i in agents)


@dataclass(frozen=True)
class Law:
    """The law of one sampler on one quadratic problem and network, eqs. (1) to (3)."""

    shape: tuple[int, int]
    """(agents, dim)."""
    recursion: Callable[[int], Recursion]
    """The matrices of round k = 1, 2, ..."""
    readout_covariance: np.ndarray
    """R of eq. (2)."""
    varies: bool
    """Whether the matrices change from round to round."""

    def moments(
        self, rounds: int, initial_mean: Any = 0.0, initial_covariance: Any = 1.0
    ) -> Iterator[Moments]:
        """The law of the draws after 0, 1, ..., `rounds` rounds.

        Positions start independently at every agent from N(initial_mean, initial_covariance),
        given for one agent: a vector and a matrix, or numbers for multiples of one and the
        identity. Velocities start from N(0, I) and dual variables at zero.
        """
        size, dim = self.shape
        start = np.broadcast_to(np.asarray(initial_mean, float), (size, dim)).ravel()
        spread = np.asarray(initial_covariance, float)
        spread = spread * np.eye(dim) if spread.ndim == 0 else spread
        mean, covariance = self._start(start, np.kron(np.eye(size), spread))
        yield self._read(mean, covariance)
        for k in range(1, rounds + 1):
            T, c, B = self.recursion(k)
            mean, covariance = T @ mean + c, T @ covariance @ T.T + B @ B.T  # (3)
            yield self._read(mean, covariance)

    def stationary(self) -> Moments:
        """The limit of (3): the fixed point of the mean, and the sum of T^k B B' T'^k."""
        return self._read(*self._stationary_state())

    def autocorrelation_rounds(self, agent: int = 0) -> np.ndarray:
        """The integrated autocorrelation time of each coordinate of an agent's iterate x.

        With S the stationary covariance of the state, S_k = T^k S the covariance at lag k,

            1 + 2 sum_{k>0} corr_k = (2 (I - T)^-1 S - S) / S,  on the diagonal           (4)
        """
        _, covariance = self._stationary_state()
        T = self.recursion(1).transition
        summed = 2 * np.linalg.solve(np.eye(len(T)) - T, covariance) - covariance
        block = slice(agent * self.shape[1], (agent + 1) * self.shape[1])
        return np.diag(summed)[block] / np.diag(covariance)[block]  # (4)

    def _stationary_state(self) -> tuple[np.ndarray, np.ndarray]:
        if self.varies:
            raise ValueError("a sampler whose steps decay has no stationary law.")
        step = self.recursion(1)
        radius = step.spectral_radius()
        if radius >= 1:
            raise StabilityError(f"no stationary law: the spectral radius is {radius:.6g}.")
        T, c, B = step
        mean = np.linalg.solve(np.eye(len(T)) - T, c)
        covariance, power = B @ B.T, T
        while np.abs(power).max() > 1e-18:  # doubles the number of terms
            covariance = covariance + power @ covariance @ power.T
            power = power @ power
        return mean, covariance

    def relaxation_rounds(self) -> float:
        """Rounds in which the slowest mode shrinks by a factor e."""
        return -1.0 / np.log(self.recursion(1).spectral_radius())

    def _start(self, position, spread):
        extra = len(self.recursion(1).offset) - len(position)
        has_velocity = extra == len(position)
        mean = np.concatenate([position, np.zeros(extra)])
        rest = np.eye(extra) if has_velocity else np.zeros((extra, extra))
        return mean, scipy.linalg.block_diag(spread, rest)

    def _read(self, mean, covariance):
        count = self.shape[0] * self.shape[1]
        draws = covariance[:count, :count] + self.readout_covariance  # (2)
        return Moments(mean[:count].reshape(self.shape), draws)


def law(problem: Problem, network: Network, sampler: Any) -> Law:
    """The exact law of a sampler with full gradients on a quadratic problem."""
    if problem.quadratic is None:
        raise ValueError("exact laws are known for quadratic potentials only.")
    if getattr(sampler, "batch_size", None) is not None:
        raise ValueError("exact laws are known for full gradients only, not for minibatches.")
    if type(sampler) not in _LAWS:
        known = ", ".join(kind.__name__ for kind in _LAWS)
        raise ValueError(
            f"no exact law is known for {type(sampler).__name__}; there is one for {known}."
        )
    stacked = Stacked.of(problem, network.matched_to(problem.sites))
    return _LAWS[type(sampler)](stacked, sampler)


@dataclass(frozen=True)
class Stacked:
    """A quadratic problem on a network as matrices on stacked vectors."""

    shape: tuple[int, int]
    H: np.ndarray
    b: np.ndarray
    A: np.ndarray
    W: np.ndarray
    degrees: np.ndarray

    @classmethod
    def of(cls, problem: Problem, network: Network) -> Stacked:
        """Gather what the laws are written in."""
        quadratic = problem.quadratic
        assert quadratic is not None
        return cls(
            shape=(problem.num_agents, problem.dim),
            H=scipy.linalg.block_diag(*quadratic.hessian),
            b=quadratic.linear.ravel(),
            A=network.adjacency.toarray(),
            W=network.mixing.toarray(),
            degrees=network.degrees.astype(float),
        )

    @property
    def laplacian(self) -> np.ndarray:
        """L, on agents only."""
        return np.diag(self.degrees) - self.A

    def lift(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix on agents as one on stacked vectors."""
        return np.kron(matrix, np.eye(self.shape[1]))

    def unit_noise(self, noise: str) -> np.ndarray:
        """A factor of the covariance of noises whose average has variance 1/N."""
        size, dim = self.shape
        if noise == "private":
            return np.eye(size * dim)
        return np.tile(np.eye(dim), (size, 1)) / np.sqrt(size)


def _admm_law(
    s: Stacked, rho: float, noise: np.ndarray, readout: np.ndarray, reflects: bool = False
) -> Law:
    """State (x, q) with duals p = U q, U a basis of the range of L: their sum stays zero.

    (H + 2 rho D) y = rho L+ x - p + b - n,     p' = p + rho L y            (5)
    x' = y,   or reflected   x' = 2 y - D^-1 L+ x / 2                       (6)

    `noise` is a factor of the covariance of n, `readout` of the covariance of e in (2).
    """
    values, vectors = np.linalg.eigh(s.laplacian)
    U = s.lift(vectors[:, values > 1e-9 * max(1.0, values[-1])])
    L, D = s.lift(s.laplacian), s.lift(np.diag(s.degrees))
    solve = np.linalg.inv(s.H + 2 * rho * D)
    Lplus = 2 * D - L
    from_x, from_q = rho * solve @ Lplus, -solve @ U
    dual = rho * U.T @ L
    bottom = np.hstack([dual @ from_x, np.eye(U.shape[1]) + dual @ from_q])
    factor = 2.0 if reflects else 1.0
    mean = s.lift(np.diag(0.5 / np.maximum(s.degrees, 1))) @ Lplus if reflects else 0.0
    top = np.hstack([factor * from_x - mean, factor * from_q])  # (6)
    offset = np.concatenate([factor * solve @ s.b, dual @ solve @ s.b])
    kick = np.vstack([-factor * solve @ noise, -dual @ solve @ noise])
    step = Recursion(np.vstack([top, bottom]), offset, kick)
    return Law(s.shape, lambda k: step, readout @ readout.T, varies=False)


def _dadmms_law(s: Stacked, sampler: DADMMS) -> Law:
    """n = sqrt(2) D w, 2 sqrt(rho D) w, or 2 sqrt(rho / sum d) D 1 w with one w for all.

    Curvature-matched noise adds H^1/2 w with a w for each agent, or H 1 w with one for all.
    The half-noise output adds e = -n / (4 rho D) with a fresh n.
    """
    rho, d = float(sampler.rho), s.degrees
    if sampler.noise == "paper":
        noise = s.lift(np.diag(np.sqrt(2) * d))
    elif sampler.noise == "private":
        noise = s.lift(np.diag(2 * np.sqrt(rho * d)))
    else:
        noise = _coherent_noise(s, rho)
        if sampler.noise == "curvature":
            values, vectors = np.linalg.eigh(s.H)
            noise = np.hstack([noise, vectors * np.sqrt(np.maximum(values, 0))])
        elif sampler.noise == "coherent-curvature":
            noise = np.hstack([noise, s.H @ np.tile(np.eye(s.shape[1]), (s.shape[0], 1))])
    readout = np.zeros_like(noise)
    if sampler.output == "half-noise":
        readout = s.lift(np.diag(1 / (4 * rho * np.maximum(d, 1)))) @ noise
    return _admm_law(s, rho, noise, readout)


def _coherent_noise(s: Stacked, rho: float) -> np.ndarray:
    scale = 2 * np.sqrt(rho / max(s.degrees.sum(), 1.0))
    return np.kron((scale * s.degrees)[:, None], np.eye(s.shape[1]))


def _midpoint_law(s: Stacked, sampler: MidpointADMMS) -> Law:
    """Coherent noise of half the variance, reflected."""
    rho = float(sampler.rho)
    noise = _coherent_noise(s, rho) / np.sqrt(2)
    return _admm_law(s, rho, noise, np.zeros_like(noise), reflects=True)


def _cadmm_law(s: Stacked, sampler: CADMM) -> Law:
    nothing = np.zeros((s.shape[0] * s.shape[1], 1))
    return _admm_law(s, float(sampler.rho), nothing, nothing)


def _dsgld_law(s: Stacked, sampler: DSGLD) -> Law:
    """x' = (W - eta H) x + eta b + sqrt(2 eta) u."""
    eta = float(sampler.step_size)
    kick = np.sqrt(2 * eta) * s.unit_noise(sampler.noise)
    step = Recursion(s.lift(s.W) - eta * s.H, eta * s.b, kick)
    return Law(s.shape, lambda k: step, np.zeros_like(s.H), varies=False)


def _dsghmc_law(s: Stacked, sampler: DSGHMC) -> Law:
    """v' = (1 - eta gamma) v - eta H x + eta b + sqrt(2 gamma eta) u,   x' = W x + eta v'."""
    eta, gamma = float(sampler.step_size), float(sampler.friction)
    eye = np.eye(len(s.b))
    x_to_v, v_to_v = -eta * s.H, (1 - eta * gamma) * eye
    transition = np.block([[s.lift(s.W) + eta * x_to_v, eta * v_to_v], [x_to_v, v_to_v]])
    offset = np.concatenate([eta**2 * s.b, eta * s.b])
    kick = np.sqrt(2 * gamma * eta) * s.unit_noise(sampler.noise)
    step = Recursion(transition, offset, np.vstack([eta * kick, kick]))
    return Law(s.shape, lambda k: step, np.zeros_like(s.H), varies=False)


def _dula_law(s: Stacked, sampler: DULA) -> Law:
    """x' = (I - zeta_k L - alpha_k N H) x + alpha_k N b + sqrt(2 alpha_k N) u."""
    size = s.shape[0]
    L, eye, noise = s.lift(s.laplacian), np.eye(len(s.b)), s.unit_noise(sampler.noise)

    def recursion(k: int) -> Recursion:
        alpha, zeta = (float(step) for step in sampler.steps_at(k - 1))
        transition = eye - zeta * L - alpha * size * s.H
        return Recursion(transition, alpha * size * s.b, np.sqrt(2 * alpha * size) * noise)

    return Law(s.shape, recursion, np.zeros_like(s.H), varies=_decays(sampler))


_LAWS: dict[type, Callable[[Stacked, Any], Law]] = {
    DADMMS: _dadmms_law,
    CADMM: _cadmm_law,
    MidpointADMMS: _midpoint_law,
    DSGLD: _dsgld_law,
    DSGHMC: _dsghmc_law,
    DULA: _dula_law,
}


def gaussian_w2(
    mean: np.ndarray, covariance: np.ndarray, other_mean: np.ndarray, other_covariance: np.ndarray
) -> float:
    """The 2-Wasserstein distance of two Gaussians.

    W2^2 = |m - m'|^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2)

    >>> import numpy as np
    >>> gaussian_w2(np.zeros(1), np.eye(1), np.full(1, 3.0), 25 * np.eye(1))
    5.0
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    cross = np.linalg.eigvalsh(root @ other_covariance @ root)
    trace = np.trace(covariance) + np.trace(other_covariance)
    trace -= 2 * np.sqrt(np.maximum(cross, 0)).sum()
    return float(np.sqrt(max(0.0, np.sum((mean - other_mean) ** 2) + trace)))


def check_stability(problem: Problem, network: Network, sampler: Any) -> None:
    """Refuse a constant step at which a gradient-based sampler explodes on a quadratic problem."""
    constant = hasattr(sampler, "step_size") and not _decays(sampler)
    constant = constant and type(sampler) in _LAWS
    too_large = problem.num_agents * problem.dim > LARGEST_CHECKED
    if problem.quadratic is None or not constant or too_large:
        return
    stacked, wanted = Stacked.of(problem, network), sampler.step_size
    wanted = float(wanted.at(0) if isinstance(wanted, Decay) else wanted)

    def is_stable(step_size: float) -> bool:
        step = _LAWS[type(sampler)](stacked, replace(sampler, step_size=step_size)).recursion(1)
        return step.spectral_radius() < 1

    if is_stable(wanted):
        return
    low, high = 0.0, wanted
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    remedy = f"take less than {low:.3g}" if low > 0 else f"no step is stable in {sampler}"
    raise StabilityError(
        f"`step_size` {wanted} is beyond the stability limit of this problem; {remedy}."
    )


def _decays(sampler: Any) -> bool:
    steps = [getattr(sampler, name, None) for name in ("step_size", "consensus_step")]
    return any(isinstance(step, Decay) and step.exponent > 0 for step in steps)

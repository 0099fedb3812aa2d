"""How fast D-ADMMS converges: the theorem of its paper as numbers, and what holds without it.

Letters are those of the paper: N agents with potentials f_i and d_i neighbours, penalty rho,
positions X, duals beta, D = diag(d_i), A the adjacency matrix, and w ~ N(0, I) the noise of a
round. The graph enters through one column per arc (i, j), both directions of every edge,

    M+ = [e_i + e_j],   M- = [e_i - e_j],   L+ = M+M+'/2 = D + A,   L- = M-M-'/2 = D - A       (1)

and the problem through m_f and M_f, the smallest and largest curvature of any f_i. Write
S = sigma_max(M+), s = sigma_min(M-) (the smallest that is not zero), tau_G = S / s and
tau_f = M_f / m_f. The contraction of consensus ADMM (Shi et al., 2014) is, for any kappa > 1,

    delta = min{ (kappa - 1) s^2 / (kappa S^2), m_f / (rho S^2 / 4 + kappa M_f^2 / (rho s^2)) } (2)

largest for given rho where both are equal, for given kappa at rho(kappa), and over both at

    rho(kappa) = 2 sqrt(kappa) M_f / (s S),   t = tau_G / tau_f                                (3)
    kappa = 1 + t^2 / 2 + sqrt(t^4 + 4 t^2) / 2
    delta_max = (sqrt(tau_f^-2 + 4 tau_G^-2) / tau_f - tau_f^-2) / 2

Lemma 2 of the paper, whose inequalities `bound` evaluates, has the coefficients

    a = (2 m_f + 1) / (2 m_f (1 + delta)),    b = 1 / (2 (1 + delta)),                         (4)
    c = 2 sqrt(2) delta / ((1 + delta) s^2),  d = rho sigma_max(M-)^2 / 2,
    e = 2 delta / ((1 + delta) rho s^2)

and its theorem the condition a < 1, that is 2 m_f delta > 1. The printed c lacks a factor 1 / rho:
the step of the proof that introduces it is false without the factor for rho < 1, and sharp with it.

Convergence needs no condition. The difference of two runs with the same noise obeys the
contraction of the noiseless algorithm, so

    |dU'|_G <= (1 + delta)^(-1/2) |dU|_G,      U = (Z, beta),   for every rho > 0              (5)

and one round of noise moves U by at most |D w| / (2 sqrt(m_f)), so that

    |U' - U*|_G <= (1 + delta)^(-1/2) |U - U*|_G + |D w| / (2 sqrt(m_f))                       (6)

whose square is below the right side of Lemma 2 even at c = 0: the lemma holds with either c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.integrate import quad

from starlings.network import Network
from starlings.problem import Problem


class GraphMatrices(NamedTuple):
    """The matrices of (1), sparse; rows are stacked agent by agent, parameters within."""

    incidence_plus: Any
    """M+, (agents dim, 2 edges dim)."""
    incidence_minus: Any
    """M-, of the same shape."""
    signless: Any
    """L+, (agents dim, agents dim)."""
    laplacian: Any
    """L-, of the same shape."""
    degrees: Any
    """D, of the same shape."""


def graph_matrices(network: Network, dim: int = 1) -> GraphMatrices:
    """M+, M-, L+, L- and D of a network, acting on `dim` parameters per agent.

    >>> matrices = graph_matrices(Network.path(2))
    >>> matrices.incidence_minus.toarray().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    tails, heads = network.adjacency.nonzero()
    arcs, shape = np.arange(len(tails)), (network.size, len(tails))
    leave = scipy.sparse.csr_array((np.ones(len(arcs)), (tails, arcs)), shape=shape)
    enter = scipy.sparse.csr_array((np.ones(len(arcs)), (heads, arcs)), shape=shape)
    degrees, adjacency = scipy.sparse.diags_array(network.degrees.astype(float)), network.adjacency
    on_agents = (leave + enter, leave - enter, degrees + adjacency, degrees - adjacency, degrees)
    eye = scipy.sparse.eye_array(dim)
    return GraphMatrices(*(scipy.sparse.kron(m, eye, format="csr") for m in on_agents))


@dataclass(frozen=True)
class Conditioning:
    """The five numbers of a problem and a network on which the theory depends."""

    plus_max: float
    """sigma_max(M+)."""
    minus_min: float
    """sigma_min(M-), the smallest singular value that is not zero."""
    minus_max: float
    """sigma_max(M-)."""
    strong_convexity: float
    """m_f, the smallest curvature of any agent's potential."""
    smoothness: float
    """M_f, the largest curvature of any agent's potential."""

    @classmethod
    def of(cls, problem: Problem, network: Network) -> Conditioning:
        """The numbers of a quadratic problem; for any other, pass its `quadratic_model`."""
        if network.num_edges == 0:
            raise ValueError(
                "`network` has no edges, so that its agents never agree; connect them."
            )
        if problem.quadratic is None:
            raise ValueError(
                "`problem` is not quadratic; pass `starlings.theory.quadratic_model(problem)`."
            )
        curvatures = problem.quadratic.curvatures
        if curvatures.min() <= 0:
            raise ValueError(
                "the potential of every agent of `problem` must be strongly convex, but the "
                f"smallest curvature is {curvatures.min():.3g}; a proper prior or more rows raise "
                "it."
            )
        network = network.matched_to(problem.sites)
        minus = network.laplacian_spectrum()
        plus = np.linalg.eigvalsh(2 * np.diag(network.degrees) - network.laplacian)
        singular = np.sqrt(2 * np.array([plus[-1], minus[1], minus[-1]]))  # (1)
        return cls(*map(float, (*singular, curvatures.min(), curvatures.max())))

    @property
    def graph_condition(self) -> float:
        """tau_G, the condition number of the graph."""
        return self.plus_max / self.minus_min

    @property
    def condition(self) -> float:
        """tau_f, the condition number of the potentials."""
        return self.smoothness / self.strong_convexity

    def delta(self, kappa: float, rho: float) -> float:
        """delta, the contraction that is guaranteed, eq. (2)."""
        S, s, M = self.plus_max**2, self.minus_min**2, self.smoothness**2
        second = self.strong_convexity / (rho * S / 4 + kappa * M / (rho * s))
        return min((kappa - 1) * s / (kappa * S), second)  # (2)

    def best_kappa(self, rho: float) -> float:
        """The kappa at which (2) is largest for one rho: the root above 1 of the equality."""
        S, s, M = self.plus_max**2, self.minus_min**2, self.smoothness**2
        square, constant = M / rho, rho * s * S / 4
        linear = constant - square - self.strong_convexity * S
        root = np.sqrt(linear**2 + 4 * square * constant)
        if linear > 0:  # the same root without cancellation
            return 2 * constant / (linear + root)
        return (root - linear) / (2 * square)

    def best_rho(self, kappa: float) -> float:
        """The rho at which (2) is largest for one kappa, eq. (3)."""
        return 2 * np.sqrt(kappa) * self.smoothness / (self.minus_min * self.plus_max)

    def optimum(self) -> tuple[float, float, float]:
        """kappa, rho and delta_max, eq. (3)."""
        t = self.graph_condition / self.condition
        kappa = 1 + t**2 / 2 + np.sqrt(t**4 + 4 * t**2) / 2
        f, G = self.condition**-2, self.graph_condition**-2
        return kappa, self.best_rho(kappa), (np.sqrt(f**2 + 4 * f * G) - f) / 2  # (3)

    def largest_condition(self) -> float:
        """The tau_f below which some rho has a < 1: tau_f^2 = 4 m_f^2 / tau_G^2 - 2 m_f, or 0."""
        m = self.strong_convexity
        return float(np.sqrt(max(0.0, 4 * m**2 / self.graph_condition**2 - 2 * m)))


class Coefficients(NamedTuple):
    """The constants a to e of Lemma 2, eq. (4)."""

    a: float
    b: float
    c: float
    d: float
    e: float


def coefficients(
    numbers: Conditioning, rho: float, kappa: float | None = None, corrected: bool = True
) -> Coefficients:
    """The constants of Lemma 2, eq. (4).

    Args:
        numbers: those of the problem and the network.
        rho: the penalty.
        kappa: the free constant of (2), above 1; by default the best one for this rho.
        corrected: give c the factor 1 / rho that the paper's proof drops.
    """
    kappa = numbers.best_kappa(rho) if kappa is None else kappa
    if kappa <= 1:
        raise ValueError(f"`kappa` must be above 1, got {kappa}; leave it out for the best one.")
    m, delta, s = numbers.strong_convexity, numbers.delta(kappa, rho), numbers.minus_min**2
    return Coefficients(  # (4)
        a=(2 * m + 1) / (2 * m * (1 + delta)),
        b=1 / (2 * (1 + delta)),
        c=2 * np.sqrt(2) * delta / ((1 + delta) * s) / (rho if corrected else 1.0),
        d=rho * numbers.minus_max**2 / 2,
        e=2 * delta / ((1 + delta) * rho * s),
    )


def contraction_rate(numbers: Conditioning, rho: float) -> float:
    """The factor (1 + delta)^(-1/2) per round of (5), at the best kappa for this rho."""
    return float((1 + numbers.delta(numbers.best_kappa(rho), rho)) ** -0.5)


def noise_norm(network: Network, dim: int) -> tuple[float, float]:
    """E |D w| and E |D w|^2 for w ~ N(0, I).

    The second is dim sum_i d_i^2. The first has no closed form where degrees differ; with
    phi(t) = E exp(-t |D w|^2) = prod_i (1 + 2 t d_i^2)^(-dim / 2) it is the integral

        E |D w| = pi^(-1/2) int_0^inf (1 - phi(v^2)) / v^2 dv

    The part of the integral above v = 1 is substituted by 1 / v. The integrand is then smooth on
    [0, 1], and the result is as accurate as `quad`.
    """
    square = float(dim * np.sum(network.degrees.astype(float) ** 2))
    weights = 2 * network.degrees**2 / square

    def one_minus_phi(t: float) -> float:
        return -np.expm1(-0.5 * dim * np.sum(np.log1p(t * weights)))

    def integrand(v: float) -> float:
        return one_minus_phi(v**2) / v**2 + one_minus_phi(v**-2)

    integral = quad(integrand, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12)[0]
    return float(np.sqrt(square / np.pi) * integral), square

"""The paper's convergence theorem in numbers, beside the exact distances that it bounds.

The theorem is about D-ADMMS with the noise of its paper (Algorithm 1 as printed). With
t = |D w| for w ~ N(0, I), q = 1 / (sqrt(2) m_f) + sqrt(2), a to e of `convergence` eq. (4), and
the error W_G^2 = rho E |Z - Z*|^2 + E |beta - beta*|^2 / rho of Z = M+'X / 2 and beta, Lemma 2 says

    y = (2 b q / sqrt(m_f) + c sigma_max(M-) sqrt(rho) + c d / sqrt(m_f)) t                    (1)
    r = (sqrt(2) b q / m_f + b q^2 + b / (2 m_f^2) + sqrt(2) c d / m_f - e) t^2                (2)
    W_G' <= sqrt(a) W_G + h + sqrt|E r - h^2|,      h = E y / (2 sqrt(a))                      (3)
    W(X') <= W_G / sqrt(m_f) + sqrt(E t^2) / (sqrt(2) m_f) + W(X* - D w / (sqrt(2) m_f))       (4)

where W(.) is the 2-Wasserstein distance between the joint law of all agents' draws and N
independent copies of the posterior. If a < 1 the theorem replaces (3) by its geometric sum,

    W_G(k) <= sqrt(a)^k W_G(0) + (E y / sqrt(a) + sqrt|E r|) / (1 - sqrt(a))                   (5)

With x_i ~ N(0, I), p = 0, the mode x* and the local gradients g_i = grad f_i(x*), the start is

    W_G(0)^2 = rho (dim / 2 + |x*|^2) sum_i d_i + g'L-^+ g / (2 rho)                           (6)

by beta* = -M-^+ g, and the last term of (4), with posterior covariance C, is

    W^2 = sum_i tr(C) + dim d_i^2 / (2 m_f^2) - sqrt(2) d_i tr(C^1/2) / m_f                    (7)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starlings.network import Network
from starlings.problem import Problem
from starlings.samplers import DADMMS
from starlings.theory.convergence import Coefficients, Conditioning, coefficients, noise_norm
from starlings.theory.laws import law
from starlings.theory.recursions import Law, Moments, gaussian_w2


@dataclass(frozen=True)
class Bound:
    """The numbers of Lemma 2 and of the theorem, with every expectation over the noise taken."""

    coefficients: Coefficients
    """a to e of `convergence` eq. (4)."""
    strong_convexity: float
    """m_f, the smallest curvature of any agent's potential."""
    start: float
    """W_G(0), eq. (6)."""
    mean_y: float
    """E y, eq. (1)."""
    mean_r: float
    """E r, eq. (2)."""
    noise_term: float
    """The second term of (4)."""
    target_term: float
    """The third term of (4)."""

    def lemma(self, rounds: int) -> np.ndarray:
        """The right side of (4) after 1, ..., `rounds` rounds, with W_G from (3)."""
        root = float(np.sqrt(self.coefficients.a))
        h = self.mean_y / (2 * root)
        step = h + float(np.sqrt(abs(self.mean_r - h**2)))
        errors = [self.start]
        for _ in range(rounds - 1):
            errors.append(root * errors[-1] + step)  # (3)
        return self._on_positions(np.array(errors))

    def theorem(self, rounds: int) -> np.ndarray:
        """The right side of (4) after 1, ..., `rounds` rounds, with W_G from (5); inf if a >= 1."""
        a = self.coefficients.a
        if a >= 1:
            return np.full(rounds, np.inf)
        floor = (self.mean_y / np.sqrt(a) + np.sqrt(abs(self.mean_r))) / (1 - np.sqrt(a))
        return self._on_positions(a ** (np.arange(rounds) / 2) * self.start + floor)  # (5)

    def limit(self) -> float:
        """The limit of the theorem's bound after many rounds; inf if a >= 1."""
        return float(self.theorem(1)[0] - self.start / np.sqrt(self.strong_convexity))

    def _on_positions(self, errors: np.ndarray) -> np.ndarray:
        """The bound on positions, eq. (4), from bounds W_G on the error of (Z, beta)."""
        return errors / np.sqrt(self.strong_convexity) + self.noise_term + self.target_term  # (4)


def wasserstein_bound(
    problem: Problem,
    network: Network,
    rho: float,
    kappa: float | None = None,
    corrected: bool = True,
) -> Bound:
    """The paper's bound on the distance of D-ADMMS from the posterior of a quadratic problem.

    Args:
        problem: one whose potentials are quadratic and strongly convex.
        network: connected; its nodes are matched to the problem's sites.
        rho: the penalty.
        kappa: the free constant of the contraction, above 1; by default the best one.
        corrected: give the coefficient c the factor 1 / rho that the paper's proof drops.
    """
    network = network.matched_to(problem.sites)
    numbers = Conditioning.of(problem, network)
    constants = coefficients(numbers, rho, kappa, corrected)
    b, c, d, e = constants[1:]
    m, top = numbers.strong_convexity, numbers.minus_max
    norm, square = noise_norm(network, problem.dim)
    q = 1 / (np.sqrt(2) * m) + np.sqrt(2)
    y = 2 * b * q / np.sqrt(m) + c * top * np.sqrt(rho) + c * d / np.sqrt(m)  # (1)
    r = np.sqrt(2) * b * q / m + b * q**2 + b / (2 * m**2) + np.sqrt(2) * c * d / m - e  # (2)
    return Bound(
        coefficients=constants,
        strong_convexity=m,
        start=_initial_error(problem, network, rho),
        mean_y=float(y * norm),
        mean_r=float(r * square),
        noise_term=float(np.sqrt(square / 2) / m),
        target_term=_target_term(problem, network, m),
    )


def _initial_error(problem: Problem, network: Network, rho: float) -> float:
    """W_G(0), eq. (6)."""
    quadratic, (mode, _) = problem.quadratic, problem.exact_posterior()
    assert quadratic is not None
    gradients = quadratic.hessian @ mode - quadratic.linear
    solved = np.linalg.lstsq(network.laplacian, gradients, rcond=None)[0]  # L-^+ g
    primal = (problem.dim / 2 + mode @ mode) * network.degrees.sum()
    return float(np.sqrt(rho * primal + np.sum(gradients * solved) / (2 * rho)))  # (6)


def _target_term(problem: Problem, network: Network, m: float) -> float:
    """The last term of (4), by eq. (7)."""
    variances = np.linalg.eigvalsh(problem.exact_posterior()[1])
    spreads = network.degrees[:, None] / (np.sqrt(2) * m)
    return float(np.sqrt(np.sum((spreads - np.sqrt(variances)) ** 2)))  # (7)


class Distances(NamedTuple):
    """Exact 2-Wasserstein distances between draws and the posterior, in units of the parameters."""

    product: float
    """Between the draws of all agents together and N independent copies of the posterior, the
    distance of (4)."""
    worst_agent: float
    """The largest distance between the draws of one agent and the posterior."""
    average: float
    """Between the average of the agents' draws and the posterior."""

    @classmethod
    def of(cls, moments: Moments, problem: Problem) -> Distances:
        """The distances of draws with these moments from the posterior of a quadratic problem."""
        mean, covariance = problem.exact_posterior()
        size = problem.num_agents
        copies = np.tile(mean, size), np.kron(np.eye(size), covariance)
        return cls(
            gaussian_w2(moments.mean.ravel(), moments.covariance, *copies),
            moments.worst_agent_w2(mean, covariance),
            gaussian_w2(*moments.average(), mean, covariance),
        )


def paper_law(problem: Problem, network: Network, rho: float) -> Law:
    """The exact law, on a quadratic problem, of the paper's Algorithm 1 as printed."""
    return law(problem, network, DADMMS(rho=rho, noise="paper", output="iterate"))


def true_distances(
    problem: Problem, network: Network, rho: float, rounds: int
) -> Iterator[Distances]:
    """The exact distances that `Bound` bounds, after 1, ..., `rounds` rounds from x_i ~ N(0, I)."""
    moments = paper_law(problem, network, rho).moments(rounds)
    next(moments)  # the start
    return (Distances.of(each, problem) for each in moments)

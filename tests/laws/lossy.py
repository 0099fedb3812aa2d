"""The law of D-ADMMS on links where messages are lost, as exact moments: edge by edge, in NumPy.

With z_ij for every link from j to i, in units of positions, r = 2 rho and D = sum_j d_j, and with
e_ij = 1 where the message from j arrives, which has probability a_ij,

    x_i = argmin f_i(x) + (r d_i / 2) |x|^2 - r (sum_j z_ij - d_i s w)'x                     (1)
    z_ij' = z_ij + e_ij ((2 x_j - z_ji - z_ij) / 2) - m w'                                    (2)

with w of (1) and w' of (2) the noise that all agents share. With s = 0 and m = kappa these are the
coordinates of a frame that moves with the noise; with m = 0 and s = kappa noise is in the proximal
step only, where a lost message loses it, as an agent that is not careful would have it.

Given the e_ij both are linear, so that means and second moments are known. For Z = (z_ij)

    E Z' = (1 - a) E Z + a E g,     E Z'Z'^T = the same for products, and on the blocks       (3)
    of a link with itself (1 - a) E zz' + a E gg'

since different links lose messages independently. Some combinations of Z never show in x, and are
a random walk: there is a limit for x only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import starlings as st
from starlings.theory import Moments

DIM = 2
EPS = 0.1
"""The Langevin step 1 / (2 rho D); the posterior has the covariance I."""


class Scheme(NamedTuple):
    """How the noise enters, eqs. (1) and (2), and what is added to x when it is recorded."""

    moving: float
    """m."""
    in_the_step: float
    """s."""
    output: float
    """The standard deviation of the noise of what is recorded."""


def moving_frame(pace: float) -> Scheme:
    """All noise moves the frame, as much as belongs to the Langevin time in a round."""
    return Scheme(np.sqrt(2 * EPS * pace), 0.0, np.sqrt(EPS * (1 - pace / 2)))


def noise_as_today(factor: float = 1.0) -> Scheme:
    """Noise in the proximal step, with a factor."""
    return Scheme(0.0, factor * np.sqrt(2 * EPS), factor * np.sqrt(EPS / 2))


def table_problem(agents: int) -> st.Problem:
    """Gaussian potentials of unequal curvature, whose posterior has the covariance I."""
    random = np.random.default_rng(0)
    hessians, linear = [], []
    for _ in range(agents):
        X = random.standard_normal((10, DIM))
        hessians.append(X.T @ X / 10)
        linear.append(hessians[-1] @ random.standard_normal(DIM))
    L = np.linalg.cholesky(np.linalg.inv(np.sum(hessians, axis=0)))
    return st.models.gaussian(L.T @ np.array(hessians) @ L, np.array(linear) @ L)


def penalty(network: st.Network) -> float:
    """rho with which the step is `EPS`."""
    return 1 / (4 * EPS * network.num_edges)


def stationary(
    problem: st.Problem, network: st.Network, scheme: Scheme, arrival: float, rounds: int = 1500
) -> Moments:
    """Means and covariances of what the agents record after so many rounds from zero."""
    H, b, d = problem.quadratic.hessian, problem.quadratic.linear, network.degrees
    to, by = network.adjacency.nonzero()
    size, links = network.size, len(to)
    number = {pair: k for k, pair in enumerate(zip(to.tolist(), by.tolist(), strict=True))}
    reverse = np.array([number[j, i] for i, j in zip(to.tolist(), by.tolist(), strict=True)])
    r = 1 / (EPS * d.sum())
    solve = np.zeros((size * DIM, size * DIM))
    for i in range(size):
        block = slice(i * DIM, (i + 1) * DIM)
        solve[block, block] = np.linalg.inv(H[i] + r * d[i] * np.eye(DIM))
    incidence = np.kron((to == np.arange(size)[:, None]).astype(float), np.eye(DIM))
    X = r * solve @ incidence  # (1): x = X z + c - S w
    c, S = solve @ b.ravel(), r * scheme.in_the_step * solve @ np.kron(d[:, None], np.eye(DIM))
    pick = np.kron(np.eye(size)[by], np.eye(DIM))
    turn = np.kron(np.eye(links)[reverse], np.eye(DIM))
    G = pick @ X - turn / 2 + np.eye(links * DIM) / 2  # (2): g = G z + h - N w
    h, N = pick @ c, pick @ S
    kick = scheme.moving * np.tile(np.eye(DIM), (links, 1))
    T = (1 - arrival) * np.eye(len(G)) + arrival * G
    own = np.kron(np.eye(links), np.ones((DIM, DIM))) > 0
    mean, cov = np.zeros(len(G)), np.zeros_like(G)
    for _ in range(rounds):
        heard, gain = G @ mean + h, G @ cov @ G.T + N @ N.T
        new = T @ cov @ T.T + arrival**2 * N @ N.T
        step = heard - mean
        extra = (1 - arrival) * cov + arrival * gain - new
        extra += arrival * (1 - arrival) * np.outer(step, step)
        cov = np.where(own, new + extra, new) + kick @ kick.T  # (3)
        mean = mean + arrival * step
    shared = np.tile(np.eye(DIM), (size, 1))
    covariance = X @ cov @ X.T + S @ S.T + scheme.output**2 * shared @ shared.T
    return Moments((X @ mean + c).reshape(size, DIM), covariance)


def worst_w2_and_ratio(moments: Moments, problem: st.Problem) -> tuple[float, float]:
    """The worst agent's W2 distance over the root of the trace, and the mean variance ratio."""
    mean, covariance = problem.exact_posterior()
    w2 = moments.worst_agent_w2(mean, covariance) / np.sqrt(np.trace(covariance))
    return float(w2), float(np.trace(moments.covariance) / len(moments.covariance))

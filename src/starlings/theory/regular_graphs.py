"""D-ADMMS on regular graphs in closed form: factors per round and stationary variances.

On an n-regular graph with f_i = m |x|^2 / 2 and gradient noise of variance v, the eigenvectors of
L- evolve independently. One of eigenvalue lam > 0 has the factors z per round and the stationary
variance

    z^2 - (1 + 2 rho (n - lam) / g) z + rho (2 n - lam) / g = 0,   g = m + 2 rho n             (1)
    2 v / ((m + rho lam) (2 m + 8 rho n - 3 rho lam))                                          (2)

and that of lam = 0, sqrt(N) times the average of the agents, has z = 2 rho n / g and the variance
v / (m (m + 4 rho n)).

Letters are those of `convergence`.
"""

from __future__ import annotations

import numpy as np

from starlings.network import Network


def regular_multipliers(network: Network, curvature: float, rho: float) -> np.ndarray:
    """The slower factor per round of every eigenvector of L-, the larger |z| of (1).

    The order is that of the eigenvalues, ascending. The graph has to be regular.

    >>> regular_multipliers(Network.ring(4), curvature=1.0, rho=0.5).round(4)
    array([0.6667, 0.5774, 0.5774, 0.3333])
    """
    n, lam = _degree(network), network.laplacian_spectrum()
    g = curvature + 2 * rho * n
    half = (1 + 2 * rho * (n - lam) / g) / 2
    root = np.emath.sqrt(half**2 - rho * (2 * n - lam) / g)
    slower = np.maximum(np.abs(half + root), np.abs(half - root))  # (1)
    slower[0] = 2 * rho * n / g
    return slower


def regular_variances(
    network: Network, curvature: float, rho: float, noise_variance: float
) -> np.ndarray:
    """The stationary variance along every eigenvector of L-, eq. (2).

    The order is that of the eigenvalues, ascending. The mean over all is the variance of one
    agent's position; the first divided by N is that of the average of the agents, whose posterior
    variance is 1 / (N m). The graph has to be regular.
    """
    n, lam = _degree(network), network.laplacian_spectrum()
    spread = (curvature + rho * lam) * (2 * curvature + 8 * rho * n - 3 * rho * lam)
    variances = 2 * noise_variance / spread  # (2)
    variances[0] = noise_variance / (curvature * (curvature + 4 * rho * n))
    return variances


def _degree(network: Network) -> int:
    """The number of neighbours, which must be the same for all agents."""
    degrees = np.unique(network.degrees)
    if len(degrees) != 1:
        raise ValueError(
            f"`network` must be regular, but its degrees are {degrees.tolist()}; the "
            "closed forms hold only where all agents have equally many neighbours."
        )
    return int(degrees[0])

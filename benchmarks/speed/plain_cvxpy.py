"""D-ADMMS as in the published implementation: one CVXPY problem for every agent and round.

Eqs. (1) and (2) of `plain_numpy` written down as they stand, for one chain: chains would follow one
another, so that an agent-round costs the same whatever their number.
"""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np

import starlings as st

from .plain_numpy import Noise
from .problems import Regression


class CvxpyRun:
    """One chain of a network, advanced round by round from positions (agent, dim)."""

    def __init__(
        self,
        regression: Regression,
        network: st.Network,
        rho: float,
        noise: Noise,
        start: np.ndarray,
    ) -> None:
        self.regression, self.rho, self.noise, self.round = regression, rho, noise, 0
        self.neighbours = [network.adjacency[[agent]].nonzero()[1] for agent in range(network.size)]
        self.position, self.dual = start, np.zeros_like(start)

    def __call__(self, rounds: int) -> None:
        """Go on for so many rounds from where the last call ended."""
        for _ in range(rounds):
            self.turn()

    def turn(self) -> None:
        """Do one round."""
        self.round += 1
        slopes = self.dual + self.noise(self.round)[:, 0]
        self.position = np.array([self.solved(i, slope) for i, slope in enumerate(slopes)])
        for agent, neighbours in enumerate(self.neighbours):
            differences = self.position[agent] - self.position[neighbours]
            self.dual[agent] += self.rho * differences.sum(axis=0)  # (2)

    def solved(self, agent: int, slope: np.ndarray) -> np.ndarray:
        """The new position of one agent, eq. (1)."""
        x = cvxpy.Variable(self.position.shape[1])
        midpoints = (self.position[agent] + self.position[self.neighbours[agent]]) / 2
        penalty = sum(cvxpy.sum_squares(x - midpoint) for midpoint in midpoints)
        objective = self.potential(agent, x) + slope @ x + self.rho * penalty
        cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver=cvxpy.CLARABEL)  # (1)
        return x.value

    def potential(self, agent: int, x: Any) -> Any:
        """The potential f_i of one agent, as an expression of CVXPY."""
        data = self.regression
        eta, y = data.x[agent] @ x, data.y[agent]
        prior = 0.5 * data.prior_curvature * cvxpy.sum_squares(x)
        if data.family == "linear":
            return 0.5 * cvxpy.sum_squares(y - eta) / data.noise_variance + prior
        return cvxpy.sum(cvxpy.logistic(eta)) - y @ eta + prior

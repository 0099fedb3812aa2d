"""D-ADMMS as one would write it in NumPy: arrays over all agents and chains, rounds in a loop.

With neighbours j of agent i, degree d_i, penalty rho and noise n_i,

    x_i' = argmin_x f_i(x) + (p_i + n_i)'x + rho sum_j |x - (x_i + x_j) / 2|^2                 (1)
    p_i' = p_i + rho sum_j (x_i' - x_j')                                                       (2)

as Algorithm 1 of the paper has it. The minimum of (1) is a matrix product for linear regression.
For logistic regression Newton's method finds it from x_i, all agents and chains in step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import starlings as st

from .problems import Regression

Noise = Callable[[int], np.ndarray]
"""Maps the number of a round, from 1 on, to n_i of all agents and chains, (agent, chain, dim)."""
Proximal = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Maps l and a start to argmin_x f_i(x) + (c/2) |x|^2 - l'x; all arrays are (agent, chain, dim)."""
DENSE_SIZE = 32
"""The most agents for which a dense product with the adjacency matrix is used: it is faster."""
TOLERANCE = 1e-8
"""Newton's method ends when every Newton decrement is below this."""
SAFE_DECREMENT = 0.1
"""The Newton decrement below which a full step is taken without a check of the objective."""
ROUNDING = 1e-12
"""The relative error of a computed objective."""
MOST_ITERATIONS = 200
"""Newton iterations after which the search is given up."""


class NumpyRun:
    """All chains of a network, advanced round by round from positions (agent, chain, dim)."""

    def __init__(
        self,
        regression: Regression,
        network: st.Network,
        rho: float,
        noise: Noise,
        start: np.ndarray,
    ) -> None:
        links = network.adjacency
        self.links = links.toarray() if network.size <= DENSE_SIZE else links
        self.degrees = network.degrees[:, None, None].astype(float)
        self.rho, self.noise, self.round = rho, noise, 0
        self.proximal = PROXIMAL[regression.family](regression, 2 * rho * self.degrees)
        self.position, self.dual = start, np.zeros_like(start)
        self.received = self.neighbour_sum(start)

    def __call__(self, rounds: int) -> None:
        """Go on for so many rounds from where the last call ended."""
        for _ in range(rounds):
            self.turn()

    def turn(self) -> None:
        """Do one round."""
        self.round += 1
        halfway = self.rho * (self.degrees * self.position + self.received)
        linear = halfway - self.dual - self.noise(self.round)
        self.position = self.proximal(linear, self.position)  # (1)
        self.received = self.neighbour_sum(self.position)
        self.dual = self.dual + self.rho * (self.degrees * self.position - self.received)  # (2)

    def neighbour_sum(self, positions: np.ndarray) -> np.ndarray:
        """The sum over neighbours, sum_j x_j, for every agent."""
        return (self.links @ positions.reshape(len(positions), -1)).reshape(positions.shape)


def noise_of(
    law: str, network: st.Network, rho: float, shape: tuple[int, int, int], seed: int = 0
) -> Noise:
    """The published noise, private to every agent, or the coherent one, the same for all."""
    random, degrees = np.random.default_rng(seed), network.degrees[:, None, None]
    if law == "paper":
        return lambda _: np.sqrt(2) * degrees * random.standard_normal(shape)
    scale = 2 * np.sqrt(rho / degrees.sum()) * degrees
    return lambda _: scale * random.standard_normal((1, *shape[1:]))


def linear_proximal(regression: Regression, curvature: np.ndarray) -> Proximal:
    """Eq. (1) in closed form, with the inverse of each agent's matrix made once."""
    x, y, variance = regression.x, regression.y, regression.noise_variance
    diagonal = (regression.prior_curvature + curvature) * np.eye(x.shape[-1])
    inverse = np.linalg.inv(x.swapaxes(1, 2) @ x / variance + diagonal)
    offset = (y[:, None, :] @ x) / variance
    return lambda linear, start: (linear + offset) @ inverse


def logistic_proximal(regression: Regression, curvature: np.ndarray) -> Proximal:
    """Eq. (1) by Newton's method; steps are halved until the objective falls."""
    x, y, dim = regression.x, regression.y, regression.x.shape[-1]
    transposed, outcomes = np.ascontiguousarray(x.swapaxes(1, 2)), y[:, None, :] @ x
    products = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:2], dim * dim)
    ridge = curvature + regression.prior_curvature

    def objective(z: np.ndarray, slope: np.ndarray) -> np.ndarray:
        softplus = np.logaddexp(0.0, z @ transposed).sum(axis=-1)
        return softplus + (0.5 * ridge * z * z - slope * z).sum(axis=-1)

    def direction(z: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probability = 1 / (1 + np.exp(-(z @ transposed)))
        gradient = probability @ x + ridge * z - slope
        hessian = ((probability * (1 - probability)) @ products).reshape(*z.shape, dim)
        hessian = hessian + ridge[..., None] * np.eye(dim)
        step = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
        return step, np.sqrt(-(gradient * step).sum(axis=-1))

    def proximal(linear: np.ndarray, start: np.ndarray) -> np.ndarray:
        z, slope = start, linear + outcomes
        for _ in range(MOST_ITERATIONS):
            step, decrement = direction(z, slope)
            if decrement.max() < TOLERANCE:
                return z + step
            z = z + step if decrement.max() < SAFE_DECREMENT else halved(z, step, slope)
        raise RuntimeError(f"no minimum after {MOST_ITERATIONS} Newton steps.")

    def halved(z: np.ndarray, step: np.ndarray, slope: np.ndarray) -> np.ndarray:
        value = objective(z, slope)
        highest = value + ROUNDING * np.abs(value)
        while np.any(rises := objective(z + step, slope) > highest):
            step = np.where(rises[..., None], step / 2, step)
        return z + step

    return proximal


PROXIMAL = {"linear": linear_proximal, "logistic": logistic_proximal}

"""Centre, scale and penalty without a coordinator and without a hyper-parameter to guess.

All that is global is a sum over the agents, made by `gossip`. With F = sum_i f_i,

1. the mode c, by Newton's method on the sums of f_i, gradients and Hessians:

       x <- x - t |H|^-1 sum_i grad f_i(x),   t = 1, 1/2, 1/4, ... while F falls            (1)

   where |H| has the absolute eigenvalues of sum_i Hess f_i, scaled to a unit diagonal first: far
   from the mode a Hessian may be indefinite, and parameters differ in scale by orders;
2. the metric L with L L' = (sum_i Hess f_i(c))^-1, so that x = c + L z has unit curvature       (2)
   everywhere near the mode; agent 0's c and L flood the network, the same in every bit;
3. the penalty from the wanted Langevin step eta (of unit curvature),

       rho = 1 / (4 |E| eta),   at least 2 max_i(-lambda_min(L'Hess f_i L)) / d_i               (3)

   the floor keeps the proximal step well posed where an agent's own potential is not convex.

The exact law of the Gaussian with these Hessians (see `theory`) says what that will give: eta is
lowered until the worst agent is near enough to the posterior or the step is `SMALLEST_STEP`. That
last check and the floor look at every agent's own Hessian in one place, and are not counted as
messages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from starlings.gossip import Gossip
from starlings.models import gaussian
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.samplers import DADMMS
from starlings.theory.laws import LARGEST_CHECKED, Law, law

LARGEST_STEP = 0.2
SMALLEST_STEP = 0.05
WANTED_W2 = 0.04
"""The worst agent's distance from the posterior, in posterior sd, at which eta is good enough."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-9
"""On half the squared Newton decrement: what F could still fall by."""
SMALLEST_EIGENVALUE = 1e-10
"""Of the scaled Hessian; below it a direction counts as flat."""
TRIALS = 2.0 ** -np.arange(20)


class TuningError(RuntimeError):
    """No mode was found, so there is nothing to centre the sampler on."""


@dataclass(frozen=True)
class Tuning:
    """What was agreed on, what it cost, and what it promises."""

    centre: np.ndarray
    """c, unconstrained."""
    scale: np.ndarray
    """L of eq. (2)."""
    rho: float
    step: float
    """eta, in units of the posterior's curvature."""
    newton_iterations: int
    rounds: int
    messages: int
    """Sent by all agents together."""
    floats: int
    predicted_w2: float | None
    """The worst agent's, in posterior sd, for the Gaussian approximation at the mode."""
    predicted_rounds_per_draw: float | None
    """The largest autocorrelation time of any agent and coordinate there."""

    def problem(self, problem: Problem) -> Problem:
        """The same posterior in coordinates of unit curvature."""
        return problem.affine(self.centre, self.scale)

    def coordinates(self, positions: Any) -> np.ndarray:
        """Unconstrained positions (..., dim) as the z of these coordinates."""
        apart = np.asarray(positions, float) - self.centre
        return np.linalg.solve(self.scale, apart[..., None])[..., 0]

    def sampler(self) -> DADMMS:
        """D-ADMMS as tuned."""
        return DADMMS(rho=self.rho, noise="coherent", output="half-noise")

    def summary(self) -> str:
        """One line for people."""
        text = (
            f"tuned in {self.rounds} rounds ({self.newton_iterations} Newton iterations): "
            f"rho = {self.rho:.4g}, step = {self.step:.3g}"
        )
        if self.predicted_w2 is None:
            return text
        return text + (
            f"; predicted for the worst agent W2 = {self.predicted_w2:.3f} sd, "
            f"{self.predicted_rounds_per_draw:.0f} rounds per effective draw"
        )

    def record(self) -> dict[str, Any]:
        """The numbers that belong to a saved result."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}


def tune(problem: Problem, network: Network, start: Any = None) -> Tuning:
    """Find the mode, the metric and the penalty of a problem on a connected network."""
    network = network.matched_to(problem.sites)
    if network.num_edges == 0:
        raise ValueError(
            "tuning needs a network with edges; an agent alone has nobody to agree with."
        )
    with jax.enable_x64(True):
        gossip, agents = Gossip(network), problem.agents(network)
        origin = np.zeros(problem.dim) if start is None else np.asarray(start, float)
        centre, hessian, iterations = find_mode(gossip, agents, origin)
        scale = _agreed(gossip, inverse_root(hessian))
        local = _local_model(agents, centre, scale)
    step, rho, exact = choose_step(network, *local)
    sent = gossip.ledger
    return Tuning(
        centre=centre,
        scale=scale,
        rho=rho,
        step=step,
        newton_iterations=iterations,
        rounds=sent.rounds,
        messages=sent.messages,
        floats=sent.floats,
        predicted_w2=None if exact is None else _worst_w2(exact),
        predicted_rounds_per_draw=None if exact is None else _slowest(exact),
    )


def find_mode(
    gossip: Gossip, agents: Agent, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Eq. (1) from `start`: the mode, the summed Hessian there, and the iterations it took."""
    point = _agreed(gossip, start)
    for iteration in range(MAX_ITERATIONS):
        value, gradient, hessian = _summed(gossip, _derivatives(agents, point), len(point))
        if not np.isfinite(value):
            raise TuningError(f"the potential is {value} at the start {point}; give another start.")
        direction = newton_direction(gradient, hessian)
        if -gradient @ direction / 2 < TOLERANCE:
            return point, hessian, iteration
        values = gossip.sum(_trial_values(agents, point, direction))[0]
        allowed = value + 1e-4 * TRIALS * (gradient @ direction) + 1e-12 * abs(value)
        good = np.flatnonzero(np.asarray(values) <= allowed)
        if len(good) == 0:
            break
        point = _agreed(gossip, point + TRIALS[good[0]] * direction)  # (1)
    raise TuningError(
        f"no mode was found in {iteration + 1} Newton iterations; the posterior may be improper "
        "or have no mode. Give a `start` nearer to it, or choose a sampler and its rho yourself."
    )


def newton_direction(gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """-|H|^-1 g, by the eigenvalues of H scaled to a unit diagonal."""
    unit, values, vectors = _scaled_eigen(hessian)
    return -unit * (vectors @ ((vectors.T @ (unit * gradient)) / values))


def inverse_root(hessian: np.ndarray) -> np.ndarray:
    """L of eq. (2), with |H| where H is not positive definite."""
    unit, values, vectors = _scaled_eigen(hessian)
    return unit[:, None] * vectors / np.sqrt(values)


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    diagonal = np.abs(np.diag(hessian))
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-12)))
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    return unit, np.maximum(np.abs(values), SMALLEST_EIGENVALUE), vectors


def choose_step(
    network: Network, hessians: np.ndarray, gradients: np.ndarray
) -> tuple[float, float, Law | None]:
    """Eq. (3), lowering eta until the predicted law is good enough; (eta, rho, that law)."""
    lowest = np.linalg.eigvalsh(hessians).min(axis=1)
    floor = float(np.max(2 * np.maximum(-lowest, 0) / np.maximum(network.degrees, 1)))
    model = gaussian(hessians, -gradients)
    numbered = Network(nx.convert_node_labels_to_integers(network.graph))
    checkable = hessians.shape[0] * hessians.shape[1] <= LARGEST_CHECKED
    step = LARGEST_STEP
    while True:
        rho = max(1 / (4 * network.num_edges * step), floor)  # (3)
        exact = law(model, numbered, DADMMS(rho=rho)) if checkable else None
        good = exact is None or _worst_w2(exact) <= WANTED_W2
        if good or step <= SMALLEST_STEP:
            return 1 / (4 * network.num_edges * rho), rho, exact
        step = max(step / 1.3, SMALLEST_STEP)


def _worst_w2(exact: Law) -> float:
    """The target is N(0, I) in these coordinates."""
    dim = exact.shape[1]
    return exact.stationary().worst_agent_w2(np.zeros(dim), np.eye(dim)) / np.sqrt(dim)


def _slowest(exact: Law) -> float:
    return max(exact.autocorrelation_rounds(agent).max() for agent in range(exact.shape[0]))


@jax.jit
def _derivatives(agents: Agent, point: Any) -> jax.Array:
    """f_i, its gradient and the upper half of its Hessian as one vector per agent."""
    upper = jnp.triu_indices(len(point))

    def one(agent):
        value, gradient = agent.potential(point), agent.gradient(point)
        return jnp.concatenate([value[None], gradient, agent.hessian(point)[upper]])

    return jax.vmap(one)(agents)


@jax.jit
def _trial_values(agents: Agent, point: Any, direction: Any) -> jax.Array:
    points = point + TRIALS[:, None] * direction
    return jax.vmap(lambda agent: jax.vmap(agent.potential)(points))(agents)


@jax.jit
def _scaled_derivatives(agents: Agent, centre: Any, scale: Any) -> tuple[jax.Array, jax.Array]:
    def one(agent):
        return scale.T @ agent.hessian(centre) @ scale, scale.T @ agent.gradient(centre)

    return jax.vmap(one)(agents)


def _local_model(agents: Agent, centre: Any, scale: Any) -> tuple[np.ndarray, np.ndarray]:
    hessians, gradients = _scaled_derivatives(agents, centre, scale)
    hessians = (np.asarray(hessians) + np.swapaxes(hessians, 1, 2)) / 2
    return hessians, np.asarray(gradients)


def _summed(gossip: Gossip, parts: jax.Array, dim: int) -> tuple[float, np.ndarray, np.ndarray]:
    total = np.asarray(gossip.sum(parts))[0]
    hessian = np.zeros((dim, dim))
    hessian[np.triu_indices(dim)] = total[1 + dim :]
    hessian = hessian + np.triu(hessian, 1).T
    return float(total[0]), total[1 : 1 + dim], hessian


def _agreed(gossip: Gossip, value: np.ndarray) -> np.ndarray:
    """The value as agent 0 has it, after it has flooded the network."""
    copies = jnp.broadcast_to(jnp.asarray(value), (gossip.network.size, *np.shape(value)))
    return np.asarray(gossip.flood(copies)[-1])

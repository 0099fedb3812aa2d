"""Methods on sums for the shared parameters alone; every site then draws its own by itself.

Where sites have few parameters of their own, each integrates these out of its potential (see
`solvers.marginal`), and the potentials of what is left sum to that of the marginal posterior of the
shared parameters. Whatever works on sums works there: importance weights, and lock-step HMC, in
which no funnel of standard deviations and effects is left. A draw x of the shared parameters, which
all sites have in common, becomes one of all parameters when every site draws its own from

    p(u_i | x, D_i)                                                                         (1)

independently of all others, which is what they are given x. This is private noise with the address
(chain, agent, number of the draw).

The integral is a quadrature. The sites choose the fewest nodes whose error is small at points of
the Gaussian approximation, and in the end the error is measured at draws, by more nodes: the
largest difference of the summed potentials, in nats. Its exponential is a factor by which the
density of the draws may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.diagnostics.limits import LIMITS
from starlings.methods.evaluation import potentials_at
from starlings.methods.hmc import SummedChains
from starlings.methods.weights import block_bytes
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.random.addresses import chain_keys
from starlings.runtime.buckets import Agents, grouped
from starlings.solvers.marginal import Integral

NODES = {1: (5, 9, 15, 21), 2: (3, 5, 7, 9, 13), 3: (3, 5, 7)}
"""Nodes in each dimension among which sites choose, by the number of local parameters; more of
these are not integrated out."""
MORE_NODES = 4
"""Further nodes in each dimension by which the error of a quadrature is measured."""
LARGEST_ERROR = LIMITS.quadrature_error
"""Error of the summed potentials, in nats, above which the quadrature is not trusted."""
SMALL_ERROR = 0.01
"""Error of the summed potentials, in nats, up to which the fewest nodes are chosen."""
POINTS = 64
"""Points at which errors are measured."""
FAR = 1000.0
"""What counts as the error of a site where a potential is not finite, in nats."""
KIND = "differences between two quadratures at draws"
ROWS = "numbers of rows, and of entries of each kind"
"""What an agent puts into the sums, in the account of what leaves a site."""
MOST_EVALUATIONS = 1e10
"""Rows times nodes times points at which one process evaluates a density, at most, where the agents
choose the method: minutes of a processor. Beyond it network rounds are not worth what they save."""
GRADIENTS = 3
"""Evaluations that a gradient costs."""


def can_integrate(problem: Problem) -> bool:
    """Whether local parameters are few enough to be integrated out."""
    return problem.num_local in NODES


def most_nodes(problem: Problem) -> int:
    """The largest number of nodes in each dimension among which sites choose."""
    return NODES[problem.num_local][-1]


def integrated(problem: Problem, nodes: int) -> Problem:
    """The problem of the shared parameters alone, with the local ones integrated out.

    Args:
        problem: a problem with one to three local parameters.
        nodes: nodes in each dimension.
    """
    assert problem.log_local_prior is not None
    most = most_nodes(problem) + MORE_NODES
    return problem.without_local(Integral(problem.num_local, problem.log_local_prior, nodes, most))


class Survey(NamedTuple):
    """What all sites agree on before they integrate."""

    nodes: int
    """The fewest nodes in each dimension whose error is small."""
    rows: int
    """The rows of all sites."""


def surveyed(problem: Problem, gossip: Gossip, points: np.ndarray) -> Survey:
    """Choose the nodes by their errors at points x (point, shared), and count rows, by one sum."""
    numbers = NODES[problem.num_local]
    own = _differences(problem, gossip, points, numbers[:-1], numbers[-1])
    parts = np.column_stack([*own, problem.num_rows])
    total = gossip.sum(parts, {KIND: parts.shape[1] - 1, ROWS: 1})[0]
    errors = [np.abs(part).max() for part in np.split(total[:-1], len(own))]
    small = (n for n, e in zip(numbers, errors, strict=False) if e <= SMALL_ERROR)
    return Survey(next(small, numbers[-1]), round(total[-1]))


def quadrature_error(problem: Problem, gossip: Gossip, points: np.ndarray, nodes: int) -> float:
    """The largest error of the summed potential at points x (point, shared), by one sum.

    Args:
        problem: the problem with local parameters.
        gossip: the sums over its network.
        points: in the coordinates of the model; evenly spaced ones, if they are many.
        nodes: nodes in each dimension.
    """
    chosen = points[np.arange(POINTS) * len(points) // POINTS]  # of one shape, to compile once
    return quadrature_errors(problem, gossip, chosen, (nodes,), nodes + MORE_NODES)[0]


def quadrature_errors(
    problem: Problem, gossip: Gossip, points: np.ndarray, numbers: Sequence[int], more: int
) -> list[float]:
    """The largest difference of the summed potential between numbers of nodes, and `more` nodes."""
    own = _differences(problem, gossip, points, numbers, more)
    total = gossip.sum(np.concatenate(own, axis=1), KIND)[0]
    return [float(np.abs(part).max()) for part in np.split(total, len(numbers))]


def _differences(
    problem: Problem, gossip: Gossip, points: np.ndarray, numbers: Sequence[int], more: int
) -> list[np.ndarray]:
    """The differences of the local agents' potentials, (agent, point), for each number of nodes."""
    best = _potentials(problem, gossip, points, more)
    return [_bounded(_potentials(problem, gossip, points, n) - best) for n in numbers]


def _bounded(difference: np.ndarray) -> np.ndarray:
    """Differences of potentials, with those that are unknown or larger as `FAR`."""
    bounded = np.clip(difference, -FAR, FAR)
    return np.where(np.isfinite(bounded), bounded, FAR)


def _potentials(problem: Problem, gossip: Gossip, points: np.ndarray, nodes: int) -> np.ndarray:
    agents = grouped(integrated(problem, nodes).agents(gossip.network))
    with np.errstate(invalid="ignore"):
        return potentials_at(agents, points, int(problem.num_rows.sum()), block_bytes(agents))


@dataclass(frozen=True)
class OwnDraws:
    """What the local agents draw for themselves, given draws of the shared parameters."""

    agents: Agents
    """The local agents, with integrated potentials, in the coordinates of the model."""
    keys: Any
    """The keys of private noise, (agent, chain)."""

    @classmethod
    def of(cls, problem: Problem, gossip: Gossip, seed: int, chains: int) -> OwnDraws:
        """The agents of a problem with local parameters."""
        fewest = NODES[problem.num_local][0]  # draws need no quadrature
        agents = grouped(integrated(problem, fewest).agents(gossip.network))
        return cls(agents, chain_keys(seed, chains, problem.local)[0].T)

    def completed(self, x: np.ndarray, number: int) -> np.ndarray:
        """The vectors (x, u_i) of one draw x (chain, shared) with that number, eq. (1).

        As (chain, agent, dim).
        """
        own = np.asarray(_own_draws(self.agents, jnp.asarray(x), self.keys, number))
        agents = own.shape[0]
        shared = np.broadcast_to(x[:, None], (len(x), agents, x.shape[1]))
        return np.concatenate([shared, own.swapaxes(0, 1)], axis=2)


@jax.jit
def _own_draws(agents: Agents, x: Any, keys: Any, number: Any) -> Any:
    """Local parameters, (agent, chain, local)."""

    def of_agent(agent: Any, own: Any) -> Any:
        return jax.vmap(lambda each, key: agent.own_draw(each, key, number))(x, own)

    return agents.each(of_agent, keys)


@dataclass(frozen=True)
class MarginalChains(SummedChains):
    """The marginal potential of all agents at the positions of all chains."""

    completing: OwnDraws = field(kw_only=True)
    """What makes draws of the shared parameters draws of all."""
    unscaled: Callable[[np.ndarray], np.ndarray] = field(kw_only=True)
    """Positions of the chains -> those in the coordinates of the model."""

    @classmethod
    def completed_by(
        cls,
        problem: Problem,
        gossip: Gossip,
        own: OwnDraws,
        unscaled: Callable[[np.ndarray], np.ndarray],
    ) -> MarginalChains:
        """The sums of an integrated problem, whose draws `own` completes."""
        summed = SummedChains.of(problem, gossip)
        return cls(summed.agents, gossip, completing=own, unscaled=unscaled)

    def draws(self, phase: Any, number: int) -> np.ndarray:
        """The model's flat vectors (x, u_i), (chain, agent, dim)."""
        return self.completing.completed(self.unscaled(np.asarray(phase.position)), number)

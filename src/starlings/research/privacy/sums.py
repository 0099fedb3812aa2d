"""What a site sends into sums over the network: tuning, importance weights and lock-step HMC.

In a sum over a network a site with no neighbour farther from the root than itself (at the rim)
sends its own numbers, or equal shares of them, in clear: see `starlings.network.gossip`. All sites
know the points at which they are taken, since all run the same program on the same totals:

    tuning     f_i, its gradient and its Hessian at the points of the search for the mode   (1)
    weights    f_i at the candidates                                                        (2)
    HMC        f_i and its gradient at the positions of all chains, in every leapfrog       (3)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.methods.batches import weighted_candidates
from starlings.methods.hmc import Phase, SummedChains, refreshed
from starlings.methods.lockstep import shared_keys
from starlings.methods.weights import CandidateSums, WeightedCandidates
from starlings.network import Network
from starlings.network.gossip import Gossip
from starlings.network.secrecy import Secrecy
from starlings.problem import Problem
from starlings.research.privacy.wire import SumTap
from starlings.runtime.buckets import grouped
from starlings.solvers.pooled.mode import default_starts, find_mode
from starlings.solvers.pooled.potential import Derivatives, NetworkPotential
from starlings.tuning.tuner import coordinates_at_mode

WANTED = 100
"""Effective draws that are asked of importance weights."""
CHAINS, LEAPFROGS, STEP = 16, 25, 0.3
"""Chains and leapfrogs of HMC, and the length of a leapfrog in posterior standard deviations."""


class Sent(NamedTuple):
    """What every agent sent: numbers at points (point, dim), in the coordinates of the model."""

    points: np.ndarray
    values: np.ndarray
    """f_i, (agent, point)."""
    gradients: np.ndarray | None = None
    """(agent, point, dim)."""
    hessians: np.ndarray | None = None
    """(agent, point, dim, dim)."""

    def of(self, *agents: int) -> Sent:
        """The sum of what some agents sent, as of a single one: arrays without the first axis."""
        chosen = list(agents)

        def total(part: Any) -> Any:
            return None if part is None else part[chosen].sum(axis=0)

        sums = (total(part) for part in (self.values, self.gradients, self.hessians))
        return Sent(self.points, *sums)


@dataclass(frozen=True)
class _Watched(NetworkPotential):
    """Sums over the network that remember at which points they were taken."""

    points: list[np.ndarray] = field(default_factory=list)

    def derivatives(self, points: np.ndarray, may_be_far: bool = False) -> list[Derivatives]:
        """The same, after the points are remembered."""
        self.points.append(points)
        return super().derivatives(points, may_be_far)


def sent_in_tuning(problem: Problem, network: Network, masks: Secrecy | None = None) -> Sent:
    """What agents send while they search for the mode, eq. (1); with `masks`, as it can be read."""
    with jax.enable_x64(True):
        tap = SumTap(masks)
        potential = _Watched(problem.agents(network), Gossip(network.masked(tap)))
        find_mode(potential, default_starts(problem.dim))
    pairs = zip(potential.points, tap.numbers, strict=True)
    parts = [_unpacked(sent, len(points), problem.dim) for points, sent in pairs]
    joined = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return Sent(np.concatenate(potential.points), *joined)


def _unpacked(sent: np.ndarray, count: int, dim: int) -> tuple[np.ndarray, ...]:
    """Values, gradients and Hessians at `count` points; Hessians are sent as upper triangles."""
    values, gradients, packed = np.split(sent, [count, count * (1 + dim)], axis=1)
    upper = np.triu_indices(dim)
    hessians = np.zeros((len(sent), count, dim, dim))
    hessians[:, :, *upper] = packed.reshape(len(sent), count, -1)
    hessians[:, :, *upper[::-1]] = packed.reshape(len(sent), count, -1)
    return values, gradients.reshape(len(sent), count, dim), hessians


def sent_for_weights(
    problem: Problem, network: Network, seed: int, masks: Secrecy | None = None
) -> Sent:
    """What agents send for importance weights, eq. (2); with `masks`, as it can be read."""
    with jax.enable_x64(True):
        centre, scale, gossip, tap = _located(problem, network, masks)
        moved = problem.affine(centre, scale)
        agents = grouped(moved.agents(network))
        sums = CandidateSums(agents, gossip, moved.dim, int(moved.num_rows.sum()))
        found = weighted_candidates(
            sums, WeightedCandidates(), WANTED, seed, False, lambda found: False
        )
    values = np.concatenate([sent[:, :-2] for sent in tap.numbers], axis=1)
    return Sent(centre + found.points @ scale.T, values)


def sent_in_leapfrogs(
    problem: Problem, network: Network, seed: int, masks: Secrecy | None = None
) -> Sent:
    """What agents send in leapfrogs of lock-step HMC, eq. (3); with `masks`, as it can be read."""
    with jax.enable_x64(True):
        centre, scale, gossip, tap = _located(problem, network, masks)
        chains = SummedChains.of(problem.affine(centre, scale), gossip)
        starts = jnp.asarray(np.random.default_rng(seed).standard_normal((CHAINS, problem.dim)))
        phase = Phase(starts, jnp.zeros_like(starts), *chains.at(starts))
        phase, points = refreshed(phase, shared_keys(seed, CHAINS), 1), [starts]
        for _ in range(LEAPFROGS):
            phase = chains.leapfrogs(1, phase, STEP, jnp.ones(problem.dim))
            points.append(phase.position)
    numbers = np.concatenate(
        [sent[:, :-1].reshape(network.size, CHAINS, -1) for sent in tap.numbers], axis=1
    )
    gradients = np.linalg.solve(scale.T, numbers[..., 1:, None])[..., 0]
    return Sent(centre + np.concatenate(points) @ scale.T, numbers[..., 0], gradients)


def _located(
    problem: Problem, network: Network, masks: Secrecy | None
) -> tuple[np.ndarray, np.ndarray, Gossip, SumTap]:
    """Centre and scale of the posterior, and sums with a tap for what comes after."""
    coordinates, _ = coordinates_at_mode(problem, Gossip(network))
    tap = SumTap(masks)
    return coordinates.centre, coordinates.scale, Gossip(network.masked(tap)), tap

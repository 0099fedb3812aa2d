"""Was the Gaussian approximation at the mode right? If not, coordinates and steps from draws.

A pilot run in the tuned coordinates z should have mean 0 and covariance I. With n effective draws
in d dimensions the eigenvalues of an empirical covariance S spread over (1 -+ sqrt(d/n))^2 by
chance (Marchenko and Pastur), so the approximation counts as wrong if there are fewer than 2 d and
than `FEWEST_DRAWS` of them, or an eigenvalue is outside

    (1 - sqrt(d/n))^2 / TOLERATED,     (1 + sqrt(d/n))^2 TOLERATED                          (1)

or an entry of the mean is farther than `FARTHEST_MEAN` from 0. Where the metric is diagonal, S has
the variances alone, and d is 1 in (1). New coordinates then come from

    c <- c + L mean,     L <- L R,   R R' = (n S + PRIOR I) / (n + PRIOR)                   (2)

and shares, penalty and sampler are agreed on again. All agents use agent 0's estimates, which flood
the network.

Agents with shares of one Gaussian posterior move alike, so that how far they are from their average

    apart^2 = max_{i,k} mean over draws of (z_ik - mean_j z_jk)^2                           (3)

says how far the step is too long for what is not Gaussian: both this and the bias fall faster than
the step. Beyond `LARGEST_APART` the step is halved. The pilot's messages count as tuning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from starlings.diagnostics.stein import mean_and_error
from starlings.errors import DivergenceError
from starlings.network import Network
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.problem.coordinates import frame, times
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.system.progress import Watch, unwatched
from starlings.tuning.ladder import RUNGS
from starlings.tuning.mode import agreed
from starlings.tuning.tuning import POINTS, Goal, Place, Tuning, tuned_at

TOLERATED = 1.5
FARTHEST_MEAN = 0.4
"""In posterior sd, beyond three standard errors."""
FEWEST_DRAWS = 100
LARGEST_APART = 0.08
"""In posterior sd."""
PRIOR = 10
MAX_PILOTS = 6


class Pilot(NamedTuple):
    """What a pilot run found of agent 0's draws, in the tuned coordinates."""

    mean: np.ndarray
    covariance: np.ndarray
    """A matrix, or the variances where the metric is diagonal."""
    effective: float
    """Effective draws."""
    points: np.ndarray
    """Some of the draws, which all agents know."""
    rounds_per_draw: float
    apart: float
    """Eq. (3)."""


def warm_up(
    problem: Problem, tuning: Tuning, network: Network, seed: int, watch: Watch = unwatched
) -> Tuning:
    """The tuning that a pilot confirms, or a better one from its draws; `watch` sees them run."""
    network = network.matched_to(problem.sites)
    with jax.enable_x64(True):
        gossip = Gossip(network, replace(tuning.sent))
        for attempt in range(MAX_PILOTS):
            try:
                found = pilot(problem, tuning, gossip, seed + attempt, watch)
            except DivergenceError:
                if tuning.exactness != "auto" or tuning.rung != "half-noise":
                    raise
                here = Place(tuning.centre, tuning.scale)
                tuning = retuned(problem, tuning, gossip, here)
                continue
            is_near, is_gaussian = found.apart <= LARGEST_APART, fits(found)
            if is_near and is_gaussian:
                break
            if not is_near:
                tuning = replace(tuning, wanted_step=tuning.step / 2)
            if is_gaussian:
                here = Place(tuning.centre, tuning.scale, found.points)
                tuning = retuned(problem, tuning, gossip, here)
            else:
                tuning = moved(problem, tuning, gossip, found)
    rounds_per_draw = tuning.predicted_rounds_per_draw
    if np.isnan(rounds_per_draw):
        rounds_per_draw = found.rounds_per_draw
    return replace(tuning, sent=gossip.ledger, predicted_rounds_per_draw=rounds_per_draw)


def pilot(
    problem: Problem, tuning: Tuning, gossip: Gossip, seed: int, watch: Watch = unwatched
) -> Pilot:
    """A short run of many chains from the centre."""
    network, sampler = gossip.network, tuning.sampler
    length = sampler.pilot
    half = length.cycles * sampler.cycle // 2
    schedule = Schedule(draws=length.draws, burn_in=half, thin=half // length.draws)
    agents = tuning.problem(problem).agents(network)
    start = jax.numpy.asarray(np.zeros((length.chains, len(network.local), problem.dim)))
    name = f"tuning, pilot run {tuning.pilots + 1}"
    with watch(name, schedule.num_rounds) as report:
        recording = loop.run(sampler, agents, network, start, seed, schedule, report)
    if recording.count < schedule.draws:
        raise KeyboardInterrupt  # half a pilot is of no use, unlike half a run
    record = recording.joined()
    spent = schedule.num_rounds
    gossip.ledger.add(spent, spent * gossip.links * length.chains, sampler.card.floats(problem.dim))
    draws = np.moveaxis(record.position[:, :, 0], 0, 1)
    mean, error = mean_and_error(draws)
    flat = draws.reshape(-1, problem.dim)
    count = max(1.0, float(np.min(flat.var(axis=0) / np.maximum(error, 1e-300) ** 2)))
    is_diagonal = tuning.scale.ndim == 1
    spread = flat.var(axis=0, ddof=1) if is_diagonal else np.atleast_2d(np.cov(flat.T))
    found = (np.array(count), mean, spread, flat[:: len(flat) // POINTS][:POINTS])
    told = agreed(gossip, np.concatenate([part.ravel() for part in found]))
    pieces = np.split(told, np.cumsum([part.size for part in found])[:-1])
    told_count, mean, spread, points = (
        piece.reshape(part.shape) for piece, part in zip(pieces, found, strict=True)
    )
    rounds_per_draw = length.chains * length.draws * schedule.thin / float(told_count)
    apart = 0.0  # where potentials are quadratic, or all agents move together
    if not (problem.is_quadratic or sampler.common_start):
        apart = distance_apart(gossip, record.position.reshape(-1, *record.position.shape[2:]))
    return Pilot(mean, spread, float(told_count), points, rounds_per_draw, apart)


def distance_apart(gossip: Gossip, draws: np.ndarray) -> float:
    """Eq. (3) from some of the draws (draw, agent, dim): a sum and a maximum over the network."""
    some = np.moveaxis(draws[:: len(draws) // POINTS][:POINTS], 1, 0)
    average = gossip.sum(some) / gossip.network.size
    apart = np.sqrt(((some - average) ** 2).mean(axis=1).max(axis=1))
    return float(gossip.max(apart[:, None])[0, 0])


def fits(found: Pilot) -> bool:
    """Whether the draws of a pilot look like N(0, I)."""
    mean, covariance, count = found.mean, found.covariance, found.effective
    is_diagonal = covariance.ndim == 1
    edge = np.sqrt((1 if is_diagonal else len(mean)) / count)
    eigenvalues = np.sort(covariance) if is_diagonal else np.linalg.eigvalsh(covariance)
    low, high = eigenvalues[[0, -1]]
    least = max(1 - edge, 0) ** 2 / TOLERATED  # (1)
    most = (1 + edge) ** 2 * TOLERATED
    enough = count >= min(2 * len(mean), FEWEST_DRAWS)
    near = np.abs(mean).max() < FARTHEST_MEAN + 3 / np.sqrt(count)
    return bool(enough and least < low and high < most and near)


def moved(problem: Problem, tuning: Tuning, gossip: Gossip, found: Pilot) -> Tuning:
    """Tuned anew, to the moments of a pilot, eq. (2)."""
    mean, covariance, count = found.mean, found.covariance, found.effective
    is_diagonal = covariance.ndim == 1
    unit = np.ones(len(mean)) if is_diagonal else np.eye(len(mean))
    shrunk = (count * covariance + PRIOR * unit) / (count + PRIOR)
    centre = tuning.centre + times(tuning.scale, mean)
    root = np.sqrt(shrunk) if is_diagonal else np.linalg.cholesky(shrunk)
    scale = tuning.scale * root if is_diagonal else tuning.scale @ root
    points = frame(mean, root, 0).from_original(found.points)
    return retuned(problem, tuning, gossip, Place(centre, scale, points))


def retuned(problem: Problem, tuning: Tuning, gossip: Gossip, place: Place) -> Tuning:
    """Tuned again in other coordinates, or in the same ones with another step.

    After a pilot run that diverged there are no points, and "auto" turns to Metropolis, from which
    it does not come back.
    """
    is_auto, is_metropolis = tuning.exactness == "auto", tuning.rung == "metropolis"
    rung = "metropolis" if is_auto and (place.points is None or is_metropolis) else tuning.exactness
    asked = type(tuning.sampler) if tuning.rung not in RUNGS else None
    goal = Goal(rung, asked, tuning.wanted_step)
    new = tuned_at(problem, gossip, place, goal, tuning.newton_iterations, tuning.pilots + 1)
    return replace(new, exactness=tuning.exactness)

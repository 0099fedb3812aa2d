"""Pilot runs: is the Gaussian approximation at the mode right? If not, tune again from their draws.

A pilot run in the tuned coordinates z should have mean 0 and covariance I. With n effective draws
in d dimensions the eigenvalues of an empirical covariance S spread over (1 -+ sqrt(d/n))^2 by
chance (Marchenko and Pastur), so the approximation counts as wrong if n is below both 2 d and
`FEWEST_EFFECTIVE_DRAWS`, or an eigenvalue is outside

    (1 - sqrt(d/n))^2 / TOLERATED_STRETCH,     (1 + sqrt(d/n))^2 TOLERATED_STRETCH          (1)

or an entry of the mean is farther than `FARTHEST_MEAN` from 0. Where the metric is diagonal, S has
only variances, and d is 1 in (1). New coordinates then come from

    c <- c + L mean,     L <- L R,   R R' = (n S + m I) / (n + m),   m = PRIOR_DRAWS        (2)

and shares, penalty and sampler are chosen again. All agents use the estimates of agent 0, which are
broadcast.

Agents with shares of one Gaussian posterior move alike, so that their disagreement

    max_{i,k} sqrt( mean over draws of (z_ik - mean_j z_jk)^2 )                             (3)

says how far the step is too long for what is not Gaussian: both this and the bias fall faster than
the step. Above `LARGEST_DISAGREEMENT` the step is halved. The pilot's messages count as tuning.
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
from starlings.samplers import Sampler
from starlings.solvers.pooled.potential import broadcast
from starlings.system.progress import ProgressFactory, no_progress
from starlings.tuning.ladder import RUNGS
from starlings.tuning.shares import CURVATURE_POINTS
from starlings.tuning.tuner import Coordinates, Goal, tuned_at
from starlings.tuning.tuning import Tuning

TOLERATED_STRETCH = 1.5
"""Factor, beyond chance, by which a variance in tuned coordinates may differ from 1."""
FARTHEST_MEAN = 0.4
"""How far a mean may be from 0, in posterior sd, beyond three standard errors."""
FEWEST_EFFECTIVE_DRAWS = 100
"""Number of effective draws that is enough in any dimension; 2 d of them are enough too."""
LARGEST_DISAGREEMENT = 0.08
"""Disagreement of the agents, eq. (3), above which the step is halved, in posterior sd."""
PRIOR_DRAWS = 10
"""Weight of the old coordinates in eq. (2), in effective draws."""
MAX_PILOTS = 6
"""Number of pilot runs after which the coordinates are taken as they are."""
SMALLEST_ERROR = 1e-300
"""Smallest standard error of a mean that is divided by, in posterior sd."""


class Pilot(NamedTuple):
    """Estimates from the draws of a pilot run, in the tuned coordinates."""

    mean: np.ndarray
    """The mean of agent 0's draws, (dim,)."""
    covariance: np.ndarray
    """Their covariance: a matrix, or the variances where the metric is diagonal."""
    effective_draws: float
    """Their effective sample size, of the coordinate in which it is least."""
    points: np.ndarray
    """A subset of them, (point, dim), which all agents know."""
    rounds_per_draw: float
    """Rounds per effective draw."""
    disagreement: float
    """The disagreement of the agents, eq. (3), in posterior sd."""


def refine(
    problem: Problem,
    tuning: Tuning,
    network: Network,
    seed: int,
    watch: ProgressFactory = no_progress,
) -> Tuning:
    """The tuning if a pilot run confirms it, and otherwise a better one from the pilot's draws.

    Args:
        problem: the model and the rows of every site, in the model's own coordinates.
        tuning: what `tune` found.
        network: who talks to whom.
        seed: the seed of the first pilot run; the next ones count on from it.
        watch: reports the progress of the pilot runs.
    """
    network = network.matched_to(problem.sites)
    with jax.enable_x64(True):
        gossip = Gossip(network, replace(tuning.sent))
        for attempt in range(MAX_PILOTS):
            try:
                found = pilot(problem, tuning, gossip, seed + attempt, watch)
            except DivergenceError:
                if tuning.exactness != "auto" or tuning.rung != "half-noise":
                    raise
                here = Coordinates(tuning.centre, tuning.scale)
                tuning = retuned(problem, tuning, gossip, here)
                continue
            if fits(found) and found.disagreement <= LARGEST_DISAGREEMENT:
                break
            tuning = improved(problem, tuning, gossip, found)
    rounds_per_draw = tuning.predicted_rounds_per_draw
    if np.isnan(rounds_per_draw):
        rounds_per_draw = found.rounds_per_draw
    return replace(tuning, sent=gossip.ledger, predicted_rounds_per_draw=rounds_per_draw)


def pilot(
    problem: Problem,
    tuning: Tuning,
    gossip: Gossip,
    seed: int,
    watch: ProgressFactory = no_progress,
) -> Pilot:
    """A short run of many chains from the centre, and what its draws say."""
    positions = _pilot_draws(problem, tuning, gossip, seed, watch)
    estimates = _estimates(np.moveaxis(positions[:, :, 0], 0, 1), tuning.scale.ndim == 1)
    count, mean, covariance, points = _broadcast_all(gossip, estimates)
    length, schedule = tuning.sampler.pilot, pilot_schedule(tuning.sampler)
    rounds_per_draw = length.chains * length.draws * schedule.thin / float(count)
    disagreement = 0.0  # where potentials are quadratic, or all agents move together
    if not (problem.is_quadratic or tuning.sampler.common_start):
        disagreement = worst_disagreement(gossip, positions.reshape(-1, *positions.shape[2:]))
    return Pilot(mean, covariance, float(count), points, rounds_per_draw, disagreement)


def pilot_schedule(sampler: Sampler) -> Schedule:
    """The rounds of a pilot run, whose first half is burn-in."""
    half = sampler.pilot.cycles * sampler.cycle // 2
    return Schedule(draws=sampler.pilot.draws, burn_in=half, thin=half // sampler.pilot.draws)


def _pilot_draws(
    problem: Problem, tuning: Tuning, gossip: Gossip, seed: int, watch: ProgressFactory
) -> np.ndarray:
    """Positions (draw, chain, agent, dim) of the local agents; what they send is counted."""
    network, sampler, chains = gossip.network, tuning.sampler, tuning.sampler.pilot.chains
    schedule = pilot_schedule(sampler)
    agents = tuning.problem(problem).agents(network)
    start = jax.numpy.asarray(np.zeros((chains, len(network.local), problem.dim)))
    with watch(f"tuning, pilot run {tuning.pilots + 1}", schedule.num_rounds) as report:
        recording = loop.run(sampler, agents, network, start, seed, schedule, report)
    if recording.count < schedule.draws:
        raise KeyboardInterrupt  # an incomplete pilot is of no use, unlike an incomplete run
    rounds = schedule.num_rounds
    gossip.ledger.add(rounds, rounds * gossip.links * chains, sampler.card.floats(problem.dim))
    return recording.joined().position


def _estimates(draws: np.ndarray, is_diagonal: bool) -> list[np.ndarray]:
    """Effective draws, mean, covariance and a subset of one agent's draws (chain, draw, dim)."""
    mean, error = mean_and_error(draws)
    flat = draws.reshape(-1, draws.shape[-1])
    ratios = flat.var(axis=0) / np.maximum(error, SMALLEST_ERROR) ** 2
    count = max(1.0, float(np.min(ratios)))
    covariance = flat.var(axis=0, ddof=1) if is_diagonal else np.atleast_2d(np.cov(flat.T))
    return [np.array(count), mean, covariance, _subset(flat)]


def _subset(draws: np.ndarray) -> np.ndarray:
    """`CURVATURE_POINTS` of the draws (draw, ...), evenly spaced."""
    return draws[:: len(draws) // CURVATURE_POINTS][:CURVATURE_POINTS]


def _broadcast_all(gossip: Gossip, values: list[np.ndarray]) -> list[np.ndarray]:
    """Several arrays as agent 0 has them, in one broadcast."""
    flat = broadcast(gossip, np.concatenate([value.ravel() for value in values]))
    pieces = np.split(flat, np.cumsum([value.size for value in values])[:-1])
    return [piece.reshape(value.shape) for piece, value in zip(pieces, values, strict=True)]


def worst_disagreement(gossip: Gossip, draws: np.ndarray) -> float:
    """Eq. (3) from a subset of draws (draw, agent, dim): a sum and a maximum over the network."""
    by_agent = np.moveaxis(_subset(draws), 1, 0)
    average = gossip.sum(by_agent) / gossip.network.size
    distances = np.sqrt(((by_agent - average) ** 2).mean(axis=1).max(axis=1))
    return float(gossip.max(distances[:, None])[0, 0])


def fits(found: Pilot) -> bool:
    """Whether the draws of a pilot run are consistent with N(0, I)."""
    mean, covariance, count = found.mean, found.covariance, found.effective_draws
    is_diagonal = covariance.ndim == 1
    edge = np.sqrt((1 if is_diagonal else len(mean)) / count)
    eigenvalues = np.sort(covariance) if is_diagonal else np.linalg.eigvalsh(covariance)
    low, high = eigenvalues[[0, -1]]
    least = max(1 - edge, 0) ** 2 / TOLERATED_STRETCH  # (1)
    most = (1 + edge) ** 2 * TOLERATED_STRETCH
    is_enough = count >= min(2 * len(mean), FEWEST_EFFECTIVE_DRAWS)
    is_near = np.abs(mean).max() < FARTHEST_MEAN + 3 / np.sqrt(count)
    return bool(is_enough and least < low and high < most and is_near)


def improved(problem: Problem, tuning: Tuning, gossip: Gossip, found: Pilot) -> Tuning:
    """Half the step where agents disagree, and new coordinates where the draws do not fit."""
    if found.disagreement > LARGEST_DISAGREEMENT:
        tuning = replace(tuning, wanted_step=tuning.step / 2)
    if not fits(found):
        return moved(problem, tuning, gossip, found)
    here = Coordinates(tuning.centre, tuning.scale, found.points)
    return retuned(problem, tuning, gossip, here)


def moved(problem: Problem, tuning: Tuning, gossip: Gossip, found: Pilot) -> Tuning:
    """Tuned again in coordinates that have the moments of a pilot run, eq. (2)."""
    mean, covariance, count = found.mean, found.covariance, found.effective_draws
    is_diagonal = covariance.ndim == 1
    unit = np.ones(len(mean)) if is_diagonal else np.eye(len(mean))
    shrunk = (count * covariance + PRIOR_DRAWS * unit) / (count + PRIOR_DRAWS)
    root = np.sqrt(shrunk) if is_diagonal else np.linalg.cholesky(shrunk)
    centre = tuning.centre + times(tuning.scale, mean)
    scale = tuning.scale * root if is_diagonal else tuning.scale @ root
    points = frame(mean, root, 0).from_original(found.points)
    return retuned(problem, tuning, gossip, Coordinates(centre, scale, points))


def retuned(problem: Problem, tuning: Tuning, gossip: Gossip, coordinates: Coordinates) -> Tuning:
    """Tuned again in other coordinates, or in the same ones with another step.

    After a pilot run that diverged there are no points, and "auto" turns to Metropolis, from which
    it does not come back.
    """
    is_auto, is_metropolis = tuning.exactness == "auto", tuning.rung == "metropolis"
    has_diverged = coordinates.points is None
    rung = "metropolis" if is_auto and (has_diverged or is_metropolis) else tuning.exactness
    asked = type(tuning.sampler) if tuning.rung not in RUNGS else None
    new = tuned_at(problem, gossip, coordinates, Goal(rung, asked, tuning.wanted_step))
    return replace(
        new,
        exactness=tuning.exactness,
        newton_iterations=tuning.newton_iterations,
        pilots=tuning.pilots + 1,
    )

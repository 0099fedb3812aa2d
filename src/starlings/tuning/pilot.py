"""Pilot runs: is the Gaussian approximation at the mode right? If not, tune again from their draws.

A pilot run in the tuned coordinates z should have mean 0 and covariance I, within the limits of
`moments`. New coordinates otherwise come from its draws, with mean and covariance S of n effective
ones:

    c <- c + L mean,     L <- L R,   R R' = (n S + m I) / (n + m),   m = PRIOR_DRAWS        (1)

and shares, penalty and sampler are chosen again. All agents use the estimates of agent 0, which are
broadcast.

Agents with shares of one Gaussian posterior move alike, so that their disagreement

    max_{i,k} sqrt( mean over draws of (z_ik - mean_j z_jk)^2 )                             (2)

says how far the step is too long for what is not Gaussian: both this and the bias fall faster than
the step. Above `LARGEST_DISAGREEMENT` the step is halved. The pilot's messages count as tuning.

Where potentials are quadratic and the exact law of the sampler is known, there is nothing to find
out. Where importance weights confirm the approximation (see `confirmation`), the pilot run is a
short one, for the disagreement only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from starlings.diagnostics.stein import mean_and_error
from starlings.errors import DivergenceError
from starlings.network import Network
from starlings.network.gossip import MESSAGES, Gossip
from starlings.problem import Problem
from starlings.problem.coordinates import frame, times
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers import PilotLength, Sampler
from starlings.solvers.pooled.potential import broadcast
from starlings.system.progress import ProgressFactory, no_progress
from starlings.tuning.confirmation import is_confirmed
from starlings.tuning.ladder import RUNGS
from starlings.tuning.moments import Moments, fit
from starlings.tuning.shares import CURVATURE_POINTS
from starlings.tuning.tuner import Coordinates, Goal, tuned_at
from starlings.tuning.tuning import Tuning

LARGEST_DISAGREEMENT = 0.08
"""Disagreement of the agents, eq. (2), above which the step is halved, in posterior sd."""
PRIOR_DRAWS = 10
"""Weight of the old coordinates in eq. (1), in effective draws."""
MAX_PILOTS = 6
"""Number of pilot runs after which the coordinates are taken as they are."""
SHORT_PILOT = PilotLength(chains=64, cycles=200, draws=4)
"""The length of a pilot run that only has to tell how far the agents are apart."""
SUMMARY = "summary of one site's draws"
"""What one agent tells all others of its own draws, in the account of what leaves a site."""
SMALLEST_ERROR = 1e-300
"""Smallest standard error of a mean that is divided by, in posterior sd."""


class Pilot(NamedTuple):
    """Estimates from the draws of a pilot run, in the tuned coordinates."""

    moments: Moments
    """Those of the draws of the agent at the root of the sums."""
    points: np.ndarray
    """A subset of these draws, (point, dim), which all agents know."""
    rounds_per_draw: float
    """Rounds per effective draw."""
    disagreement: float
    """The disagreement of the agents, eq. (2), in posterior sd."""

    @property
    def fits(self) -> bool:
        """Whether the draws are consistent with N(0, I)."""
        return fit(self.moments)


def refine(
    problem: Problem,
    tuning: Tuning,
    network: Network,
    seed: int,
    watch: ProgressFactory = no_progress,
    is_worthwhile: Callable[[Tuning], bool] = lambda _: True,
) -> Tuning:
    """The tuning if a pilot run confirms it, and otherwise a better one from the pilot's draws.

    Args:
        problem: the model and the rows of every site, in the model's own coordinates.
        tuning: what `tune` found.
        network: who talks to whom.
        seed: the seed of the first pilot run; the next ones count on from it.
        watch: reports the progress of the pilot runs.
        is_worthwhile: asked before every pilot run; if it is not, the tuning is returned as it is.
    """
    network = network.matched_to(problem.sites)
    if problem.is_quadratic and tuning.is_pace_known:
        return tuning
    with jax.enable_x64(True):
        gossip = Gossip(network, tuning.sent.copy())
        is_gaussian = tuning.is_pace_known and is_confirmed(problem, tuning, gossip, seed)
        for attempt in range(MAX_PILOTS):
            if not is_worthwhile(tuning):
                return replace(tuning, sent=gossip.ledger)
            is_short = is_gaussian and tuning.is_pace_known
            length = SHORT_PILOT if is_short else tuning.sampler.pilot
            try:
                found = pilot(problem, tuning, gossip, seed + attempt, watch, length)
            except DivergenceError:
                if tuning.exactness != "auto" or tuning.rung != "half-noise":
                    raise
                here = Coordinates(tuning.centre, tuning.scale)
                tuning = retuned(problem, tuning, gossip, here)
                continue
            is_fit = is_short or found.fits
            if is_fit and found.disagreement <= LARGEST_DISAGREEMENT:
                break
            tuning = improved(problem, tuning, gossip, found, is_fit)
    pace = tuning.predicted_rounds_per_draw if tuning.is_pace_known else found.rounds_per_draw
    return replace(tuning, sent=gossip.ledger, predicted_rounds_per_draw=pace)


def pilot(
    problem: Problem,
    tuning: Tuning,
    gossip: Gossip,
    seed: int,
    watch: ProgressFactory = no_progress,
    length: PilotLength | None = None,
) -> Pilot:
    """A short run of many chains from the centre, and what its draws say.

    By default the run has the length that the sampler asks for.
    """
    length = tuning.sampler.pilot if length is None else length
    positions = _pilot_draws(problem, tuning, gossip, seed, watch, length)
    average = _average_if_masked(gossip, positions)
    shown = np.moveaxis(positions[:, :, gossip.speaker] if average is None else average, 0, 1)
    estimates = _estimates(shown, tuning.scale.ndim == 1)
    count, mean, covariance, points = _broadcast_all(gossip, estimates)
    schedule = pilot_schedule(tuning.sampler, length)
    rounds_per_draw = length.chains * length.draws * schedule.thin / float(count)
    disagreement = 0.0  # where potentials are quadratic, or all agents move together
    if not (problem.is_quadratic or tuning.sampler.common_start):
        draws = positions.reshape(-1, *positions.shape[2:])
        known = None if average is None else _subset(average.reshape(-1, problem.dim))
        disagreement = worst_disagreement(gossip, draws, known)
    moments = Moments(mean, covariance, float(count))
    return Pilot(moments, points, rounds_per_draw, disagreement)


def pilot_schedule(sampler: Sampler, length: PilotLength) -> Schedule:
    """The rounds of a pilot run, whose first half is burn-in."""
    half = length.cycles * sampler.cycle // 2
    return Schedule(draws=length.draws, burn_in=half, thin=half // length.draws)


def _pilot_draws(
    problem: Problem,
    tuning: Tuning,
    gossip: Gossip,
    seed: int,
    watch: ProgressFactory,
    length: PilotLength,
) -> np.ndarray:
    """Positions (draw, chain, agent, dim) of the local agents; what they send is counted."""
    network, sampler, chains = gossip.network, tuning.sampler, length.chains
    schedule = pilot_schedule(sampler, length)
    agents = tuning.problem(problem).agents(network)
    start = jax.numpy.asarray(np.zeros((chains, len(network.local), problem.dim)))
    rounds, floats = schedule.num_rounds, sampler.floats(problem.dim)
    gossip.count(rounds, rounds * gossip.links * chains, floats)  # of a pilot that fails, too
    gossip.ledger.note(MESSAGES, rounds * chains * floats)
    with watch(f"tuning, pilot run {tuning.pilots + 1}", schedule.num_rounds) as report:
        recording = loop.run(sampler, agents, network, start, seed, schedule, report)
    if recording.count < schedule.draws:
        raise KeyboardInterrupt  # an incomplete pilot is of no use, unlike an incomplete run
    return recording.joined().position


def _average_if_masked(gossip: Gossip, positions: np.ndarray) -> np.ndarray | None:
    """The average of all agents' draws (draw, chain, dim); None where messages are not masked.

    Then all agents learn from the draws of one of them. Masked agents show theirs to nobody.
    """
    if gossip.masks is None:
        return None
    return gossip.sum(np.moveaxis(positions, 2, 0), "draws")[0] / gossip.network.size


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
    """Several arrays as one agent has them, in one broadcast; masked, they are of the average."""
    flat = np.concatenate([value.ravel() for value in values])
    if gossip.masks is None:
        network = gossip.network
        gossip.ledger.note(SUMMARY, flat.size, [network.names[network.centre]])
    flat = broadcast(gossip, flat)
    pieces = np.split(flat, np.cumsum([value.size for value in values])[:-1])
    return [piece.reshape(value.shape) for piece, value in zip(pieces, values, strict=True)]


def worst_disagreement(
    gossip: Gossip, draws: np.ndarray, average: np.ndarray | None = None
) -> float:
    """Eq. (2) from a subset of draws (draw, agent, dim): a sum and a maximum over the network.

    `average` is that of the subset over the agents (draw, dim), if it is known: no sum is formed.
    """
    by_agent = np.moveaxis(_subset(draws), 1, 0)
    if average is None:
        average = gossip.sum(by_agent, "draws") / gossip.network.size
    distances = np.sqrt(((by_agent - average) ** 2).mean(axis=1).max(axis=1))
    return float(gossip.largest(distances[:, None], "distance from the average")[0, 0])


def improved(
    problem: Problem, tuning: Tuning, gossip: Gossip, found: Pilot, is_fit: bool
) -> Tuning:
    """Half the step where agents disagree, and new coordinates where the draws do not fit."""
    if found.disagreement > LARGEST_DISAGREEMENT:
        tuning = replace(tuning, wanted_step=tuning.step / 2)
    if not is_fit:
        return moved(problem, tuning, gossip, found)
    here = Coordinates(tuning.centre, tuning.scale, found.points)
    return retuned(problem, tuning, gossip, here)


def moved(problem: Problem, tuning: Tuning, gossip: Gossip, found: Pilot) -> Tuning:
    """Tuned again in coordinates that have the moments of a pilot run, eq. (1)."""
    mean, covariance, count = found.moments
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

"""Attacks on what samplers send in rounds, in the clear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from starlings.network import Network
from starlings.problem import Problem
from starlings.random.addresses import Round
from starlings.research.privacy import equations
from starlings.research.privacy.beliefs import of_beliefs as beliefs_taken_apart
from starlings.research.privacy.rounds import Heard, Known, by_round, noise_of, slopes
from starlings.research.privacy.runs import (
    EVERY_ROUND,
    SEED,
    SITE,
    Found,
    Run,
    rows_found,
    rows_found_by_site,
)
from starlings.research.privacy.trial import OTHER_ROWS, Study, prior_part
from starlings.results.result import Result
from starlings.samplers import DADMMS, DSGLD, Metropolis, PeerLearning, Sampler
from starlings.sampling import sample

ROUNDS = 200
"""Rounds of a sampler that are heard."""
CANDIDATES, VOTES = 300, 2000
"""Candidates of Metropolis whose changes, or votes, are heard."""
STEP_LENGTH = 0.5
"""The step length of Metropolis."""


def of_positions(sampler: Sampler, num_rows: int, is_seed_known: bool = True) -> Found:
    """Rows from the positions that a sampler sends: gradients first, then rows.

    Without the seed the neighbour takes noise for zero, and the fit averages over it.
    """
    run = Run.on_path(sampler, num_rows, ROUNDS)
    return _from_slopes(run, SITE, is_seed_known)


def _from_slopes(run: Run, site: int, is_seed_known: bool = True) -> Found:
    """Rows of a site from what all its neighbours hear together."""
    found = run.slopes(site, is_seed_known)
    own = found.gradients - prior_part(run.problem, found.points).gradient
    rows = rows_found(run.problem, [site], [equations.of_gradients(found.points, own)])
    return rows._replace(gradient_error=run.gradient_error(found, site))


def of_result(result: Result, problem: Problem, network: Network, sampler: Sampler) -> Found:
    """Rows of the last site from the result of a run that recorded every round, masked or not.

    The first round is not in the result: noise is that of later ones.
    """
    site, draws = network.size - 1, result.posterior["beta"].values[0]
    heard, known = Heard.of(draws, network, site), Known.of(network, site)
    noise = noise_of(sampler, known, SEED, len(draws), problem.dim)[1:]
    found = slopes(sampler, heard, known, noise)
    own = found.gradients - prior_part(problem, found.points).gradient
    return rows_found(problem, [site], [equations.of_gradients(found.points, own)])


def of_masked_result(sampler: Sampler, study: Study) -> Found:
    """The same for three masked sites."""
    problem = study.problem()
    network = Network.ring(3).matched_to(problem.sites)
    how = {**EVERY_ROUND, "draws": ROUNDS, "privacy": "totals"}
    return of_result(sample(problem, network, sampler, **how), problem, network, sampler)


def of_beliefs(sampler: PeerLearning, num_rows: int) -> Found:
    """Rows from beliefs: gradients and Hessians at the modes, and then rows."""
    run = Run.on_path(sampler, num_rows, sampler.updates + 1)
    heard, known = Heard.of(run.messages, run.network, SITE), Known.of(run.network, SITE)
    found, hessians = beliefs_taken_apart(sampler, heard, known)
    prior = prior_part(run.problem, found.points)
    received = [
        equations.of_gradients(found.points, found.gradients - prior.gradient),
        equations.of_hessians(found.points, hessians - prior.hessian),
    ]
    rows = rows_found(run.problem, [SITE], received)
    return rows._replace(gradient_error=run.gradient_error(found, SITE))


def of_curvature_noise(sampler: DADMMS, num_rows: int) -> Found:
    """Rows from positions whose noise depends on the rows: both are fitted at once."""
    run = Run.on_path(sampler, num_rows, ROUNDS)
    found, before = run.slopes(SITE), run.messages[:-1, SITE]
    is_private = sampler.noise == "curvature"

    def normal(round: Round, like: jax.Array) -> jax.Array:
        if is_private:
            return round.private_noise(like)
        return jax.random.normal(round.shared_key(), like.shape, like.dtype)

    own = found.gradients - prior_part(run.problem, found.points).gradient
    prior = prior_part(run.problem, before).hessian
    of_noise = equations.of_root_noise if is_private else equations.of_hessian_noise
    drawn = _drawn_by_site(run, normal)
    return rows_found(run.problem, [SITE], [of_noise(own, found.points, before, drawn, prior)])


def _drawn_by_site(run: Run, draw: Callable[[Round, jax.Array], jax.Array]) -> Any:
    """What the site that is attacked draws in rounds 1, 2, ..., from the seed."""
    rounds, known = len(run.messages) - 1, Known.of(run.network, SITE)
    return by_round(draw, known, SEED, rounds, run.problem.dim)


def of_minibatches(num_rows: int, batch_size: int) -> Found:
    """Rows from the positions of D-SGLD with minibatches, whose numbers follow from the seed."""
    run = Run.on_path(DSGLD(0.01, batch_size=batch_size), num_rows, ROUNDS)
    found = run.slopes(SITE)

    def batch(round: Round, like: jax.Array) -> jax.Array:
        return jax.random.randint(round.batch_key(), (batch_size,), 0, num_rows)

    own = found.gradients - prior_part(run.problem, found.points).gradient
    received = equations.of_minibatches(found.points, own, _drawn_by_site(run, batch))
    return rows_found(run.problem, [SITE], [received])


class Candidates(NamedTuple):
    """Candidates of Metropolis, which all sites know, and what the site that is attacked sent."""

    run: Run
    rounds: np.ndarray
    """The round at whose end each of them was drawn, (candidate,)."""
    before: np.ndarray
    """The positions before, (candidate, dim)."""
    after: np.ndarray
    """The candidates themselves, (candidate, dim)."""
    known: np.ndarray
    """The part of the site's change that does not depend on rows: prior and reference."""

    @classmethod
    def of(cls, decision: str, num_rows: int, count: int) -> Candidates:
        """A run on a path whose last site has `num_rows` rows."""
        sampler = Metropolis.on(Network.path(3), STEP_LENGTH, decision)
        rounds = sampler.flood_rounds + sampler.cycle * np.arange(count)
        run = Run.on_path(sampler, num_rows, int(rounds[-1]) + 1)
        noise = _drawn_by_site(run, Round.shared_noise)[rounds - 1]
        before = run.draws[rounds - 1]
        after = np.sqrt(1 - STEP_LENGTH**2) * before + STEP_LENGTH * noise
        known = _outside(run, after) - _outside(run, before)
        return cls(run, rounds, before, after, known)

    @property
    def sent(self) -> np.ndarray:
        """What the site sent about each of them, in the round after, (candidate,)."""
        return self.run.messages[self.rounds, SITE, 0]


def _outside(run: Run, points: np.ndarray) -> np.ndarray:
    """The part of eq. (2) of `starlings.samplers.metropolis` that does not depend on rows."""
    share = Known.of(run.network, SITE).share
    return prior_part(run.problem, points).value - share * np.sum(points**2, axis=1) / 2


def of_changes(num_rows: int) -> Found:
    """Rows from changes of the potential, as Metropolis with the decision "sum" sends them."""
    heard = Candidates.of("sum", num_rows, CANDIDATES)
    changes = heard.sent - heard.known
    received = equations.of_changes(heard.before, heard.after, changes)
    return rows_found(heard.run.problem, [SITE], [received])


def of_votes(num_rows: int) -> Found:
    """Rows from votes of Metropolis with the decision "factorised".

    The threshold of a vote is -log u of eq. (3) of `starlings.samplers.metropolis`, and follows
    from the seed.
    """
    heard = Candidates.of("factorised", num_rows, VOTES)

    def threshold(round: Round, like: jax.Array) -> jax.Array:
        return jax.random.exponential(round.batch_key(), dtype=like.dtype)

    drawn = _drawn_by_site(heard.run, threshold)[heard.rounds - 1]
    received = equations.of_votes(heard.before, heard.after, drawn - heard.known, heard.sent)
    return rows_found(heard.run.problem, [SITE], [received])


def ring_run(sampler: DADMMS, num_rows: int) -> Run:
    """A run on a ring of four, 0 - 1 - 2 - 3 - 0, where sites 0 and 2 have `num_rows` rows each."""
    study = Study([num_rows, OTHER_ROWS, num_rows, OTHER_ROWS])
    return Run.of(sampler, study, Network.ring(4), ROUNDS)


def by_two_neighbours(sampler: DADMMS, num_rows: int) -> Found:
    """Rows of site 0 on a ring of four, if sites 1 and 3 tell each other what they hear."""
    return _from_slopes(ring_run(sampler, num_rows), 0)


def by_one_neighbour(sampler: DADMMS, num_rows: int) -> Found:
    """Rows of sites 0 and 2 on a ring of four, by site 1 alone.

    Both are neighbours of sites 1 and 3. What site 3 sends, which site 1 does not hear, is the same
    in eq. (1) of `rounds` for both, and cancels in the difference of their gradients; so does
    coherent noise.
    """
    run = ring_run(sampler, num_rows)
    first, second = run.messages[:, 0], run.messages[:, 2]
    nothing = np.zeros_like(first)
    heard = Heard(first - second, nothing, nothing)
    differences = slopes(sampler, heard, Known.of(run.network, 0), nothing[1:]).gradients
    one, other = (prior_part(run.problem, points[1:]).gradient for points in (first, second))
    own = differences - (one - other)
    received = equations.of_two_sites(first[1:], second[1:], own, num_rows)
    return rows_found_by_site(run.problem, [0, 2], [received])

"""The attack on messages: what it is built of, and every line of the page's table."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.network.gossip import Gossip
from starlings.privacy.guard_rails import GuardRails
from starlings.privacy.secrecy import Secrecy
from starlings.research.privacy import equations, on_rounds, recovery, rounds, sums, table
from starlings.research.privacy.recovery import EXPLAINED, RECOVERED, Recovered, Score
from starlings.research.privacy.runs import EVERY_ROUND, Found, Run
from starlings.research.privacy.trial import OTHER_ROWS, Study, prior_part, rows_of
from starlings.research.privacy.wire import SumTap, tapped
from starlings.samplers.names import BUILT_IN
from tests.quick import quick_cases

DIM = Study([1]).covariates + 1
PAGE = Path(__file__).parents[2] / "docs" / "what-neighbours-learn.md"
ROUNDING = 1e-9
"""Largest error of a gradient, or of a row, that was computed without unknown noise. Proximal steps
are solved to the square of 6e-6, and least squares multiply what is left by 10 or less."""
QUICK = (
    "D-SGLD: 5 of 5",
    "importance weights: 5 of 5",
    "importance weights: 0 of 5",
)
"""The attacks of the quick suite, by method and by what the page says that they recover."""


def signed_rows(count: int, seed: int = 0) -> np.ndarray:
    """Signed rows (row, dim): covariates after a 1, and both labels."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(count), rng.standard_normal((count, DIM - 1))])
    return rng.choice([-1.0, 1.0], count)[:, None] * rows


def gradients_of(rows: np.ndarray, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Points, and the gradients of a site with these signed rows there."""
    points = np.random.default_rng(1).standard_normal((count, DIM))
    with jax.enable_x64(True):
        return points, np.asarray(equations.gradient(jnp.asarray(rows), points))


def page_lines() -> list[list[str]]:
    """The cells of every attack on the page."""
    found = re.findall(r"^\| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    lines = [line.split(" | ") for line in found]
    width = len(table.HEADINGS)
    return [
        cells
        for cells in lines
        if len(cells) == width and cells != list(table.HEADINGS) and cells[0] != "---"
    ]


def attacks_with_page_lines() -> list:
    """Every attack with its line of the page; those that are not in `QUICK` are slow."""
    cases = []
    for attack, cells in zip(table.every_attack(), page_lines(), strict=True):
        name = f"{attack.method}: {cells[4]}"
        marks = [] if name in QUICK else [pytest.mark.slow]
        cases.append(pytest.param(attack, cells, id=name, marks=marks))
    return cases


# What the attack is built of.


@pytest.mark.slow
def test_equations_of_rows_are_those_of_the_agents():
    problem = Study([7, 4]).problem()
    covariates, labels = rows_of(problem, 1)
    rows, points = (1 - 2 * labels)[:, None] * covariates, np.eye(DIM)[:3] * [[1], [-2], [3]]
    prior = prior_part(problem, points)
    with jax.enable_x64(True):
        agent = jax.tree.map(lambda array: array[1], problem.agents())
        for own, of_prior, wanted in (
            (equations.value, prior.value, agent.potential),
            (equations.gradient, prior.gradient, agent.gradient),
            (equations.hessian, prior.hessian, agent.hessian),
        ):
            expected = jax.vmap(wanted)(jnp.asarray(points))
            found = own(jnp.asarray(rows), points) + of_prior
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_row_without_an_intercept_is_known_but_for_its_mirror_image():
    rng = np.random.default_rng(2)
    a, points = rng.standard_normal((1, DIM)), rng.standard_normal((5, DIM))
    problem = {
        label: st.models.logistic_regression(covariates, [label], ["a"], intercept=False)
        for label, covariates in ((0.0, a), (1.0, -a))
    }
    for point in points:
        one, other = (each.potential(point) for each in problem.values())
        assert one == pytest.approx(other, rel=1e-14)


def test_a_root_changes_as_its_square_does_where_eigenvalues_are_equal():
    rng = np.random.default_rng(3)
    half, change = rng.standard_normal((2, DIM, 2))
    with jax.enable_x64(True):
        matrix = jnp.eye(DIM) + half @ half.T  # four eigenvalues are 1
        direction = jnp.asarray(change @ change.T)
        root, turned = jax.jvp(equations.symmetric_root, (matrix,), (direction,))
        np.testing.assert_allclose(root @ root, matrix, atol=1e-13)
        np.testing.assert_allclose(root @ turned + turned @ root, direction, atol=1e-13)


@pytest.mark.slow
def test_the_tap_hears_every_message_and_changes_no_draw():
    sampler, rounds_made = st.DSGLD(0.01), 12
    run = Run.on_path(sampler, 3, rounds_made)
    plain = st.sample(run.problem, run.network, sampler, draws=rounds_made, **EVERY_ROUND)
    draws = plain.posterior["beta"].values[0]
    assert run.messages.shape == (rounds_made, 3, DIM)
    np.testing.assert_allclose(run.messages[1:], draws[:-1], rtol=1e-12)
    np.testing.assert_allclose(run.draws, draws[:, 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("network", "rim", "parents"), [(st.Network.path(3), 2, 1), (st.Network.ring(4), 2, 2)]
)
def test_a_site_at_the_rim_sends_its_own_numbers_in_the_clear(network, rim, parents):
    parts = np.random.default_rng(4).standard_normal((network.size, 5))
    heard, tap = tapped(network)
    with jax.enable_x64(True):
        total = Gossip(heard).sum(parts)
    np.testing.assert_allclose(total, np.tile(parts.sum(axis=0), (network.size, 1)), rtol=1e-12)
    first = tap.messages[0]  # the level farthest from the root sends first
    np.testing.assert_array_equal(parents * first[rim, :5], parts[rim])


@pytest.mark.slow
@pytest.mark.parametrize("kind", quick_cases(["tuning", "weights", "hmc"], ["tuning"]))
def test_what_the_tap_of_sums_hears_is_the_agents_own(kind):
    problem = Study([5, 6, 4]).problem()
    network = st.Network.path(3).matched_to(problem.sites)
    send = {
        "tuning": sums.sent_in_tuning,
        "weights": lambda *of: sums.sent_for_weights(*of, seed=1),
        "hmc": lambda *of: sums.sent_in_leapfrogs(*of, seed=1),
    }[kind]
    sent = send(problem, network)
    with jax.enable_x64(True):
        point = jnp.asarray(sent.points[7])
        expected = jax.vmap(
            lambda agent: (agent.potential(point), agent.gradient(point), agent.hessian(point))
        )(problem.agents(network))
    for found, right in zip(sent[1:], expected, strict=True):
        if found is not None:
            np.testing.assert_allclose(found[:, 7], right, rtol=1e-9, atol=1e-9)


def test_masked_sums_have_the_same_totals_and_other_numbers():
    parts = np.random.default_rng(5).standard_normal((3, 4))
    network = st.Network.path(3)
    clear = SumTap()
    masked = SumTap(Secrecy.agreed(network))
    with jax.enable_x64(True):
        totals = [Gossip(network.masked(tap)).sum(parts)[0] for tap in (clear, masked)]
    np.testing.assert_allclose(totals[1], totals[0], atol=1e-15)
    np.testing.assert_array_equal(clear.numbers[0], parts)
    assert np.abs(masked.numbers[0]).min() > 1e6  # 2^62 on average, and never so small by chance


# Rows from numbers.


def test_rows_come_back_from_gradients():
    rows = signed_rows(6)
    found = recovery.recover_rows(*gradients_of(rows), 6, DIM)
    right = Recovered.of_signed(rows, 0.0)
    score = recovery.scored(found, right.covariates, right.labels)
    assert found.is_explained
    assert score.recovered == 6
    assert score.errors.max() < ROUNDING


def test_the_number_of_rows_is_found_too():
    received = [equations.of_gradients(*gradients_of(signed_rows(3)))]
    found = recovery.fitted_with_unknown_number(received, 5, DIM)
    assert found.is_explained
    assert len(found.labels) == 3


def test_too_few_rows_do_not_explain_gradients():
    received = [equations.of_gradients(*gradients_of(signed_rows(3)))]
    found = recovery.fitted_with_unknown_number(received, 2, DIM)
    assert found.misfit > 100 * EXPLAINED
    assert len(found.labels) == 2


def test_numbers_without_rows_behind_them_are_not_explained():
    points, gradients = np.random.default_rng(6).standard_normal((2, 40, DIM))
    assert recovery.recover_rows(points, gradients, 3, DIM).misfit > 0.5


def test_a_score_tells_right_rows_from_wrong_ones():
    covariates, labels = np.arange(12.0).reshape(4, 3), np.array([0.0, 1.0, 0.0, 1.0])
    guess = covariates[::-1].copy()
    guess[0, 2] += 2 * RECOVERED
    flipped = labels[::-1].copy()
    flipped[3] = 1.0
    score = recovery.scored(Recovered(guess, flipped, 0.0), covariates, labels)
    assert (score.total, score.recovered) == (4, 2)
    assert sorted(score.errors) == pytest.approx([0, 0, 2 * RECOVERED, np.inf])


# The table.


@pytest.mark.parametrize(("attack", "cells"), attacks_with_page_lines())
def test_an_attack_finds_what_the_page_says(attack, cells):
    assert cells[:3] == [attack.method, attack.has, attack.computes]
    found = attack.run()
    assert f"{found.score.recovered} of {found.score.total}" == cells[4]
    if found.score.recovered == found.score.total:
        assert found.score.errors.max() < ROUNDING
        assert found.rows.is_explained
        assert found.gradient_error is None or found.gradient_error < ROUNDING


def test_the_quick_suite_attacks_what_is_in_the_clear_and_what_is_masked():
    names = [f"{cells[0]}: {cells[4]}" for cells in page_lines()]
    assert set(QUICK) <= set(names)


def test_every_sampler_is_attacked():
    methods = {attack.method.split(",")[0] for attack in table.every_attack()}
    titles = {kind.card.title.replace("Midpoint", "midpoint") for kind in BUILT_IN.values()}
    kept_in_one_process = {"Asynchronous D-ADMMS"}  # which other runtimes refuse
    at_hub = {kind.card.title for kind in BUILT_IN.values() if kind.needs_hub}  # and these too
    at_one_place = {"P-ULA", "P-MALA", "MYULA"}  # which send nothing
    assert titles - methods == kept_in_one_process | at_hub | at_one_place


def test_a_table_says_what_was_found():
    rows = Recovered(np.zeros((2, 1)), np.zeros(2), 0.0)
    findings = [
        Found(rows, Score(np.array([1e-12, 3e-9])), 2e-10),
        Found(rows, Score(np.array([0.0, np.inf]))),
    ]
    tried = [table.Attack("part", "m", "h", "c", lambda f=f: f) for f in findings]
    assert list(table.lines(tried))[-2:] == [
        "| m | h | c | 2e-10 | 2 of 2 | 3e-09 |",
        "| m | h | c |  | 1 of 2 | wrong labels |",
    ]


# What the page says besides.


def test_a_study_from_whose_totals_rows_come_back_passes_all_guard_rails():
    problem = table.WITHIN_GUARD_RAILS.problem()
    GuardRails().check(problem.num_agents, problem.dim, problem.shards)


@pytest.mark.slow
def test_half_noise_output_sends_the_messages_of_iterates():
    runs = [Run.on_path(st.DADMMS(5.0, output=o), 3, 20) for o in ("half-noise", "iterate")]
    np.testing.assert_array_equal(*(run.messages for run in runs))


@pytest.mark.slow
def test_more_votes_say_more_about_a_row(monkeypatch):
    errors = []
    for votes in (250, 4000):
        monkeypatch.setattr(on_rounds, "VOTES", votes)
        errors.append(on_rounds.of_votes(1).score.errors.max())
    assert errors[1] < errors[0] / 4  # inversely as the number of votes in theory: 16


@pytest.mark.slow
def test_secret_noise_blurs_a_row_and_more_rounds_sharpen_it():
    eta = 0.05
    widths = [_fit_with_secret_noise(eta, number) for number in (16_000, 64_000)]
    np.testing.assert_allclose(widths[0] / widths[1], 2.0, rtol=0.1)  # one over the root of rounds


def _fit_with_secret_noise(eta: float, number: int) -> float:
    """The largest standard error of a row that is fitted to gradients with noise.

    The gradients of D-SGLD without the seed have independent noise of variance 2 / eta, so that
    b_hat - b is N(0, (2 / eta) (J'J)^-1) for many rounds, with J the change of gradients with b.
    """
    problem = Study([OTHER_ROWS, OTHER_ROWS, 1]).problem()
    network, sampler = st.Network.path(3).matched_to(problem.sites), st.DSGLD(eta)
    result = st.sample(problem, network, sampler, draws=number, **EVERY_ROUND)
    heard = rounds.Heard.of(result.posterior["beta"].values[0], network, 2)
    silent = np.zeros((number - 1, DIM))
    found = rounds.slopes(sampler, heard, rounds.Known.of(network, 2), silent)
    own = found.gradients - prior_part(problem, found.points).gradient
    fit = recovery.fitted([equations.of_gradients(found.points, own)], 1, DIM, starts=2)
    right, signs = rows_of(problem, 2), 1 - 2 * fit.labels[:, None]
    truth = (1 - 2 * right.labels)[:, None] * right.covariates
    with jax.enable_x64(True):
        change = jax.jacfwd(lambda rows: equations.gradient(rows, found.points))(truth)
    flat = np.asarray(change).reshape(-1, DIM)
    information, error = eta / 2 * flat.T @ flat, (signs * fit.covariates - truth)[0]
    assert error @ information @ error < scipy.stats.chi2.ppf(1 - 1e-6, DIM)
    return float(np.sqrt(np.diag(np.linalg.inv(information)).max()))

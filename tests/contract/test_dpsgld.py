"""DP-SGLD: its equations, the influence of one row, and what a result says about privacy."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import starlings as st
from starlings.errors import PrivacyError
from starlings.privacy.accounting import epsilon
from starlings.random.addresses import Round, chain_keys
from starlings.random.secret_keys import SECRET_BYTES, secret_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers.dpsgld import clipped_sum
from starlings.testing import SamplerContract, keys, rules, runs
from starlings.testing.trial import Trial
from starlings.theory import Law, Recursion, Stacked, register_law
from tests.problems import irregular_graph, unequal_linear_problem

SECRET = bytes(range(SECRET_BYTES))
GRAPH = irregular_graph()
NETWORK = st.Network(GRAPH)
AGENTS, DIM, NOISE_VARIANCE, PRIOR_VARIANCE = 6, 3, 1.0, 5.0
ROUNDS, CHAINS, SEED = 3, 2, 7
SHORT = {"draws": 5, "burn_in": 2, "chains": 2, "progress": False, "check": False}


@pytest.mark.slow
class TestContract(SamplerContract):
    samplers = (st.DPSGLD(0.01, clip=1.0, noise_multiplier=20.0, secret=SECRET),)
    rules = (
        rules.is_a_frozen_dataclass_with_a_card,
        rules.check_refuses_with_a_value_error,
        rules.message_has_the_size_on_the_card,
        rules.class_attributes_agree_with_the_step,
        rules.compiled_rounds_can_be_replayed_eagerly_from_any_round,
        keys.no_key_is_used_twice,
        runs.draws_are_those_of_a_plain_loop,
    )


def secret_noise(agents: int, dim: int) -> np.ndarray:
    """w[k][i] of rounds 1, 2, ... of chain 1."""
    private = secret_keys(chain_keys(SEED, CHAINS, agents)[0], SECRET)
    like = jax.ShapeDtypeStruct((dim,), np.float64)
    by_round = range(1, ROUNDS + 1)
    return np.array(
        [
            [Round(k, private[1, i], None).private_noise(like) for i in range(agents)]
            for k in by_round
        ]
    )


def metropolis_weights() -> np.ndarray:
    W = np.zeros((AGENTS, AGENTS))
    for i, j in GRAPH.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(GRAPH.degree[i], GRAPH.degree[j]))
    return W + np.diag(1 - W.sum(axis=1))


def transcribed(problem, x, eta, clip, sigma):
    """Eqs. (1) to (3), row by row, and how many gradients were clipped."""
    W, noise, is_clipped = metropolis_weights(), secret_noise(AGENTS, DIM), []
    sd = max(np.sqrt(2 * eta), eta * sigma * clip)
    for k in range(ROUNDS):
        new = np.empty_like(x)
        for i, rows in enumerate(problem.shards.values()):
            pull = -x[i] / PRIOR_VARIANCE / AGENTS
            for covariates, outcome in zip(rows["x"], rows["y"], strict=True):
                v = (outcome - covariates @ x[i]) * covariates / NOISE_VARIANCE
                is_clipped.append(np.linalg.norm(v) > clip)
                pull += v * min(1, clip / np.linalg.norm(v))
            new[i] = sum(W[i, j] * x[j] for j in range(AGENTS)) + eta * pull + sd * noise[k][i]
        x = new
    return x, np.mean(is_clipped)


@pytest.mark.quick(1)
@pytest.mark.parametrize("sigma", [1.0, 30.0], ids=["Langevin noise", "more noise"])
def test_rounds_are_those_of_the_equations(sigma):
    problem, eta, clip = unequal_linear_problem(), 0.013, 1.5
    start = np.random.default_rng(0).normal(size=(CHAINS, AGENTS, DIM))
    sampler = st.DPSGLD(eta, clip, sigma, secret=SECRET)
    with jax.enable_x64(True):
        agents = problem.agents(NETWORK)
        run = loop.run(sampler, agents, NETWORK, jnp.asarray(start), SEED, Schedule(draws=ROUNDS))
        wanted, share = transcribed(problem, start[1].copy(), eta, clip, sigma)
    assert 0.2 < share < 0.8
    np.testing.assert_allclose(run.joined().position[-1, 1], wanted, rtol=1e-12, atol=1e-12)


@st.pytree
@dataclass(frozen=True)
class Unclipped(st.DPSGLD):
    """The same sampler, which has a law if no row is clipped."""


@register_law(Unclipped)
def unclipped_law(s: Stacked, sampler: Unclipped) -> Law:
    """x' = (W - eta H) x + eta b + max(sqrt(2 eta), eta sigma C) w."""
    eta = float(sampler.step_size)
    sd = max(np.sqrt(2 * eta), eta * sampler.noise_multiplier * sampler.clip)
    step = Recursion(s.lift(s.W) - eta * s.H, eta * s.b, sd * s.private_noise)
    return Law.constant(s.shape, step)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1e-7, 1e-5], ids=["Langevin noise", "more noise"])
def test_without_clipping_draws_have_the_law_of_a_tempered_langevin_step(sigma, monkeypatch):
    """The clip of 1e6 is not reached: gradients of rows are below 100 within 10 rounds."""
    monkeypatch.setattr(runs, "LAW_CHAINS", 4000)
    sampler = Unclipped(0.3, clip=1e6, noise_multiplier=sigma, secret=SECRET)
    assert sampler.attributes(1, 1)["temperature"] == pytest.approx(
        max(1, 0.15 * (1e6 * sigma) ** 2)
    )
    assert runs.draws_have_the_registered_law(Trial.of(), sampler) is None


def linear_rows(number, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(number, DIM)), random.normal(size=number)


def sum_of(X, y, point, clip):
    """The sum of clipped gradients of a linear regression's rows at one site."""
    problem = of_shards(unequal_linear_problem(), {"only": {"x": X, "y": y}})
    agent = jax.tree.map(lambda array: array[0], problem.agents())
    return np.asarray(jax.jit(clipped_sum)(agent, jnp.asarray(point), clip))


def of_shards(problem, shards):
    """The same model with other rows."""
    densities = (problem.log_likelihoods, problem.log_prior, problem.parameters)
    return st.Problem.from_flat(*densities, shards)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e100, 1e200])
def test_one_row_more_changes_the_sum_by_no_more_than_the_clip(scale):
    clip, random = 0.7, np.random.default_rng(1)
    X, y = linear_rows(9)
    with jax.enable_x64(True):
        for _ in range(5):
            point, added = random.normal(size=DIM), scale * random.normal(size=DIM + 1)
            before = sum_of(X, y, point, clip)
            after = sum_of(np.vstack([X, added[:-1]]), np.append(y, added[-1]), point, clip)
            replaced = sum_of(
                np.vstack([X[1:], added[:-1]]), np.append(y[1:], added[-1]), point, clip
            )
            assert np.linalg.norm(after - before) <= clip * (1 + 1e-12)
            assert np.linalg.norm(replaced - before) <= 2 * clip * (1 + 1e-12)


def test_the_clip_is_reached_by_an_outlier_and_a_small_gradient_is_not_changed():
    X, y = linear_rows(9)
    with jax.enable_x64(True):
        none = sum_of(X, y, np.zeros(DIM), 0.7)
        outlier = sum_of(np.vstack([X, [1e6, 0, 0]]), np.append(y, 1.0), np.zeros(DIM), 0.7) - none
        small = sum_of(np.vstack([X, [1e-3, 0, 0]]), np.append(y, 2.0), np.zeros(DIM), 0.7) - none
    np.testing.assert_allclose(outlier, [0.7, 0, 0], atol=1e-12)
    np.testing.assert_allclose(small, [2e-3, 0, 0], atol=1e-12)


def test_a_row_whose_gradient_is_not_finite_is_left_out():
    X, y = linear_rows(9)
    with jax.enable_x64(True):
        without = sum_of(X, y, np.ones(DIM), 0.7)
        with_it = sum_of(
            np.vstack([X, np.full(DIM, 1e200)]), np.append(y, -1e200), np.ones(DIM), 0.7
        )
    np.testing.assert_allclose(with_it, without, rtol=1e-12)


def without_row(problem, site, row):
    """The problem with one row less at one site."""
    shards = {name: problem.shards[name] for name in problem.sites}
    shards[site] = {name: np.delete(column, row, axis=0) for name, column in shards[site].items()}
    return of_shards(problem, shards)


@pytest.mark.slow
def test_one_row_less_moves_the_message_of_its_site_by_no_more_than_the_step_times_the_clip():
    """The same noise in both runs: what is left is the influence of the row on a message."""
    problem = of_shards(unequal_linear_problem(), dict(unequal_linear_problem().shards))
    eta, clip = 0.05, 0.4
    sampler = st.DPSGLD(eta, clip, 5.0, secret=SECRET)
    settings = {**SHORT, "draws": 1, "burn_in": 0, "initial": np.full(3, 0.3)}
    first = st.sample(problem, NETWORK, sampler, **settings).posterior["beta"].values
    moved = []
    for row in range(7):
        other = st.sample(without_row(problem, "3", row), NETWORK, sampler, **settings)
        change = np.linalg.norm(other.posterior["beta"].values - first, axis=-1)[:, 0]
        np.testing.assert_allclose(np.delete(change, 3, axis=1), 0, atol=1e-12)
        moved.append(change[:, 3])
    assert eta * clip * 0.99 < np.max(moved) <= eta * clip * (1 + 1e-9)


def gradients_by_a_neighbour(sampler, problem, start):
    """What a neighbour finds for the sum in eq. (2), if it subtracts noise from the seed."""
    eta, noise_sd = sampler.step_size, np.sqrt(2 * sampler.step_size)
    settings = {**SHORT, "draws": 1, "burn_in": 0, "chains": 1, "seed": SEED, "initial": start}
    sent = st.sample(problem, NETWORK, sampler, **settings).posterior["beta"].values[0, 0]
    private, _ = chain_keys(SEED, 1, AGENTS)
    like = jax.ShapeDtypeStruct((DIM,), np.float64)
    with jax.enable_x64(True):
        guess = [np.asarray(Round(1, key, None).private_noise(like)) for key in private[0]]
    return (sent - metropolis_weights() @ start - noise_sd * np.array(guess)) / eta


def test_a_neighbour_who_knows_the_seed_finds_gradients_of_dsgld_and_noise_of_dpsgld():
    problem, eta = unequal_linear_problem(), 0.01
    start = np.random.default_rng(2).normal(size=(AGENTS, DIM))
    quadratic = problem.quadratic
    exact = quadratic.linear - np.einsum("aij,aj->ai", quadratic.hessian, start)
    known = gradients_by_a_neighbour(st.DSGLD(eta), problem, start)
    np.testing.assert_allclose(known, exact, rtol=1e-9, atol=1e-9)
    unclipped = st.DPSGLD(eta, clip=1e6, noise_multiplier=1e-9, secret=SECRET)
    errors = gradients_by_a_neighbour(unclipped, problem, start) - exact
    statistic = np.sum(errors**2) / (2 * 2 / eta)  # its own noise, and the one it subtracts
    assert chi2.ppf(0.001, errors.size) < statistic < chi2.ppf(0.999, errors.size)


def run(sampler, **settings):
    return st.sample(unequal_linear_problem(), NETWORK, sampler, **{**SHORT, **settings})


def test_noise_is_new_in_every_run_unless_a_secret_is_given():
    drawn = st.DPSGLD(0.01, 1.0, 20.0)
    first, second = (run(drawn).posterior["beta"].values for _ in range(2))
    assert np.abs(first - second).min() > 0
    given = dataclasses.replace(drawn, secret=SECRET)
    third, fourth = (run(given).posterior["beta"].values for _ in range(2))
    np.testing.assert_array_equal(third, fourth)
    assert np.abs(third - first).min() > 0


@pytest.mark.parametrize(
    ("sigma", "multiplier", "temperature"), [(20.0, 20.0, 8.0), (2.0, np.sqrt(2 / 0.01) / 2, 1.0)]
)
def test_a_result_says_epsilon_of_all_rounds_of_all_chains(sigma, multiplier, temperature):
    attributes = run(st.DPSGLD(0.01, 2.0, sigma, delta=1e-6)).attrs
    assert attributes["privacy_releases"] == 2 * 7
    assert attributes["privacy_noise_multiplier"] == pytest.approx(multiplier)
    assert attributes["privacy_epsilon"] == epsilon(14, multiplier, 1e-6)
    assert attributes["privacy_delta"] == 1e-6
    assert attributes["privacy_adjacency"] == "one row more or less at one site"
    assert attributes["temperature"] == pytest.approx(temperature)


def test_a_result_has_neither_the_secret_nor_counts_and_checksums_of_rows(tmp_path):
    secret = b"a secret of thirty-two bytes...."
    sampler = st.DPSGLD(0.01, 2.0, 20.0, secret=secret)
    file = tmp_path / "draws.nc"
    result = run(sampler, output=file)
    model = json.loads(result.attrs["model"])
    assert set(model) & {"rows", "digests"} == set()
    assert {"rows", "digests"} <= set(json.loads(run(st.DSGLD(0.01)).attrs["model"]))
    texts = (str(sampler), str(sampler.settings()), str(dict(result.attrs)))
    assert not any("thirty" in text for text in texts)
    assert b"thirty" not in file.read_bytes()
    assert st.DPSGLD(**sampler.settings()) == sampler


def test_coherent_noise_is_refused():
    with pytest.raises(PrivacyError, match=r"hides nothing, since every neighbour can draw it too"):
        st.DPSGLD(0.01, 1.0, 20.0, noise="coherent")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip": 0.0}, "`clip` must be positive"),
        ({"noise_multiplier": -1.0}, "`noise_multiplier` must be positive"),
        ({"step_size": np.inf}, "`step_size` must be positive and finite"),
        ({"delta": 2.0}, "`delta` must be below 1, got 2"),
        ({"noise": "paper"}, "`noise` must be one of"),
        ({"secret": b"short"}, "`secret` must be 32 bytes, got 5; leave it out"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        st.DPSGLD(**{"step_size": 0.01, "clip": 1.0, "noise_multiplier": 20.0, **settings})


def test_a_tilted_problem_is_refused():
    problem = unequal_linear_problem()
    tilt = np.random.default_rng(0).normal(size=(AGENTS, DIM))
    tilts = (tilt - tilt.mean(axis=0), np.zeros((AGENTS, DIM)))
    tilted = problem.affine(np.zeros(DIM), np.ones(DIM), *tilts)
    with pytest.raises(PrivacyError, match="tilts are gradients and Hessians of the sites"):
        st.sample(tilted, NETWORK, st.DPSGLD(0.01, 1.0, 20.0), **SHORT)
    st.DPSGLD(0.01, 1.0, 20.0).check(problem.affine(np.zeros(DIM), np.ones(DIM)), NETWORK)


def test_a_run_is_not_resumed(tmp_path):
    sampler, folder = st.DPSGLD(0.01, 1.0, 20.0), tmp_path / "run"
    run(sampler, checkpoint=folder)
    with pytest.raises(PrivacyError, match=r"cannot be resumed: .* made twice, and cost privacy"):
        run(sampler, checkpoint=folder, resume=True)


def test_no_round_is_made_again_where_a_run_diverges(monkeypatch):
    monkeypatch.setattr(loop, "retraced", lambda *_: pytest.fail("rounds were made again"))
    with pytest.raises(st.DivergenceError, match="step_size"):
        run(st.DPSGLD(1e4, 1.0, 20.0), draws=20)


def test_nothing_is_sent_where_epsilon_cannot_be_computed(monkeypatch):
    monkeypatch.setattr(loop, "run", lambda *_, **__: pytest.fail("rounds were made"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs dp_accounting; .*'starlings\[dp\]'"):
        run(st.DPSGLD(0.01, 1.0, 20.0))

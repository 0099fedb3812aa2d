"""`sample` and its result: names, statistics, files, interruption, divergence, accuracy."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import starlings as st
from starlings.errors import InterruptedWarning
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import chunks, loop
from starlings.runtime.divergence import retraced
from starlings.runtime.recording import Schedule
from starlings.sampling import start_positions
from tests.problems import (
    irregular_graph,
    logistic_rows,
    paper_problem,
    unequal_linear_problem,
    wavy_problem,
)


@pytest.fixture(scope="module")
def result():
    import pandas as pd

    X, _, sites = logistic_rows(90)
    y = X @ [1.0, 0.5, -1.0] + np.random.default_rng(2).normal(size=90)
    table = pd.DataFrame(X, columns=["age", "dose", "sex"])
    problem = st.models.linear_regression(table, y, sites, intercept=False)
    sampler = st.DADMMS(rho=10.0)
    return st.sample(
        problem, st.Network.ring(5), sampler, draws=60, chains=3, burn_in=40, thin=2, seed=9
    )


def test_posterior_has_names_and_dimensions(result):
    posterior = result.posterior
    assert posterior["beta"].dims == ("chain", "draw", "agent", "beta_dim_0")
    assert posterior["sigma"].dims == ("chain", "draw", "agent")
    assert posterior["beta_dim_0"].values.tolist() == ["age", "dose", "sex"]
    assert posterior["agent"].values.tolist() == ["a", "b", "c", "d", "e"]
    assert dict(posterior.sizes) == {"chain": 3, "draw": 60, "agent": 5, "beta_dim_0": 3}
    assert (posterior["sigma"] > 0).all()


@pytest.mark.slow
def test_labels_stay_with_their_entries():
    """In the order in which they are given."""
    labels, modes = ("zinc", "age", "mass"), np.array([3.0, -1.0, 2.0])
    parameters = {"beta": st.Parameter((3,), labels=labels)}

    def log_likelihood(p, row):
        return -0.5 * jax.numpy.sum((p["beta"] - row["y"]) ** 2)

    problem = st.Problem(log_likelihood, lambda p: 0.0, parameters, 2 * [{"y": modes[None]}])
    found = st.sample(problem, st.Network.path(2), st.CADMM(1.0), draws=1, chains=1).posterior
    assert found["beta_dim_0"].values.tolist() == list(labels)
    for label, mode in zip(labels, modes, strict=True):
        np.testing.assert_allclose(found["beta"].sel(beta_dim_0=label), mode, rtol=1e-6)


def test_sample_stats_count_messages_and_bytes(result):
    stats = result.sample_stats
    rounds = 40 + 2 * np.arange(1, 61)
    np.testing.assert_array_equal(stats["messages_sent"][0, :, 0], 2 * rounds)
    np.testing.assert_array_equal(stats["bytes_sent"], 4 * 8 * stats["messages_sent"])
    assert (stats["disagreement"] > 0).all()
    assert 0 <= float(stats["local_residual"].max()) <= np.finfo(float).eps ** (1 / 3)


@pytest.mark.slow
def test_disagreement_is_the_spread_of_the_agents():
    result = st.sample(
        paper_problem(5), st.Network.ring(5), st.DSGLD(step_size=0.01), draws=4, chains=2
    )
    x = result.posterior["beta"].values
    spread = np.sqrt(((x - x.mean(axis=2, keepdims=True)) ** 2).sum(axis=3).mean(axis=2))
    np.testing.assert_allclose(result.sample_stats["disagreement"], spread, rtol=1e-10)


def test_progress_tells_the_mean_disagreement_of_all_chains(monkeypatch):
    """The chains differ: one has its agents at one point, another far apart."""
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1e-9)
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    start = np.random.default_rng(0).normal(size=(3, 6, 3)) * np.array([0, 1, 50])[:, None, None]
    reported = {}
    with jax.enable_x64(True):
        agents, plan = problem.agents(network), Schedule(draws=40)
        run = (st.DSGLD(1e-3), agents, network, jax.numpy.asarray(start), 0, plan)
        x = loop.run(*run, progress=reported.__setitem__).joined().position
    apart = np.sqrt(((x - x.mean(axis=2, keepdims=True)) ** 2).sum(axis=3).mean(axis=2))
    assert len(reported) > 1
    for done, value in reported.items():
        assert value == pytest.approx(apart[done - 1].mean(), rel=1e-12)
        assert len(set(apart[done - 1])) == 3


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 2])
def test_residuals_are_the_largest_since_the_draw_before(chains):
    problem, network = wavy_problem([0.3, -0.5, 0.2]), st.Network.path(3)
    settings = {"chains": chains, "burn_in": 0, "seed": 2, "check": False}
    every, fifth = (
        st.sample(problem, network, st.DADMMS(1.0), draws=60 // thin, thin=thin, **settings)
        for thin in (1, 5)
    )
    residuals = every.sample_stats["local_residual"].values.reshape(chains, 12, 5, 3)
    np.testing.assert_allclose(
        fifth.sample_stats["local_residual"], residuals.max(axis=2), rtol=1e-6, atol=1e-15
    )
    assert (residuals.max(axis=2) > 2 * residuals[:, :, -1]).any()
    assert residuals.max() <= np.finfo(float).eps ** (1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "floats"),
    [
        (st.DADMMS(2.0), 3),
        (st.MidpointADMMS(2.0), 2 * 3),
        (st.Metropolis.on(st.Network(irregular_graph()), 0.3, "sum"), 1),
    ],
    ids=["dadmms", "midpoint", "metropolis"],
)
def test_messages_are_counted_edge_by_edge_in_their_own_size(sampler, floats):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    how = {"draws": 3, "burn_in": 4, "thin": 2, "chains": 1, "check": False}
    stats = st.sample(problem, network, sampler, precision="float32", **how).sample_stats
    messages = np.multiply.outer([6, 8, 10], [4, 2, 2, 2, 3, 1])
    np.testing.assert_array_equal(stats["messages_sent"][0], messages)
    np.testing.assert_array_equal(stats["bytes_sent"][0], 4 * floats * messages)


@pytest.mark.slow
def test_lengths_that_are_left_to_us():
    """500 rounds or candidates of burn-in; half of what an effective draw takes between draws."""
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    how = {"draws": 2, "chains": 1, "check": False}
    given = st.sample(problem, network, st.DADMMS(2.0), **how).attrs
    assert (given["burn_in"], given["thin"]) == (500, 1)
    tuned = st.sample(problem, network, method="dadmms", **how).attrs
    predicted = json.loads(tuned["tuning"])["predicted_rounds_per_draw"]
    assert predicted == pytest.approx(1 + 2 / 0.125)
    assert (tuned["burn_in"], tuned["thin"]) == (500, round(predicted / 2))
    exact = st.sample(problem, network, method="metropolis", **how).attrs
    cycle, predicted = 2 * 3, json.loads(exact["tuning"])["predicted_rounds_per_draw"]
    assert exact["burn_in"] == 500 * cycle
    assert exact["thin"] % cycle == 0
    assert abs(exact["thin"] - predicted / 2) <= max(cycle / 2, cycle - predicted / 2)


def test_attributes_say_how_it_was_made(result):
    attributes = result.attrs
    assert attributes["inference_library_version"] == st.__version__
    assert attributes["sampler"] == "DADMMS"
    settings = {"rho": 10.0, "noise": "coherent", "output": "half-noise", "penalty": None}
    settings["local_scale"] = 1.0
    assert json.loads(attributes["sampler_settings"]) == settings
    assert attributes["seed"] == 9
    assert len(json.loads(attributes["network"])["edges"]) == 5


def test_save_and_load(result, tmp_path):
    path = result.save(tmp_path / "draws.nc")
    loaded = st.load(path)
    xr.testing.assert_identical(loaded.posterior, result.posterior)
    xr.testing.assert_identical(loaded.sample_stats, result.sample_stats)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("most", "agents"), [(1.0, "abcde"), (0.9, "ace"), (0.4, "ad"), (0.1, "a")]
)
def test_within_some_memory_every_so_many_th_agent_stands_for_all(result, most, agents):
    few = result.subset_of_agents(int(most * result.posterior.nbytes))
    for group in ("posterior", "sample_stats"):
        whole = result.tree[group].to_dataset()
        xr.testing.assert_identical(few.tree[group].to_dataset(), whole.sel(agent=list(agents)))


def test_arviz_summarises_and_draws_it(result):
    import warnings

    import matplotlib

    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ's own, which differ between its versions
        import arviz as az

        summary = az.summary(result.posterior)
        assert len(summary) == 5 * (3 + 1)
        assert "beta[a, age]" in summary.index
        by_agent = az.rhat(result.posterior)
        assert by_agent["beta"].sizes["agent"] == 5
        az.plot_trace(result.to_arviz(), var_names=["sigma"])


def test_ctrl_c_returns_the_draws_so_far(monkeypatch):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    calls = []
    original = loop.advance

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1e-9)
    settings = {"draws": 500, "chains": 2, "burn_in": 3, "seed": 1, "check": False}
    whole = st.sample(problem, network, st.DADMMS(rho=2.0), **settings)
    monkeypatch.setattr(loop, "advance", interrupted)
    with pytest.warns(InterruptedWarning, match=r"interrupted after \d+ of 500 draws"):
        part = st.sample(problem, network, st.DADMMS(rho=2.0), **settings)
    count = part.posterior.sizes["draw"]
    assert 0 < count < 500
    np.testing.assert_array_equal(part.posterior["beta"], whole.posterior["beta"][:, :count])


def test_ctrl_c_before_the_first_draw_is_an_interrupt(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        st.sample(paper_problem(5), st.Network.ring(5), st.DADMMS(rho=2.0), draws=5)


@pytest.mark.slow
def test_chunks_do_not_change_the_draws(monkeypatch):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    settings = {"draws": 50, "chains": 2, "burn_in": 7, "thin": 3}
    whole = st.sample(problem, network, st.DSGHMC(step_size=0.05, friction=3.0), **settings)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 3 * 2 * 6 * 3 * 8)  # three draws at a time
    monkeypatch.setattr(chunks, "FEW_DRAWS", 1)
    parts = st.sample(problem, network, st.DSGHMC(step_size=0.05, friction=3.0), **settings)
    xr.testing.assert_allclose(whole.posterior, parts.posterior, rtol=1e-12)


def test_divergence_names_the_round_the_agent_and_the_cause():
    """A decaying step is not known to be unstable beforehand; the run stops where it explodes."""
    problem = paper_problem(5, rows=200)
    sampler = st.DULA(step_size=st.Decay(0.2, 1.0, 0.01), consensus_step=0.1)
    with pytest.raises(st.DivergenceError, match="diverged in round") as caught:
        st.sample(problem, st.Network.ring(5), sampler, draws=2000, chains=2, burn_in=0)
    text = str(caught.value)
    assert "exploded" in text
    assert "step too large" in text
    number = int(text.split("round ")[1].split()[0])
    assert 1 < number < 200


def counts(sites: int) -> st.Problem:
    """Poisson counts whose potential overflows where `log_mean` is large."""
    y = np.random.default_rng(0).poisson(3.0, size=30).astype(float)
    shards = [{"y": y[k::sites]} for k in range(sites)]

    def log_likelihood(p, row):
        return row["y"] * p["log_mean"] - jnp.exp(p["log_mean"])

    return st.Problem(
        log_likelihood, lambda p: -0.05 * p["log_mean"] ** 2, {"log_mean": ()}, shards
    )


def test_overflow_is_divergence_too():
    problem = counts(3)
    with pytest.raises(st.DivergenceError, match=r"round 1 of chain 0: .* no longer finite"):
        st.sample(problem, st.Network.ring(3), st.DSGLD(step_size=0.5), chains=1, initial=[1000.0])


def test_a_divergence_is_traced_to_where_it_began():
    """By the end of a burn-in it has spread to all agents: its rounds are looked at again."""
    problem = counts(5)
    start, lengths = np.zeros((2, 5, 1)), {"draws": 5, "chains": 2, "burn_in": 40}
    start[1, 3] = 1000.0
    with pytest.raises(st.DivergenceError, match=r"agent '3' diverged in round 1 of chain 1"):
        st.sample(problem, st.Network.ring(5), st.DSGLD(1e-3), **lengths, initial=start)


def test_ctrl_c_while_a_divergence_is_traced_keeps_no_draw_of_it(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "retraced", interrupted)
    with pytest.raises(KeyboardInterrupt):
        st.sample(counts(3), st.Network.ring(3), st.DSGLD(0.5), chains=1, draws=9, initial=[1000.0])


@pytest.mark.parametrize("first_chunk", [1, 8, 64])
def test_the_clock_does_not_decide_what_diverges(first_chunk, monkeypatch):
    """A burn-in may begin far out; how far it is in between is not asked."""
    monkeypatch.setattr(chunks, "FIRST_CHUNK_ROUNDS", first_chunk)
    problem = st.models.gaussian([[[2.0]], [[3.0]], [[4.0]]])
    lengths = {"draws": 3, "chains": 1, "burn_in": 400, "initial": 1e10, "check": False}
    result = st.sample(problem, st.Network.ring(3), st.DADMMS(0.5), **lengths)
    assert np.abs(result.posterior["x"]).max() < 10


@pytest.mark.parametrize("began", [1, 5, 16, 17, 40, 99, 100])
def test_halving_finds_where_a_divergence_began(began):
    calls = []

    def advanced(round, rounds):
        calls.append(rounds)
        return round + rounds

    assert retraced(advanced, lambda round: round >= began, 0, 100) == began
    assert len(calls) <= 3 + 16


@pytest.mark.parametrize("in_common", [False, True])
def test_chains_start_at_the_noise_of_round_0(in_common):
    """The noise is the agent's own, or the one that all agents share; no later round draws it."""
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    sampler = st.Metropolis.on(network, 0.3) if in_common else st.DADMMS(1.0)
    own, common = chain_keys(5, 2, 6)
    with jax.enable_x64(True):
        start = start_positions(problem, sampler, None, 2, 5, np.float64)
        like = jax.ShapeDtypeStruct((3,), np.float64)
        for chain, agent in np.ndindex(2, 6):
            first = Round(0, own[chain, agent], common[chain])
            noise = first.shared_noise(like) if in_common else first.private_noise(like)
            np.testing.assert_array_equal(start[chain, agent], noise)


@pytest.mark.slow
def test_initial_positions_by_name_and_by_array():
    X, y, sites = logistic_rows(60)
    problem = st.models.linear_regression(X, y, sites, intercept=False)
    network = st.Network.ring(5)
    values = {"beta": [1.0, 2.0, 3.0], "sigma": 0.5}
    flat = np.array([1.0, 2.0, 3.0, np.log(0.5)])
    runs = [
        st.sample(problem, network, st.DADMMS(rho=5.0), draws=3, chains=2, burn_in=0, initial=i)
        for i in (values, flat, np.tile(flat, (2, 5, 1)))
    ]
    for other in runs[1:]:
        np.testing.assert_allclose(other.posterior["beta"], runs[0].posterior["beta"], rtol=1e-12)


def test_single_precision_follows_double_precision():
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    start = np.zeros(3)
    double, single = (
        st.sample(
            problem, network, st.CADMM(rho=2.0), draws=20, chains=1, precision=p, initial=start
        )
        for p in ("float64", "float32")
    )
    np.testing.assert_allclose(
        single.posterior["beta"], double.posterior["beta"], rtol=1e-4, atol=1e-4
    )
    assert (
        single.sample_stats["bytes_sent"][0, -1, 0] * 2
        == double.sample_stats["bytes_sent"][0, -1, 0]
    )


def test_the_users_precision_setting_is_left_alone():
    before = jax.numpy.ones(1).dtype
    st.sample(paper_problem(5), st.Network.ring(5), st.CADMM(rho=2.0), draws=1, chains=1)
    assert jax.numpy.ones(1).dtype == before


def pooled_nuts(problem, draws):
    """Draws of z from the pooled posterior, by BlackJAX."""
    import blackjax

    with jax.enable_x64(True):
        pooled = jax.tree.map(lambda a: a[0], problem.pooled().agents())

        def log_density(z):
            return -pooled.potential(z)

        warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, tuned), _ = warmup.run(jax.random.key(0), jax.numpy.zeros(problem.dim), 500)
        kernel = blackjax.nuts(log_density, **tuned).step

        def step(state, key):
            return kernel(key, state)[0], state.position

        keys = jax.random.split(jax.random.key(1), draws)
        return np.asarray(jax.jit(lambda s: jax.lax.scan(step, s, keys)[1])(state))


@pytest.mark.slow
def test_logistic_regression_matches_pooled_nuts():
    """Sites with 2 % to 40 % of the rows: means within 0.1 sd, variances within 15 %.

    rho is chosen for eta m = 0.1 at the largest curvature. The flattest direction then has an
    autocorrelation time of 2 / (0.1 x 0.4) = 50 rounds, and 4 chains of 12,000 rounds are worth
    960 draws: Monte Carlo errors of 0.03 sd and, with NUTS's own, 5 % of a variance.
    """
    X, y, sites = logistic_rows()
    problem = st.models.logistic_regression(X / X.std(axis=0), y, sites, intercept=False)
    assert problem.num_rows.min() * 10 < problem.num_rows.max()
    reference = pooled_nuts(problem, 8000)
    network = st.Network.ring(5)
    curvatures = np.linalg.eigvalsh(problem.hessians(reference.mean(axis=0)).sum(axis=0))
    assert curvatures[0] > 0.4 * curvatures[-1]
    rho = curvatures[-1] / (4 * network.num_edges * 0.1)
    result = st.sample(
        problem, network, st.DADMMS(rho=rho), draws=3000, chains=4, burn_in=400, thin=4
    )
    found = result.posterior["beta"].values.reshape(-1, 5, 3)
    off = np.abs(found.mean(axis=0) - reference.mean(axis=0))
    assert (off < 0.1 * reference.std(axis=0)).all()
    ratio = found.var(axis=0) / reference.var(axis=0)
    assert (np.abs(ratio - 1) < 0.15).all()

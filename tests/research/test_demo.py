"""The demo on the RAND data: its rows, its model, what the default costs, and a short run of it."""

from __future__ import annotations

import importlib.util
import json
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import starlings as st
from starlings.network.gossip import MESSAGES
from starlings.research.demo import data, report, run, ways
from starlings.research.packaged_data import check_installed
from starlings.results.kinds import RESULT

pytestmark = pytest.mark.skipif(
    any(
        importlib.util.find_spec(name) is None for name in ("statsmodels", "blackjax", "matplotlib")
    ),
    reason="needs starlings[demo]",
)

DRAWS, REFERENCE_DRAWS = 250, 200


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return data.load_rows()


@pytest.fixture(scope="module")
def problem(rows) -> st.Problem:
    return data.build_problem(rows)


@pytest.fixture(scope="module")
def laplace(problem) -> tuple[np.ndarray, np.ndarray]:
    """The mode z and the Hessians of all agents there, by Newton's method."""
    with jax.enable_x64(True):
        agents, z = problem.agents(), jnp.zeros(problem.dim)

        @jax.jit
        def derivatives(z):
            return jax.vmap(lambda agent: (agent.gradient(z), agent.hessian(z)))(agents)

        for _ in range(8):
            gradients, hessians = derivatives(z)
            z = z - jnp.linalg.solve(hessians.sum(axis=0), gradients.sum(axis=0))
        assert jnp.abs(gradients.sum(axis=0)).max() < 1e-8
    return np.asarray(z), np.asarray(hessians)


def test_the_table_has_six_sites_and_all_rows(rows):
    assert len(rows) == 20_190
    assert sorted(rows["site"].unique()) == [1, 2, 3, 4, 5, 6]


def test_every_row_is_counted_at_its_site(rows, problem):
    assert problem.sites == [f"site {i}" for i in range(1, 7)]
    persons = [int(shard["persons"].sum()) for shard in problem.shards.values()]
    visitors = [int(shard["visitors"].sum()) for shard in problem.shards.values()]
    by_site = rows["mdvis"].gt(0).groupby(rows["site"])
    assert persons == by_site.size().to_list()
    assert visitors == by_site.sum().to_list()


def test_counts_give_the_posterior_of_the_rows(rows, problem):
    X = np.column_stack([np.asarray(c.value(rows), float) - c.centre for c in data.COVARIATES])
    by_row = st.models.logistic_regression(
        X, rows["mdvis"] > 0, rows["site"], prior_std=10**0.5, intercept=False
    )
    beta = np.linspace(-1, 1, problem.dim)
    z = beta * [c.scale for c in data.COVARIATES]
    by_count = problem.potential(z) - problem.potential(0 * z)
    expected = by_row.potential(beta) - by_row.potential(0 * beta)
    np.testing.assert_allclose(by_count, expected, rtol=1e-10)


def test_agents_with_the_whole_prior_are_the_sites_alone(problem):
    z = np.linspace(-0.5, 0.5, problem.dim)
    with jax.enable_x64(True):
        values = jax.vmap(lambda agent: agent.potential(jnp.asarray(z)))(
            run.independent_agents(problem)
        )
    for site in (0, 5):
        expected = problem.of_site(problem.sites[site]).potential(z)
        np.testing.assert_allclose(values[site], expected, rtol=1e-12)


def test_merged_counts_give_the_pooled_posterior(problem):
    pooled = problem.pooled()
    merged = data.counted_problem({"pooled": data.merge(**pooled.shards["pooled"])})
    assert merged.num_rows[0] < pooled.num_rows[0] / 2
    z = np.linspace(-0.5, 0.5, problem.dim)
    np.testing.assert_allclose(merged.potential(z), pooled.potential(z), rtol=1e-12)


@pytest.fixture(scope="module")
def default(problem) -> tuple[ways.Way, st.Result]:
    return ways.draw_by("auto", problem, st.Network.ring(6), DRAWS, run.SEED, progress=False)


def largest_error(draws, problem, laplace) -> float:
    """The largest distance of a mean of draws (site, chain, draw, parameter) from the mode, in sd.

    The sd are those of the Gaussian approximation.
    """
    mode, hessians = laplace
    z_sd = np.sqrt(np.diag(np.linalg.inv(hessians.sum(axis=0))))
    mean, sd = (problem.constrain(point)["beta"] for point in (mode, z_sd))
    return np.abs((draws.mean(axis=(1, 2)) - mean) / sd).max()


SKEWNESS = 0.05
"""Bound, in sd, for the distance of the posterior mean from the mode."""


@pytest.mark.slow
def test_the_default_finds_the_posterior_in_few_rounds(default, problem, laplace):
    """At most 300 messages of a site; means within four Monte Carlo errors of 1000 draws."""
    way, result = default
    assert way.rounds == result.attrs["network_rounds"] < 150
    assert way.messages == result.sample_stats["messages_sent"].isel(chain=0).max() <= 300
    assert way.messages <= 2 * way.rounds  # one to each of two neighbours in a round
    assert way.seconds == pytest.approx(0.03 * way.rounds)
    error = largest_error(way.draws, problem, laplace)
    assert error < 4 / np.sqrt(4 * DRAWS) + SKEWNESS


@pytest.mark.slow
def test_a_site_sends_one_message_to_each_neighbour_in_a_round_of_a_sampler():
    problem, network = st.models.gaussian(np.ones((6, 1, 1))), st.Network.ring(6)
    result = st.sample(problem, network, st.DADMMS(1.0), draws=3, burn_in=2, check=False)
    sent = int(result.sample_stats["messages_sent"].isel(chain=0, draw=-1).max())
    assert sent == 2 * (2 + 3)
    agreed = 2 * network.radius  # rounds before the first, with no more messages than that
    assert ways.messages_of_a_site(result, network) == sent + 2 * agreed


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    run.run(folder, draws=DRAWS, reference_draws=REFERENCE_DRAWS)
    return folder


@pytest.mark.slow
def test_a_run_saves_figure_table_and_draws(short_run):
    for name in ("rand.png", "rand.svg", "rand.csv", "rand.nc"):
        assert (short_run / name).stat().st_size > 1000
    result = st.load(short_run / "rand.nc")
    assert result.posterior["beta"].sizes["draw"] == DRAWS
    assert list(result.posterior["beta_dim_0"].values) == [c.label for c in data.COVARIATES]


@pytest.mark.slow
def test_the_saved_table_has_every_estimate(short_run):
    table = pd.read_csv(short_run / "rand.csv")
    quantiles = ["q05", "q25", "q50", "q75", "q95"]
    errors = ["mean_error_in_sd", "sd_ratio"]
    assert list(table.columns) == [
        "parameter",
        "estimate",
        "site",
        "mean",
        "sd",
        *quantiles,
        *errors,
    ]
    counts = table.groupby("parameter", sort=False)["estimate"].value_counts().unstack()
    assert list(counts.index) == [c.label for c in data.COVARIATES]
    estimates = ["single site", "importance weights", "D-ADMMS", "pooled"]
    assert (counts[estimates] == [6, 6, 6, 1]).all(axis=None)


@pytest.mark.slow
def test_both_ways_and_nuts_find_the_mean_of_the_posterior(short_run, problem, laplace):
    """Within four Monte Carlo errors; NUTS is granted one independent draw in two."""
    effective = {
        "importance weights": 4 * DRAWS,
        "D-ADMMS": 4 * DRAWS,
        "pooled": run.CHAINS * REFERENCE_DRAWS / 2,
    }
    table = pd.read_csv(short_run / "rand.csv")
    for estimate, size in effective.items():
        found = table[table["estimate"] == estimate].pivot(
            index="site", columns="parameter", values="mean"
        )
        found = found[[c.label for c in data.COVARIATES]].to_numpy()[:, None, None]
        assert largest_error(found, problem, laplace) < 4 / np.sqrt(size) + SKEWNESS


@pytest.mark.slow
def test_the_printed_table_fits_a_terminal(short_run, capsys):
    table = pd.read_csv(short_run / "rand.csv")
    for width, wide in ((80, False), (126, True)):
        console = Console(width=width, color_system=None)
        console.print(report.display_table(table, "importance weights", wide))
        printed = capsys.readouterr().out
        assert "…" not in printed
        assert all(covariate.label in printed for covariate in data.COVARIATES)


def test_the_comparison_of_two_ways_fits_a_terminal_and_has_their_costs(capsys):
    random = np.random.default_rng(0)
    pooled = random.normal(size=(4, 100, len(data.COVARIATES)))
    separate = random.normal(size=(2, *pooled.shape))
    found = [
        ways.Way("importance weights", separate, 39, 27, 1_370_592),
        ways.Way("D-ADMMS", separate, 4_100, 8_200, 102_749_568),
    ]
    table = report.summary(["site 1", "site 2"], separate, found, pooled)
    console = Console(width=80, color_system=None)
    console.print(report.comparison_table(table, found, pooled))
    results = [run_of(kinds) for kinds in ({"derivatives": 1_274}, {MESSAGES: 300, RESULT: 600})]
    console.print(report.closing(found, results), highlight=False)
    printed = capsys.readouterr().out
    assert "…" not in printed
    for numbers in (("39", "4,100"), ("1.2 s", "2.0 min"), ("27", "8,200"), ("1.4 MB", "102.7 MB")):
        assert re.search(r"\s+".join(map(re.escape, numbers)), printed)
    assert "A posterior in 39 network rounds, where D-ADMMS takes 4,100." in printed
    said = " ".join(printed.split())
    assert "importance weights: Numbers that left each site: 1,274 derivatives; not masked" in said
    assert "neighbours of a small site can work out its rows from such numbers" in said
    assert "D-ADMMS: Numbers that left each site: 300 messages of the sampler" in said
    assert "The result has 600 numbers of each site's own draws, in the clear" in said
    assert "Rows that left" not in said


def run_of(kinds):
    """What the report reads of a result."""
    return SimpleNamespace(attrs={"disclosed": json.dumps(kinds), "privacy": "none"})


def test_monte_carlo_errors_of_independent_draws_are_those_of_the_textbook():
    draws = np.random.default_rng(0).normal(3.0, 2.0, size=(4, 500, 200))
    errors = report.monte_carlo_errors(draws)
    np.testing.assert_allclose(errors, [1 / np.sqrt(2000), 1 / np.sqrt(4000)], rtol=0.1)


def test_a_missing_package_is_named_with_its_remedy():
    with pytest.raises(ModuleNotFoundError, match=r"needs no_such_package.*starlings\[demo\]"):
        check_installed("no_such_package", extra="demo")

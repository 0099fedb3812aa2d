"""The demo on the RAND data: its rows, its model, the reason for its rho, and a short run of it."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import starlings as st
from starlings.research.demo import data, report, run
from starlings.research.packaged_data import check_installed

pytestmark = pytest.mark.skipif(
    any(
        importlib.util.find_spec(name) is None for name in ("statsmodels", "blackjax", "matplotlib")
    ),
    reason="needs starlings[demo]",
)

DRAWS, THIN, REFERENCE_DRAWS = 60, 20, 200


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


def langevin_step() -> float:
    return 1 / (4 * run.RHO * st.Network.ring(6).num_edges)


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


def test_rho_is_what_its_comment_says(laplace):
    mode, hessians = laplace
    curvatures = np.linalg.eigvalsh(hessians.sum(axis=0))
    assert 0.19 < langevin_step() * curvatures[-1] < 0.21
    assert 0.048 < langevin_step() * curvatures[0] < 0.052
    gaussian = st.models.gaussian(hessians, hessians @ mode)
    law = st.theory.law(gaussian, st.Network.ring(6), st.DADMMS(rho=run.RHO)).stationary()
    sd = np.sqrt(np.diag(np.linalg.inv(hessians.sum(axis=0))))
    ratios = np.array([np.sqrt(np.diag(law.agent(i)[1])) for i in range(6)]) / sd
    assert (round(ratios.min(), 3), round(ratios.max(), 3)) == (0.992, 1.011)


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    run.run(folder, draws=DRAWS, thin=THIN, reference_draws=REFERENCE_DRAWS)
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
    assert (counts[["single site", "network", "pooled"]] == [6, 6, 1]).all(axis=None)


@pytest.mark.slow
def test_network_and_nuts_find_the_mean_of_the_posterior(short_run, problem, laplace):
    """Within four Monte Carlo errors and 0.05 sd, for the mean is not quite at the mode.

    The network has 2 / (eta m) rounds for one independent draw of its slowest direction; NUTS is
    granted one in two.
    """
    mode, hessians = laplace
    total = hessians.sum(axis=0)
    tau = 2 / (langevin_step() * np.linalg.eigvalsh(total)[0])
    effective = {
        "network": run.CHAINS * DRAWS * THIN / tau,
        "pooled": run.CHAINS * REFERENCE_DRAWS / 2,
    }
    table = pd.read_csv(short_run / "rand.csv")
    z_sd = np.sqrt(np.diag(np.linalg.inv(total)))
    mean, sd = (problem.constrain(point)["beta"] for point in (mode, z_sd))
    for estimate, size in effective.items():
        found = table[table["estimate"] == estimate].pivot(
            index="parameter", columns="site", values="mean"
        )
        found = found.loc[[c.label for c in data.COVARIATES]].to_numpy()
        errors = (found - mean[:, None]) / sd[:, None]
        assert np.abs(errors).max() < 4 / np.sqrt(size) + 0.05


@pytest.mark.slow
def test_the_printed_table_fits_a_terminal(short_run, capsys):
    table = pd.read_csv(short_run / "rand.csv")
    for width, wide in ((80, False), (126, True)):
        console = Console(width=width, color_system=None)
        console.print(report.display_table(table, wide))
        printed = capsys.readouterr().out
        assert "…" not in printed
        assert all(covariate.label in printed for covariate in data.COVARIATES)


def test_monte_carlo_errors_of_independent_draws_are_those_of_the_textbook():
    draws = np.random.default_rng(0).normal(3.0, 2.0, size=(4, 500, 200))
    errors = report.monte_carlo_errors(draws)
    np.testing.assert_allclose(errors, [1 / np.sqrt(2000), 1 / np.sqrt(4000)], rtol=0.1)


def test_a_missing_package_is_named_with_its_remedy():
    with pytest.raises(ModuleNotFoundError, match=r"needs no_such_package.*starlings\[demo\]"):
        check_installed("no_such_package", extra="demo")

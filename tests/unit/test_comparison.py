"""Evidence and leave-one-out cross-validation, against closed forms and against ArviZ."""

from __future__ import annotations

import math
import warnings

import jax
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import starlings as st
from starlings.comparison import site_likelihood
from starlings.comparison.row_terms import relative_efficiency, row_terms
from starlings.comparison.site_likelihood import flat_vectors, site_draws
from starlings.network.gossip import Gossip
from starlings.problem.report import Report
from tests.mpi import mpi, needs_mpi
from tests.problems import irregular_graph, logistic_rows, unequal_linear_problem

NOISE, PRIOR = 2.0, 3.0
"""Standard deviations of the rows and of the prior of `mean_problem`."""


def result_of(draws, sites, **notes):
    """A result from draws by name, each (chain, draw, agent, ...), with notes as attributes."""
    variables = {
        name: (["chain", "draw", "agent", *(f"{name}_dim_{k}" for k in range(x.ndim - 3))], x)
        for name, x in draws.items()
    }
    posterior = xr.Dataset(variables, {"agent": sites})
    tree = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": xr.Dataset()})
    result = st.Result(tree)
    for name, value in notes.items():
        result.set_attribute(name, value)
    return result


def exact_result(problem, seed=0):
    """Independent draws of a linear regression's posterior, alike at all agents."""
    random = np.random.default_rng(seed)
    x = random.multivariate_normal(*problem.exact_posterior(), size=(4, 100))
    return result_of({"beta": np.repeat(x[:, :, None], problem.num_agents, axis=2)}, problem.sites)


def mean_rows():
    """Rows with an unknown mean, at four sites, one of which has a single row."""
    random = np.random.default_rng(3)
    return {
        site: {"y": 1.0 + NOISE * random.normal(size=size)}
        for site, size in {"a": 1, "b": 12, "c": 30, "d": 17}.items()
    }


def mean_problem(shards=None):
    """Rows y ~ N(m, NOISE^2) with m ~ N(0, PRIOR^2)."""
    return st.Problem(
        lambda p, row: jax.scipy.stats.norm.logpdf(row["y"], p["m"], NOISE),
        lambda p: jax.scipy.stats.norm.logpdf(p["m"], 0.0, PRIOR),
        {"m": ()},
        mean_rows() if shards is None else shards,
        quadratic=True,
    )


def mean_draws(seed, problem=None):
    """Draws of the mean, other ones at every agent."""
    problem = mean_problem() if problem is None else problem
    (mean,), ((variance,),) = problem.exact_posterior()
    x = np.random.default_rng(seed).normal(size=(4, 1000, 4))
    return result_of({"m": mean + np.sqrt(variance) * x}, problem.sites)


def exact_elpd():
    """The log-density of every row given all others."""
    y = np.concatenate([rows["y"] for rows in mean_rows().values()])
    precision = 1 / PRIOR**2 + (len(y) - 1) / NOISE**2
    means = (y.sum() - y) / NOISE**2 / precision
    return stats.norm.logpdf(y, means, np.sqrt(NOISE**2 + 1 / precision))


def logistic_problem(columns=(0, 1, 2)):
    X, y, sites = logistic_rows()
    return st.models.logistic_regression(X[:, list(columns)], y, sites, intercept=False)


def laplace_result(problem, seed=0):
    """Draws of a Gaussian around the mode of a logistic regression, alike at all agents."""
    rows = problem.pooled().shards["pooled"]
    X, y, beta = rows["x"], rows["y"], np.zeros(problem.dim)
    for _ in range(20):
        p = 1 / (1 + np.exp(-X @ beta))
        hessian = X.T * (p * (1 - p)) @ X + np.eye(problem.dim) / 10
        beta = beta + np.linalg.solve(hessian, X.T @ (y - p) - beta / 10)
    random = np.random.default_rng(seed)
    x = random.multivariate_normal(beta, np.linalg.inv(hessian), size=(4, 800))
    return result_of({"beta": np.repeat(x[:, :, None], len(problem.sites), axis=2)}, problem.sites)


def arviz_loo(data, efficiency):
    """elpd, its standard error and p_loo by the installed ArviZ.

    ArviZ 1 and arviz-stats smooth floor(3 sqrt(S / efficiency)) of S weights and divide a variance
    by n - 1. ArviZ 0 rounds up and divides by n; it is given an efficiency at which it smooths as
    many weights.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version when imported
        import arviz

        if int(arviz.__version__.split(".")[0]) > 0:
            found = arviz.loo(data, reff=efficiency)
            return found.elpd, found.se, found.p
        draws = math.prod(data["log_likelihood"]["log_likelihood"].shape[:2])
        smoothed = math.floor(3 * math.sqrt(draws / efficiency))
        found = arviz.loo(data, reff=draws * (3 / (smoothed - 0.5)) ** 2)
    rows = found.n_data_points
    return found.elpd_loo, found.se * math.sqrt(rows / (rows - 1)), found.p_loo


def evidence_of(X, y, noise, prior):
    """log N(y; 0, noise^2 I + prior^2 X X')."""
    covariance = noise**2 * np.eye(len(y)) + prior**2 * X @ X.T
    return stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)


def test_elpd_of_a_gaussian_mean_is_its_closed_form():
    """Ten runs with draws of their own: their average is exact within four of its errors."""
    problem, network, exact = mean_problem(), st.Network.path(4), exact_elpd()
    found = [st.loo(problem, network, mean_draws(seed)) for seed in range(10)]
    elpd = np.array([one.elpd for one in found])
    error = elpd.std(ddof=1) / np.sqrt(10)
    assert error < 0.05
    assert abs(elpd.mean() - exact.sum()) < 4 * error
    assert {one.num_rows for one in found} == {60}
    assert {one.num_unreliable for one in found} == {0}
    se = np.sqrt(60 * exact.var(ddof=1))
    assert np.mean([one.se for one in found]) == pytest.approx(se, rel=0.01)
    assert np.mean([one.p_loo for one in found]) == pytest.approx(1.0, abs=0.3)


def test_sites_together_say_what_arviz_says_of_the_pooled_rows():
    problem, network = logistic_problem(), st.Network.ring(5)
    result = laplace_result(problem)
    found = st.loo(problem, network, result)
    pooled = problem.pooled()
    draws = {"beta": result.posterior["beta"].values[:, :, :1]}
    data = st.site_log_likelihood(pooled, result_of(draws, ["pooled"]), "pooled")
    efficiency = relative_efficiency(draws["beta"][:, :, 0])
    expected = arviz_loo(data, efficiency)
    assert (found.elpd, found.se, found.p_loo) == pytest.approx(expected, rel=1e-9)
    assert found.num_rows == 240
    assert found.num_draws == 3200
    assert found.limit == 0.7


def test_a_single_row_has_no_standard_error():
    problem = mean_problem({"a": {"y": [1.3]}})
    draws = np.random.default_rng(0).normal(size=(4, 100, 1))
    found = st.loo(problem, st.Network.path(1), result_of({"m": draws}, ["a"]))
    assert found.num_rows == 1
    assert np.isnan(found.se)
    assert np.isfinite(found.elpd)


def test_one_sum_of_five_numbers_is_all_that_is_sent(monkeypatch):
    shapes, summed = [], Gossip.sum

    def counted(self, parts, what):
        shapes.append(np.shape(parts))
        return summed(self, parts, what)

    monkeypatch.setattr(Gossip, "sum", counted)
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    result = exact_result(problem)
    found = st.loo(problem, network, result)
    assert shapes == [(6, 5)]
    with jax.enable_x64(True):
        gossip = Gossip(network)
    assert found.rounds == gossip.rounds_per_sum
    assert found.bytes == 8 * 5 * gossip.messages_by_agent.sum()
    st.compare_loo(network, {"one": (problem, result), "two": (problem, result)})
    assert shapes[1:] == [(6, 2 * 5 + 4)]


def test_it_prints_two_lines():
    lines = str(st.Loo(-123.456, 5.313, 3.05, 2000, 0, 0.7, 4000, 4, 320)).splitlines()
    assert lines == [
        "elpd -123.46 (standard error 5.31), p_loo 3.05, 2,000 rows",
        "Reliable: no row has a Pareto k-hat above 0.70.",
    ]
    lines = str(st.Loo(-1.0, 0.1, 3.0, 20, 3, 0.7, 4000, 4, 320)).splitlines()
    assert lines[1].startswith("Not reliable for 3 rows, whose Pareto k-hat is above 0.70")
    assert len(lines) == 2


def test_a_row_that_nothing_else_predicts_is_unreliable():
    shards = mean_rows()
    shards["c"]["y"][0] = 80.0
    problem = mean_problem(shards)
    found = st.loo(problem, st.Network.path(4), mean_draws(0, problem))
    assert found.num_unreliable == 1


def test_blocks_of_rows_change_nothing(monkeypatch):
    problem = logistic_problem()
    vectors = flat_vectors(problem, site_draws(laplace_result(problem), "e"))
    whole = row_terms(problem, "e", vectors)
    monkeypatch.setattr(site_likelihood, "BLOCK_BYTES", 8 * 3200 * 7)
    np.testing.assert_allclose(row_terms(problem, "e", vectors), whole, rtol=1e-12)


def test_long_runs_are_thinned_and_so_are_many_chains():
    long = result_of({"m": np.zeros((4, 2500, 2))}, ["a", "b"])
    assert dict(site_draws(long, "b").sizes) == {"chain": 4, "draw": 834}
    wide = result_of({"m": np.zeros((9000, 2, 2))}, ["a", "b"])
    assert dict(site_draws(wide, "b").sizes) == {"chain": 3000, "draw": 1}


def test_the_log_likelihood_of_one_site_is_that_of_its_rows():
    """With a constraint, a derived value, and other draws at every agent."""
    random = np.random.default_rng(0)
    shards = {"north": {"y": [1.0, 2.5, 0.3]}, "south": {"y": [2.0]}}
    problem = st.Problem(
        lambda p, row: jax.scipy.stats.norm.logpdf(row["y"], p["m"], p["s"]),
        lambda p: -p["s"],
        {"m": (), "s": st.Parameter((), "positive")},
        shards,
        derived=lambda p: {"variance": p["s"] ** 2},
    )
    z = random.normal(size=(2, 60, 2, 2))
    m, s = z[..., 0], np.exp(z[..., 1])
    result = result_of({"m": m, "s": s, "variance": s**2}, ["north", "south"])
    data = st.site_log_likelihood(problem, result, "north")
    found = data["log_likelihood"]["log_likelihood"]
    exact = stats.norm.logpdf(np.array([1.0, 2.5, 0.3]), m[:, :, :1], s[:, :, :1])
    np.testing.assert_allclose(found.values, exact, rtol=1e-10)
    np.testing.assert_array_equal(data["posterior"]["m"].values, m[:, :, 0])


def test_standardised_columns_of_a_study_are_found_under_their_other_name():
    plain = logistic_problem()
    report = Report(
        lambda p: {"beta": 2 * p["beta"], "beta_standardised": p["beta"]},
        names={"beta": "beta_standardised"},
    )
    result = laplace_result(plain)
    beta = result.posterior["beta"].values
    both = result_of({"beta": 2 * beta, "beta_standardised": beta}, plain.sites)
    found = st.loo(plain.with_report(report), st.Network.ring(5), both)
    assert found == st.loo(plain, st.Network.ring(5), result)


@pytest.mark.slow
def test_differences_have_the_standard_error_of_the_rows_differences():
    full, small, network = logistic_problem(), logistic_problem((0,)), st.Network.ring(5)
    models = {"small": (small, laplace_result(small)), "full": (full, laplace_result(full))}
    table = st.compare_loo(network, models)
    assert list(table.index) == ["full", "small"]
    elpd = {
        name: np.concatenate(
            [
                row_terms(problem, site, flat_vectors(problem, site_draws(result, site))).elpd
                for site in problem.sites
            ]
        )
        for name, (problem, result) in models.items()
    }
    rows = elpd["small"] - elpd["full"]
    found = table.loc["small", ["difference", "difference_se"]].tolist()
    assert found == pytest.approx([rows.sum(), np.sqrt(240 * rows.var(ddof=1))], rel=1e-10)
    assert table.loc["full", ["difference", "difference_se"]].tolist() == [0, 0]
    alone = {name: st.loo(problem, network, result) for name, (problem, result) in models.items()}
    side_by_side = st.compare_models(alone)
    shared = ["elpd", "se", "p_loo", "difference", "unreliable_rows"]
    assert side_by_side.columns.tolist() == shared
    np.testing.assert_allclose(side_by_side, table[shared], rtol=1e-10)


def test_the_bayes_factor_of_two_regressions_is_its_closed_form():
    random = np.random.default_rng(1)
    X = random.normal(size=(30, 2))
    y = X @ [1.0, 0.4] + random.normal(size=30)
    exact = {"both": evidence_of(X, y, 1.0, 2.0), "first": evidence_of(X[:, :1], y, 1.0, 2.0)}
    draws = {"beta": np.zeros((1, 1, 1, 2))}
    errors = {"both": 0.03, "first": 0.04}
    models = {
        name: result_of(draws, ["0"], log_evidence=exact[name], log_evidence_error=errors[name])
        for name in ("first", "both")
    }
    assert models["both"].log_evidence == (exact["both"], 0.03)
    table = st.compare_models(models)
    factor = exact["first"] - exact["both"]
    best, other = ("both", "first") if factor < 0 else ("first", "both")
    assert list(table.index) == [best, other]
    found = table.loc[other].tolist()
    odds = np.exp(-abs(factor))
    assert found == pytest.approx(
        [exact[other], errors[other], -abs(factor), 0.05, odds / (1 + odds)], rel=1e-12
    )
    assert table["probability"].sum() == pytest.approx(1.0)


def test_evidence_is_read_and_printed_or_its_remedy_is_named():
    draws = {"m": np.zeros((1, 1, 1))}
    evidence = result_of(draws, ["0"], log_evidence=-123.456, log_evidence_error=0.012).log_evidence
    assert evidence == st.Evidence(-123.456, 0.012)
    assert str(evidence) == "-123.46 (standard error 0.01)"
    with pytest.raises(ValueError, match='sample with method="weights"'):
        result_of(draws, ["0"]).log_evidence  # noqa: B018


def test_what_cannot_be_compared_is_refused():
    draws, rows = {"m": np.zeros((1, 1, 1))}, {"log_evidence": -1.0, "log_evidence_error": 0.1}
    result = result_of(draws, ["0"], **rows, model={"rows": {"0": 5}})
    other = result_of(draws, ["0"], **rows, model={"rows": {"0": 6}})
    loo = st.Loo(-1.0, 0.1, 3.0, 20, 0, 0.7, 4000, 4, 320)
    with pytest.raises(ValueError, match="at least two models"):
        st.compare_models({"one": loo})
    with pytest.raises(TypeError, match=r"got {'one': 'Loo', 'two': 'Result'}"):
        st.compare_models({"one": loo, "two": result})
    with pytest.raises(ValueError, match=r"numbers of rows {'one': 5, 'two': 6}"):
        st.compare_models({"one": result, "two": other})
    network, problem = st.Network.path(4), mean_problem()
    shards = mean_rows()
    shards["b"] = {"y": shards["b"]["y"][1:]}
    pair = {"one": (problem, mean_draws(0)), "two": (mean_problem(shards), mean_draws(0))}
    with pytest.raises(ValueError, match=r"same rows at every site, .*'b': 12.*'b': 11"):
        st.compare_loo(network, pair)
    with pytest.raises(ValueError, match="at least two models"):
        st.compare_loo(network, {"one": pair["one"]})


def columns_of(**sites):
    """A result whose model has columns with these checksums, by site."""
    evidence = {"log_evidence": -1.0, "log_evidence_error": 0.1}
    return result_of({"m": np.zeros((1, 1, 1))}, ["0"], **evidence, model={"columns": sites})


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"a": {"x": 9, "y": 2}}, True),  # other covariates
        ({"a": {"x": 1, "y": 9}}, False),
        ({"a": {"x": 9, "y": 9}}, False),
        ({"a": {"x": 1, "z": 9}}, True),  # a model of another kind, of the same covariates
        ({"a": {"x": 9, "z": 2}}, False),
        ({"a": {"z": 9}}, True),  # nothing to compare
        ({"b": {"x": 9, "y": 9}}, True),
        ({}, True),  # messages were masked
    ],
)
def test_models_of_other_outcomes_are_refused(other, is_same):
    models = {"one": columns_of(a={"x": 1, "y": 2}), "two": columns_of(**other)}
    if is_same:
        assert len(st.compare_models(models)) == 2
        return
    with pytest.raises(ValueError, match=r"the outcomes of 'one' and 'two' differ at site 'a'"):
        st.compare_models(models)


@pytest.mark.slow
def test_as_many_rows_with_other_outcomes_are_other_rows():
    X, y, sites = logistic_rows()
    network = st.Network.ring(len(set(sites)))

    def result(X, y):
        problem = st.models.linear_regression(X, y, sites, noise_std=1.0)
        return st.sample(problem, network, method="weights", draws=25, check=False)

    one, fewer, moved = result(X, y), result(X[:, :2], y), result(X, y + 5.0)
    assert list(st.compare_models({"one": one, "fewer": fewer}).index)
    with pytest.raises(ValueError, match="must be of the same rows, and the outcomes of"):
        st.compare_models({"one": one, "moved": moved})


def test_draws_of_another_problem_are_refused():
    problem, network = mean_problem(), st.Network.path(4)
    with pytest.raises(ValueError, match=r"agents \['a', 'b'\] and no 'c'"):
        st.loo(problem, network, result_of({"m": np.zeros((4, 50, 2))}, ["a", "b"]))
    with pytest.raises(ValueError, match=r"draws of 'm' of shape \(\), got {'x': \(\)}"):
        st.loo(problem, network, result_of({"x": np.zeros((4, 50, 4))}, problem.sites))
    with pytest.raises(ValueError, match="at least 100 draws over all chains, got 40"):
        st.loo(problem, network, result_of({"m": np.zeros((4, 10, 4))}, problem.sites))
    with pytest.raises(ValueError, match="'m' that are not finite"):
        st.loo(problem, network, result_of({"m": np.full((4, 50, 4), np.nan)}, problem.sites))
    with pytest.raises(ValueError, match=r"`site` must be one of .*got 'e'"):
        st.site_log_likelihood(problem, mean_draws(0), "e")
    with pytest.raises(TypeError, match="`result` must be what `sample` returned, got NoneType"):
        st.loo(problem, network, None)


@needs_mpi
@pytest.mark.slow
def test_two_processes_find_the_same():
    """Process 0 has the draws, and each process the rows of its own sites."""
    program = """
from starlings.runtime.mpi.cluster import Cluster
import starlings as st
from tests.mpi import placed
from tests.unit.test_comparison import logistic_problem, laplace_result
problem, network = logistic_problem(), st.Network.ring(5)
whole = laplace_result(problem)
alone = st.loo(problem, network, whole)
table = st.compare_loo(network, {"a": (problem, whole), "b": (problem, whole)})
with Cluster() as cluster:
    part, shared = placed(cluster, problem, network)
    assert 0 < len(part.shards) < 5
    result = whole if cluster.is_first else None
    found = st.loo(part, shared, result)
    for name in ("elpd", "se", "p_loo", "num_rows", "num_unreliable", "rounds", "bytes"):
        assert abs(getattr(found, name) - getattr(alone, name)) < 1e-9, name
    both = st.compare_loo(shared, {"a": (part, result), "b": (part, result)})
    assert abs(both - table).to_numpy().max() < 1e-9
    print("the same")
"""
    done = mpi(2, "-c", program)
    assert done.stdout.count("the same") == 2, done.stderr

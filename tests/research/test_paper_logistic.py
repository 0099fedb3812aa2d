"""The logistic experiments: the authors' data, the reference posterior, what the figure shows."""

from __future__ import annotations

import io
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.research.paper import registry
from starlings.research.paper.data import TOPOLOGIES, logistic_problem, topology
from starlings.research.paper.experiment import Settings
from starlings.research.paper.experiments import logistic
from starlings.research.paper.experiments.logistic_claims import (
    POSTERIOR_ROUNDS,
    worse_with_more_agents,
)
from starlings.research.paper.experiments.logistic_posterior import Posterior, accuracies
from starlings.research.paper.parallel import pieces
from starlings.research.paper.style import figure_style
from starlings.solvers.objective import tolerance
from starlings.solvers.proximal import proximal_point
from starlings.theory import law

QUICK = Settings(quick=True)


@pytest.fixture(scope="module")
def problem() -> st.Problem:
    return logistic_problem(5)


@pytest.fixture(scope="module")
def posterior(problem) -> Posterior:
    return Posterior.of(problem)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """The quick run of the smallest experiment, as it is read back from its file."""
    seen = []
    whole = logistic.compute(5, QUICK, lambda done, total: seen.append((done, total)))
    assert seen == [(done, 17) for done in range(18)]
    text = io.StringIO(whole.to_csv(index=False))
    return pd.read_csv(text)


def by_round(table: pd.DataFrame, graph: str, quantity: str) -> pd.DataFrame:
    """One quantity with a row per round and a column per method."""
    here = table[(table["graph"] == graph) & (table["quantity"] == quantity)]
    return here.pivot(index="round", columns="method", values="value")


@pytest.mark.slow
def test_grid_is_fine_and_wide_enough(problem, posterior):
    finer = Posterior.of(problem, nodes=51, half_width=12.0)
    spread = np.sqrt(np.diag(posterior.covariance))
    assert np.abs((finer.mean - posterior.mean) / spread).max() < 1e-4
    np.testing.assert_allclose(posterior.covariance, finer.covariance, rtol=5e-4)
    assert posterior.accuracy == pytest.approx(finer.accuracy, abs=5e-4)


@pytest.mark.slow
def test_grid_agrees_with_importance_sampling(problem, posterior):
    """Another way to the same integrals: weighted draws of a wide multivariate t."""
    random, count, freedom = np.random.default_rng(0), 100_000, 5
    factor = np.linalg.cholesky(1.5 * posterior.covariance)
    t = random.normal(size=(count, 3)) / np.sqrt(random.chisquare(freedom, (count, 1)) / freedom)
    draws = posterior.mode + t @ factor.T
    rows = problem.pooled().shards["pooled"]
    eta = draws @ rows["x"].T
    target = (rows["y"] * eta - np.logaddexp(0, eta)).sum(axis=1) - (draws**2).sum(axis=1) / 20
    proposal = -(freedom + 3) / 2 * np.log1p((t**2).sum(axis=1) / freedom)
    weights = np.exp(target - proposal - (target - proposal).max())
    weights /= weights.sum()
    for values, expected in ((draws, posterior.mean), (draws**2, second_moments(posterior))):
        estimate = weights @ values
        error = np.sqrt(weights**2 @ (values - estimate) ** 2)
        assert np.all(np.abs(estimate - expected) < 4 * error)
        assert np.all(error < 0.01 * np.abs(expected))


def second_moments(posterior: Posterior) -> np.ndarray:
    return np.diag(posterior.covariance) + posterior.mean**2


def test_accuracy_sees_directions_only(problem):
    draws = np.random.default_rng(0).normal(size=(2, 7, 3))
    hits = accuracies(problem, draws)
    rows = problem.pooled().shards["pooled"]
    by_hand = ((rows["x"] @ draws[1, 3] >= 0) == (rows["y"] == 1)).mean()
    assert hits.shape == (2, 7)
    assert hits[1, 3] == pytest.approx(by_hand, abs=1e-6)
    np.testing.assert_array_equal(hits, accuracies(problem, 0.1 * draws))
    np.testing.assert_allclose(hits + accuracies(problem, -draws), 1.0, atol=1e-6)


def test_exact_draws_have_the_quantities_of_the_posterior(posterior):
    shape, random = (1, 4000, 2), np.random.default_rng(0)
    draws = random.multivariate_normal(posterior.mean, posterior.covariance, size=shape)
    columns = logistic.quantities(draws, np.ones(shape), posterior)
    assert columns["variance ratio, all agents"][0] == pytest.approx(1.0, abs=0.06)
    assert columns["W2, agent 0"][0] < 0.08
    short = logistic.quantities(0.5 * draws, np.ones(shape), posterior)
    assert short["variance ratio, agent 0"][0] == pytest.approx(0.25, rel=0.1)
    assert short["W2, agent 0"][0] > 1.0


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_our_penalty_gives_the_bias_that_is_stated(graph):
    """On equal quadratics of pooled curvature m: variance times m is 1 / (1 + s/2) + s/2."""
    size, curvature = 5, 130.0
    target = st.models.gaussian(np.full((size, 1, 1), curvature / size))
    network = topology(graph, size)
    ours = logistic.methods(graph, network, curvature)["coherent D-ADMMS"]
    _, variance = law(target, network, ours).stationary().agent(0)
    assert curvature * variance.item() == pytest.approx(1 / 1.5 + 0.5, rel=1e-6)


def test_dula_has_the_exponents_of_the_paper():
    for size, expected in ((5, (0.05, 0.55)), (20, (0.05, 0.55)), (50, (0.9, 0.9))):
        for graph in TOPOLOGIES:
            sampler = logistic.methods(graph, topology(graph, size), 1.0)["D-ULA"]
            exponents = (sampler.step_size.exponent, sampler.consensus_step.exponent)
            assert exponents == (expected if graph == "complete" else (0.05, 0.05))


@pytest.mark.slow
def test_a_separable_shard_has_its_mode_found_from_a_flat_start():
    """One of 50 agents can tell its rows apart; all that holds it is a fiftieth of the prior."""
    with jax.enable_x64(True):
        agent = jax.tree.map(lambda stack: stack[32], logistic_problem(50).agents())
        start = jnp.array([-0.92198577, -0.29724684, 1.47290197])
        found = jax.jit(proximal_point)(agent, 0.0, jnp.zeros(3), start)
        assert found.residual <= tolerance(np.float64)
        assert jnp.abs(agent.gradient(found.point)).max() < 1e-6


@pytest.mark.slow
def test_without_edges_both_stay_at_the_published_accuracy(table):
    """The released results have 0.968 for agent 0 and 0.9672 for all, from round 1 on."""
    for whom, published in (("agent 0", 0.968), ("all agents", 0.9672)):
        accuracy = by_round(table, "no edges", f"accuracy, {whom}").loc[1:]
        np.testing.assert_allclose(accuracy[["D-ADMMS", "ADMM"]], published, atol=1e-6)
    spread = by_round(table, "no edges", "variance ratio, all agents").loc[1:]
    assert spread[["D-ADMMS", "ADMM"]].max(axis=None) < 1e-12


@pytest.mark.slow
def test_on_the_ring_the_paper_is_right_about_accuracy(table):
    accuracy = by_round(table, "ring", "accuracy, agent 0").loc[:30]
    rivals = accuracy[["D-SGLD", "D-SGHMC", "D-ULA"]]
    assert (accuracy["D-ADMMS"] > rivals.max(axis=1))[1:].all()
    deviation = by_round(table, "ring", "accuracy sd, agent 0").loc[10:30]
    assert (deviation["D-ADMMS"] < deviation[rivals.columns].min(axis=1)).all()


@pytest.mark.slow
def test_accuracy_hides_that_nobody_has_the_posterior(table, posterior):
    """After 30 rounds D-ADMMS labels as well as the posterior, with a tenth of its variance."""
    ring = {q: by_round(table, "ring", f"{q}, agent 0").loc[30] for q in ("accuracy", "W2")}
    assert abs(ring["accuracy"]["D-ADMMS"] - posterior.accuracy) < 0.005
    reference = table[table["graph"] == logistic.POOLED].set_index(["method", "quantity"])["value"]
    assert ring["W2"].min() > 10 * reference["posterior", "W2"]
    assert by_round(table, "ring", "variance ratio, agent 0").loc[30, "D-ADMMS"] < 0.2


@pytest.mark.slow
def test_threads_change_nothing(table, problem, posterior):
    methods = partial(logistic.methods, largest_curvature=posterior.largest_curvature)
    piece = pieces(5, methods, QUICK.seed)[7]
    alone = logistic.curve_table(problem, posterior, QUICK, piece)
    here = (table["graph"] == piece.graph) & (table["method"] == piece.method)
    np.testing.assert_allclose(alone["value"], table[here]["value"], rtol=1e-12)


@pytest.mark.slow
def test_figure_has_three_rows_of_labelled_panels(table):
    figure = drawn(table)
    assert len(figure.axes) == 9
    assert [axis.get_title() for axis in figure.axes[:3]] == list(TOPOLOGIES)
    assert all(axis.get_ylabel() for axis in figure.axes[::3])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"D-ADMMS", "coherent D-ADMMS", "exact draws"} <= set(labels)


@pytest.mark.slow
def test_lines_are_marked_and_bands_stay_inside_the_axis(table):
    top = drawn(table).axes[0]
    assert len(bands(top)) == 6
    markers = [line.get_marker() for line in top.lines if len(line.get_xdata()) > 2]
    assert len(set(markers) - {"None"}) == len(markers) == 6


def drawn(table: pd.DataFrame):
    with figure_style():
        figure = logistic.draw(table)
        figure.draw_without_rendering()
    return figure


def bands(axis) -> list[tuple[float, float]]:
    """The lowest and the highest point of every band, which must be inside of the panel."""
    found = [path.vertices[:, 1] for band in axis.collections for path in band.get_paths()]
    low, high = axis.get_ylim()
    assert all(low < heights.min() <= heights.max() < high for heights in found)
    return [(heights.min(), heights.max()) for heights in found]


def test_the_band_of_skewed_trials_is_of_accuracies_that_some_trial_has(posterior):
    """A standard deviation above their mean no accuracy can be."""
    draws = np.random.default_rng(0).normal(size=(2, 11, 1, 3))
    hits = np.array([0.97] * 8 + [0.3] * 3).reshape(1, 11, 1).repeat(2, axis=0)
    assert hits.mean() + hits.std() > 1
    columns = logistic.quantities(draws, hits, posterior)
    one = pd.DataFrame({"round": [0, 1], **columns}).melt("round", var_name="quantity")
    curves = [one.assign(graph=name, method="D-SGHMC") for name in TOPOLOGIES]
    table = pd.concat([logistic.posterior_table(posterior, QUICK), *curves]).assign(agents=5)
    for axis in drawn(table).axes[:3]:
        assert bands(axis) == [(0.3, 0.97)]


def accuracy_rows(agents: int, complete: float) -> pd.DataFrame:
    """A made-up table: exact draws have accuracy 0.98, D-ADMMS the same on the ring."""
    rows = [
        ("complete", "D-ADMMS", 19, "accuracy, agent 0", complete),
        ("ring", "D-ADMMS", 19, "accuracy, agent 0", 0.98),
        ("pooled", "posterior", 0, "accuracy", 0.98),
    ]
    columns = ["graph", "method", "round", "quantity", "value"]
    return pd.DataFrame(rows, columns=columns).assign(agents=agents)


def test_decline_with_the_number_of_agents_is_judged_over_all_tables():
    found = {}
    for name, last in (("falls", 0.90), ("recovers", 0.97)):
        parts = [accuracy_rows(n, a) for n, a in ((50, last), (5, 0.97), (20, 0.95))]
        found[name] = [v.holds for v in worse_with_more_agents(pd.concat(parts))]
    assert found == {"falls": [True, False], "recovers": [False, False]}
    assert not list(worse_with_more_agents(accuracy_rows(5, 0.97)))


@pytest.mark.slow
def test_claims_that_need_more_rounds_or_agents_are_left_out(table):
    rows = registry.judge_all({"fig-logistic-5": table})
    assert not rows["claim"].str.contains("of the posterior|declines|number of agents").any()
    late = table.assign(round=table["round"].replace(logistic.QUICK_ROUNDS, POSTERIOR_ROUNDS))
    rows = registry.judge_all({"fig-logistic-5": late}).set_index("claim")
    (criterion,) = rows[rows.index.str.contains("of the posterior")]["criterion"]
    assert "After 300 rounds" in criterion


def test_names_and_quick_set():
    found = {e.name: e.in_quick for e in logistic.EXPERIMENTS}
    assert found == {"fig-logistic-5": True, "fig-logistic-20": True, "fig-logistic-50": False}

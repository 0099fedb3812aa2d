"""One-shot combinations: their formulas, their laws, and runs from `sample` to the result."""

from __future__ import annotations

import itertools

import jax
import networkx as nx
import numpy as np
import pytest
from scipy import stats

import starlings as st
from starlings.methods import one_shot
from starlings.methods.one_shot import Gaussian, Randomness
from tests.mpi import mpi, needs_mpi
from tests.problems import paper_problem, unequal_linear_problem

pytest.importorskip("blackjax")
SHOWN = "ignore::starlings.PosteriorWarning"


def subposterior_draws(seed=0, agents=3, count=40, dim=2):
    random = np.random.default_rng(seed)
    roots = random.normal(size=(agents, dim, dim)) + 2 * np.eye(dim)
    means = random.normal(size=(agents, 1, dim))
    return means + random.normal(size=(agents, count, dim)) @ np.swapaxes(roots, 1, 2)


def of_kernels(draws, widths, numbers, is_corrected):
    """log w_t or log W_t of a choice, and mean and covariance of its component, in any coordinates.

    Written from the paper, with every density by SciPy; `widths` is the covariance h^2 I.
    """
    agents = len(draws)
    chosen = np.array([draws[m, t] for m, t in enumerate(numbers)])
    average = chosen.mean(axis=0)
    log_w = sum(stats.multivariate_normal(average, widths).logpdf(x) for x in chosen)
    if not is_corrected:
        return log_w, average, widths / agents
    means, covariances = draws.mean(axis=1), [np.cov(own.T) for own in draws]
    product = np.linalg.inv(sum(map(np.linalg.inv, covariances)))
    centre = product @ sum(np.linalg.inv(s) @ m for s, m in zip(covariances, means, strict=True))
    log_w += stats.multivariate_normal(centre, product + widths / agents).logpdf(average)
    for x, m, s in zip(chosen, means, covariances, strict=True):
        log_w -= stats.multivariate_normal(m, s).logpdf(x)
    precision = agents * np.linalg.inv(widths)
    covariance = np.linalg.inv(precision + np.linalg.inv(product))
    pull = precision @ average + np.linalg.inv(product) @ centre
    return log_w, covariance @ pull, covariance


def test_consensus_is_the_weighted_average():
    draws = subposterior_draws()
    weights = [np.linalg.inv(np.cov(own.T)) for own in draws]
    for t in range(draws.shape[1]):
        expected = np.linalg.inv(sum(weights)) @ sum(
            w @ own[t] for w, own in zip(weights, draws, strict=True)
        )
        np.testing.assert_allclose(one_shot.combine(draws)[t], expected, rtol=0, atol=1e-12)


def test_the_parametric_product_is_that_of_gaussians():
    draws = subposterior_draws()
    product = Gaussian.product(sum(Gaussian.of(own).sums for own in draws), 2)
    precisions = [np.linalg.inv(np.cov(own.T)) for own in draws]
    covariance = np.linalg.inv(sum(precisions))
    mean = covariance @ sum(p @ own.mean(axis=0) for p, own in zip(precisions, draws, strict=True))
    np.testing.assert_allclose(product.mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.inv(product.precision), covariance, rtol=0, atol=1e-12)
    moved = product.at(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(moved[0], mean, rtol=0, atol=1e-12)
    root = (moved[1:] - moved[0]).T
    np.testing.assert_allclose(root @ root.T, covariance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_corrected", [False, True])
def test_one_draw_of_a_mixture_is_that_of_the_paper(is_corrected):
    """A dense transcription of the sweeps, in the coordinates of the draws."""
    draws, count = subposterior_draws(count=12), 7
    random = np.random.default_rng(1)
    agents, candidates, dim = draws.shape
    chance = Randomness(
        random.integers(candidates, size=(count, agents)),
        np.log(random.uniform(size=(count, agents))),
        np.zeros((count, dim)),
    )
    with jax.enable_x64(True):
        found = one_shot.mixture(draws, chance, is_corrected)
    unit = agents * np.linalg.inv(sum(np.linalg.inv(np.cov(own.T)) for own in draws))
    numbers = np.zeros(agents, int)
    for i in range(count):
        width = (i + 1) ** (-2 / (4 + dim)) * unit  # h^2, in the unit of the subposteriors
        for m in range(agents):
            other = numbers.copy()
            other[m] = chance.proposals[i, m]
            gain = np.subtract(
                of_kernels(draws, width, other, is_corrected)[0],
                of_kernels(draws, width, numbers, is_corrected)[0],
            )
            numbers = other if chance.log_chances[i, m] < gain else numbers
        expected = of_kernels(draws, width, numbers, is_corrected)[1]
        np.testing.assert_allclose(found[i], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_corrected", [False, True])
def test_choices_and_components_have_the_published_law(is_corrected):
    """With two agents of three draws, all nine choices, at one width throughout."""
    agents, candidates, dim, sweeps, width = 2, 3, 1, 100_000, 0.8
    random = np.random.default_rng(2)
    z = random.normal(size=(agents, candidates, dim))
    log_own = random.normal(size=(agents, candidates)) if is_corrected else np.zeros((2, 3))
    chance = Randomness(
        random.integers(candidates, size=(sweeps, agents)),
        np.log(random.uniform(size=(sweeps, agents))),
        random.normal(size=(sweeps, dim)),
    )
    with jax.enable_x64(True):
        widths = np.full(sweeps, width)
        mixed, numbers = one_shot.mixed_by_kernels(z, log_own, widths, chance, is_corrected)
    choices = list(itertools.product(range(candidates), repeat=agents))
    log_w, means, variance = [], [], width**2 / agents
    for choice in choices:
        chosen = np.array([z[m, t] for m, t in enumerate(choice)])
        average = chosen.mean(axis=0)
        weight = stats.norm(average, width).logpdf(chosen).sum()
        if is_corrected:
            weight += stats.norm(0, np.sqrt((1 + width**2) / agents)).logpdf(average).sum()
            weight -= sum(log_own[m, t] for m, t in enumerate(choice))
            average = average / (1 + width**2)
        log_w.append(weight)
        means.append(average[0])
    weights = np.exp(log_w - np.max(log_w))
    weights /= weights.sum()
    variance /= 1 + width**2 if is_corrected else 1
    codes = np.asarray(numbers) @ [candidates, 1]
    batches = (codes.reshape(100, -1, 1) == np.arange(9)).mean(axis=1)  # nearly independent
    z_scores = (batches.mean(axis=0) - weights) / (batches.std(axis=0, ddof=1) / 10)
    assert np.abs(z_scores).max() < 4.5
    parts = np.asarray(mixed).reshape(100, -1)
    exact = weights @ means
    error = parts.mean(axis=1).std(ddof=1) / 10
    assert abs(parts.mean() - exact) < 4.5 * error
    second = weights @ (np.array(means) ** 2) + variance
    error = (parts**2).mean(axis=1).std(ddof=1) / 10
    assert abs((parts**2).mean() - second) < 4.5 * error


@pytest.mark.parametrize("method", ["consensus", "parametric"])
def test_gaussian_subposteriors_give_the_posterior_for_one_sum(method):
    problem, network = paper_problem(4), st.Network.ring(4)
    result = st.sample(problem, network, method=method, draws=500, seed=3)
    mean, covariance = problem.exact_posterior()
    draws = result.posterior["beta"].values
    assert (draws == draws[:, :, :1]).all()
    white = np.linalg.solve(
        np.linalg.cholesky(covariance), (draws[:, :, 0].reshape(-1, 2) - mean).T
    )
    # The subposteriors have been estimated from as many draws as there are in the end, of which
    # NUTS makes at least half as many effective ones.
    error = np.sqrt(2 / 2000 + 1 / 2000)
    assert np.abs(white.mean(axis=1)).max() < 4.5 * error
    assert np.abs(np.cov(white) - np.eye(2)).max() < 4.5 * np.sqrt(2) * error
    assert (
        result.attrs["network_rounds"] == 4 + 4
    )  # to the centre, and back; before it, an agreement
    assert result.attrs["method"] == method
    sent = {"consensus": "draws weighted by precision", "parametric": "mean and precision of draws"}
    assert sent[method] in set(result.disclosed()["kind"])


@pytest.mark.filterwarnings(SHOWN)
@pytest.mark.parametrize("method", ["nonparametric", "semiparametric"])
def test_mixtures_come_near_the_posterior(method):
    """They are biased: by less than the law of one site, from which they would start."""
    problem, network = paper_problem(4), st.Network.complete(4)
    result = st.sample(problem, network, method=method, draws=500, seed=3)
    mean, covariance = problem.exact_posterior()
    draws = result.posterior["beta"].values[:, 100:, 0].reshape(-1, 2)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 0.4
    assert np.all(np.abs(white.std(axis=1) - 1) < 0.35)  # a site alone has about 2
    assert result.attrs["network_rounds"] == 1 + 2  # a sum, and an agreement before it


@pytest.mark.parametrize("method", one_shot.COMBINATIONS)
def test_a_site_without_a_posterior_of_its_own_is_named(method):
    rows = st.models.logistic_regression(
        np.array([[1.0], [2.0], [-1.0], [1.0], [2.0], [3.0]]),
        np.array([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        ["a", "a", "a", "b", "b", "b"],
        prior_std=1e9,
        intercept=False,
    )
    with pytest.raises(st.SubposteriorError, match=r"site 'b': its rows determine no posterior"):
        st.sample(rows, st.Network(nx.Graph([("a", "b")])), method=method, draws=100)


def test_masked_totals_give_the_same_draws():
    problem, network = paper_problem(4), st.Network.complete(4)
    options = {"method": "consensus", "draws": 500, "check": False}
    plain = st.sample(problem, network, **options)
    masked = st.sample(problem, network, **options, privacy="totals")
    np.testing.assert_allclose(
        masked.posterior["beta"].values, plain.posterior["beta"].values, rtol=0, atol=1e-9
    )
    assert masked.attrs["privacy"] == "totals"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nonparametric", "privacy": "totals"}, "cannot be masked"),
        ({"method": "consensus", "burn_in": 5}, "`burn_in` is for methods that run in rounds"),
        ({"method": "consensus", "initial": np.zeros(2)}, "takes no `initial`"),
        ({"method": "semiparametric", "draws": 10**7}, "GiB are the limit"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        st.sample(paper_problem(3), st.Network.complete(3), **options)


@pytest.mark.filterwarnings(SHOWN)
def test_a_run_is_saved_and_resumed(tmp_path):
    problem, network = paper_problem(4), st.Network.complete(4)
    options = {"method": "parametric", "draws": 500, "checkpoint": tmp_path / "run"}
    first = st.sample(problem, network, **options)
    again = st.sample(problem, network, **options, resume=True)
    assert (first.posterior["beta"].values == again.posterior["beta"].values).all()
    assert first.attrs["network_rounds"] == again.attrs["network_rounds"]


@pytest.mark.slow
@needs_mpi
def test_two_processes_have_the_same_draws():
    program = """
import numpy as np, warnings
import starlings as st
from starlings.runtime.mpi.cluster import Cluster
from tests.mpi import placed
from tests.problems import paper_problem
warnings.simplefilter("ignore", st.PosteriorWarning)
problem, network = paper_problem(5), st.Network.path(5)
with Cluster() as cluster:
    part, shared = placed(cluster, problem, network)
    for method in ("consensus", "semiparametric"):
        found = st.sample(part, shared, method=method, draws=250)
        assert (found is not None) == cluster.is_first
        if found is not None:
            alone = st.sample(problem, network, method=method, draws=250)
            one, other = (r.posterior["beta"].values for r in (found, alone))
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)
            assert found.attrs["network_rounds"] == alone.attrs["network_rounds"]
    print("the same")
"""
    done = mpi(2, "-c", program)
    assert done.stdout.count("the same") == 2, done.stderr


@pytest.mark.slow
def test_sites_with_one_row_each_pass_if_the_prior_is_proper():
    problem = unequal_linear_problem()
    network = st.Network.complete(problem.num_agents)
    result = st.sample(problem, network, method="consensus", draws=200, check=False)
    mean, covariance = problem.exact_posterior()
    (draws,) = (values.values for values in result.posterior.data_vars.values())
    z = (draws[:, :, 0].reshape(-1, 3).mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    assert np.abs(z).max() < 0.3

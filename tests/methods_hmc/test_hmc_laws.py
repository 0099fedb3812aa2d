"""The law of the draws of lock-step HMC, against closed forms, quadrature and calibration."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import optimize, special, stats

import starlings as st
from starlings.calibration import calibrate
from starlings.calibration.replications import BySums
from starlings.diagnostics.nested_rhat import recorded_superchains
from tests.problems import flat, logistic_rows, skewed_problem, unequal_linear_problem
from tests.quick import quick_cases

LEVELS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])
"""Probabilities whose quantiles are compared."""


def run(problem, **options):
    network = st.Network.path(problem.num_agents)
    return st.sample(problem, network, **{"method": "hmc", "progress": False, **options})


def at_one_agent(result, name):
    """Draws of a parameter at the first agent, (chain, draw, entry); all agents have the same."""
    values = result.posterior[name].values
    np.testing.assert_array_equal(values, np.repeat(values[:, :, :1], values.shape[2], axis=2))
    return values[:, :, 0].reshape(*values.shape[:2], -1)


def z_scores(values, expected):
    """Means of values (chain, draw, k) less what is expected, in Monte Carlo standard errors.

    Many chains tell the error by the spread of their means, few ones by autocorrelations.
    """
    chains = len(values)
    if chains >= 16:
        error = values.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(chains)
    else:
        error = array_stats.mcse(values, method="mean", chain_axis=0, draw_axis=1)
    return (values.mean(axis=(0, 1)) - expected) / error


def indicators(draws, quantiles):
    """Whether draws (chain, draw) are below each quantile, (chain, draw, quantile)."""
    return (draws[..., None] < quantiles).astype(float)


def products(draws, mean):
    """All products of two deviations from a known mean, (chain, draw, pair)."""
    deviations = draws - mean
    rows, columns = np.triu_indices(len(mean))
    return deviations[..., rows] * deviations[..., columns]


def quantiles_of(grid, log_density):
    """The quantiles at `LEVELS` of a density on an even grid."""
    weights = np.exp(log_density - log_density.max())
    below = np.cumsum(weights) - weights / 2
    return np.interp(LEVELS, below / weights.sum(), grid)


def assert_gaussian(problem, **options):
    draws = at_one_agent(result := run(problem, **options), next(iter(problem.parameters.blocks)))
    mean, covariance = problem.exact_posterior()
    expected = covariance[np.triu_indices(len(mean))]
    assert np.abs(z_scores(draws, mean)).max() < 4
    assert np.abs(z_scores(products(draws, mean), expected)).max() < 4
    return result


def skewed_quantiles():
    """Of the posterior of `skewed_problem`, by its potential on a grid."""
    grid = np.linspace(-12, 6, 20_001)
    with jax.enable_x64(True):
        pooled = jax.tree.map(lambda leaf: leaf[0], skewed_problem().pooled().agents())
        potentials = jax.jit(jax.vmap(pooled.potential))(jnp.asarray(grid)[:, None])
    return quantiles_of(grid, -np.asarray(potentials))


def test_moments_of_a_gaussian():
    result = assert_gaussian(unequal_linear_problem())
    assert result.attrs["method"] == "hmc"
    assert result.posterior.sizes["chain"] == 128


def test_chains_have_forgotten_their_start():
    """Nested R-hat is as in stationarity: eq. (6) of `nested_rhat` with a chi-square of 15."""
    result = run(unequal_linear_problem())
    table, labels = result.check().table, recorded_superchains(result.attrs)
    np.testing.assert_array_equal(np.bincount(labels), 8)
    draws = 8 * result.posterior.sizes["draw"]
    times = 16 * draws / np.minimum(table["ess_bulk"], 16 * draws)
    limit = np.sqrt(1 + stats.chi2.ppf(1 - 1e-5, 15) / 15 * times / draws)
    assert (table["rhat"] < np.maximum(limit, 1.01)).all()
    assert (table["ess"] >= 4000).all()


@pytest.mark.slow
def test_quantiles_of_a_skewed_posterior():
    draws = at_one_agent(run(skewed_problem()), "beta")[..., 0]
    assert np.abs(z_scores(indicators(draws, skewed_quantiles()), LEVELS)).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "draws"), [(1, 2000), (2, 1000), (4, 500), (16, 200)])
@pytest.mark.parametrize("seed", range(5))
def test_few_chains_are_right_as_well(chains, draws, seed):
    how = {"chains": chains, "draws": draws, "seed": seed, "check": False}
    result = assert_gaussian(unequal_linear_problem(), **how)
    assert dict(result.posterior.sizes)["chain"] == chains
    effective = array_stats.ess(at_one_agent(result, "beta"), chain_axis=0, draw_axis=1)
    assert effective.min() > 0.15 * chains * draws  # as many as of 128 chains
    skewed = at_one_agent(run(skewed_problem(), **how), "beta")[..., 0]
    assert np.abs(z_scores(indicators(skewed, skewed_quantiles()), LEVELS)).max() < 4


@pytest.mark.quick(1)
@pytest.mark.parametrize("dim", quick_cases([1, 2, 200], [1, 2]))
def test_any_number_of_parameters(dim):
    random = np.random.default_rng(dim)
    roots = random.normal(size=(3, dim, dim)) / np.sqrt(dim)
    hessians = roots @ roots.swapaxes(1, 2) + np.eye(dim) * np.linspace(1, 3, dim) / 3
    problem = st.models.gaussian(hessians, random.normal(size=(3, dim)))
    result = run(problem, draws=250)
    draws, (mean, covariance) = at_one_agent(result, "x"), problem.exact_posterior()
    scores = z_scores(draws, mean), z_scores((draws - mean) ** 2, np.diag(covariance))
    assert np.abs(scores).max() < stats.norm.ppf(1 - 1e-4 / (4 * dim))  # one in 10,000 of all


@pytest.mark.slow
def test_as_many_draws_are_effective_as_were_asked_for():
    """Also few ones, of which autocorrelations are hard to see; by the variance of chain means."""
    problem = st.models.gaussian(np.eye(50)[None].repeat(2, axis=0) / 2)
    draws = at_one_agent(run(problem, draws=100), "x")
    effective = 128 * draws.var(axis=(0, 1)) / draws.mean(axis=1).var(axis=0, ddof=1)
    assert effective.mean() > 400 * (1 - 4 * np.sqrt(2 / (127 * 50)))


# Eight schools: a hierarchical model whose random effects are scaled by their standard deviation

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def school(p, row):
    own = p["eta"][row["school"].astype(int)]
    return jax.scipy.stats.norm.logpdf(row["y"], p["mu"] + p["tau"] * own, row["se"])


def schools_prior(p):
    normal = jax.scipy.stats.norm.logpdf
    cauchy = jax.scipy.stats.cauchy.logpdf(p["tau"], 0, 5)
    return normal(p["mu"], 0, 5) + cauchy + jnp.sum(normal(p["eta"]))


def eight_schools():
    shards = [
        {"y": [y], "se": [se], "school": [float(j)]}
        for j, (y, se) in enumerate(zip(EFFECTS, ERRORS, strict=True))
    ]
    parameters = {"mu": (), "tau": st.Parameter((), "positive"), "eta": (8,)}
    return st.Problem(school, schools_prior, parameters, shards)


def schools_by_quadrature():
    """E mu, E theta_j and the quantiles of log tau; given tau all else is Gaussian.

    With v_j = se_j^2 + tau^2, y_j ~ N(mu, v_j); mu has the precision P = 1/25 + sum_j 1/v_j and the
    mean M = sum_j (y_j / v_j) / P; theta_j is the mean of y_j and mu weighted by tau^2 and se_j^2.
    """
    log_tau = np.linspace(-12, 6, 4001)
    tau = np.exp(log_tau)[:, None]
    v = ERRORS**2 + tau**2
    P = 1 / 25 + np.sum(1 / v, axis=1)
    M = np.sum(EFFECTS / v, axis=1) / P
    log_density = -0.5 * np.sum(np.log(v) + EFFECTS**2 / v, axis=1) - 0.5 * np.log(P) + P * M**2 / 2
    log_density += stats.cauchy.logpdf(tau[:, 0], 0, 5) + log_tau
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    theta = (tau**2 * EFFECTS + ERRORS**2 * M[:, None]) / v
    return weights @ M, weights @ theta, quantiles_of(log_tau, log_density)


@pytest.fixture(scope="module")
def schools_result():
    return run(eight_schools(), seed=3)


@pytest.mark.slow
def test_eight_schools_have_the_moments_of_quadrature(schools_result):
    mean, effects, quantiles = schools_by_quadrature()
    mu, tau, eta = (at_one_agent(schools_result, name) for name in ("mu", "tau", "eta"))
    assert np.abs(z_scores(mu, mean)).max() < 4
    assert np.abs(z_scores(mu + tau * eta, effects)).max() < 4
    log_tau = np.log(tau[..., 0])
    assert np.abs(z_scores(indicators(log_tau, quantiles), LEVELS)).max() < 4


@pytest.mark.slow
def test_eight_schools_have_converged(schools_result):
    check = schools_result.check()
    assert (check.table["rhat"] < 1.01).all()
    assert schools_result.attrs["divergent_share"] < 0.01


# Posteriors without a mode


def many_effects(p, row):
    """Eight numbers x ~ N(0, exp(-y)), of which every agent has some."""
    x = p["x"][row["place"].astype(int)]
    return row["share"] * (0.5 * p["y"] - 0.5 * x**2 * jnp.exp(p["y"]))


def logistic_prior(p):
    """y has the logistic distribution of scale 0.3: with x = 0, exp(4 y) grows faster."""
    y = p["y"] / 0.3
    return -jnp.abs(y) - 2 * jnp.log1p(jnp.exp(-jnp.abs(y)))


def unbounded_problem():
    """A density that grows without end for x = 0 and large y, where there is no mass."""
    shards = [{"place": [float(j), j + 1.0], "share": [1.0, 1.0]} for j in range(0, 8, 2)]
    return st.Problem(many_effects, logistic_prior, {"x": (8,), "y": ()}, shards)


@pytest.mark.slow
def test_a_posterior_without_a_mode_is_sampled_by_hmc(capsys):
    result = run(unbounded_problem(), method="auto", progress=True)
    assert "method 'hmc': no mode was found" in capsys.readouterr().err
    assert result.attrs["method"] == "hmc"
    y, x = at_one_agent(result, "y"), at_one_agent(result, "x")
    quantiles = 0.3 * special.logit(LEVELS)
    assert np.abs(z_scores(indicators(y[..., 0], quantiles), LEVELS)).max() < 4
    assert np.abs(z_scores(x**2 * np.exp(y), np.ones(8))).max() < 4
    assert np.abs(z_scores(x, np.zeros(8))).max() < 4


# Seeds: random effects whose precision has a vague prior, so that the mode is far from the mass

GERMINATED = [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3]
SOWN = [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7]
SEED = np.repeat([0.0, 1.0], [11, 10])
ROOT = np.repeat([0.0, 1.0, 0.0, 1.0], [5, 6, 5, 5])
DESIGN = np.column_stack([np.ones(21), SEED, ROOT, SEED * ROOT])


def plate(p, row):
    eta = row["x"] @ p["alpha"] + p["b"][row["plate"].astype(int)]
    return row["r"] * eta - row["n"] * jnp.logaddexp(0.0, eta)


def vague_prior(p):
    """alpha ~ N(0, 1000^2), tau ~ gamma(0.001, 0.001), b ~ N(0, 1 / tau)."""
    tau, effects = p["tau"], p["b"]
    prior = -0.5 * jnp.sum((p["alpha"] / 1000) ** 2) - 0.999 * jnp.log(tau) - 0.001 * tau
    return prior + 10.5 * jnp.log(tau) - 0.5 * tau * jnp.sum(effects**2)


def seeds_problem():
    columns = {"r": np.array(GERMINATED, float), "n": np.array(SOWN, float), "x": DESIGN}
    columns["plate"] = np.arange(21.0)
    shards = [{name: column[i::7] for name, column in columns.items()} for i in range(7)]
    parameters = {"alpha": (4,), "b": (21,), "tau": st.Parameter((), "positive")}
    return st.Problem(plate, vague_prior, parameters, shards)


class SeedsByQuadrature:
    """Draws of the seeds posterior, weighted, from its exact factors.

    On a grid of log tau; given it, alpha from a Gaussian approximation with importance weights, the
    effects b summed over a grid of z = b sqrt(tau); given both, b from that grid.
    """

    Z = np.linspace(-7, 7, 141)
    GRID = np.linspace(-1.5, 11.5, 105)
    POINTS = 256

    def __init__(self):
        r, n = np.array(GERMINATED, float)[:, None], np.array(SOWN, float)[:, None]
        prior = -0.5 * self.Z**2 - special.logsumexp(-0.5 * self.Z**2)
        normal = special.ndtri(stats.qmc.Sobol(4, rng=np.random.default_rng(0)).random(self.POINTS))
        mode, found, random = np.array([-0.5, 0.1, 1.3, -0.8]), [], np.random.default_rng(1)

        def terms(alpha, deviation):
            eta = (alpha @ DESIGN.T)[..., None] + deviation * self.Z
            return r * eta - n * np.logaddexp(0, eta) + prior

        def log_density(alpha, deviation):
            likelihood = special.logsumexp(terms(alpha, deviation), axis=-1).sum(axis=-1)
            return likelihood - 0.5 * np.sum((alpha / 1000) ** 2, axis=-1)

        for log_tau in self.GRID:
            deviation = np.exp(-log_tau / 2)
            fit = optimize.minimize(lambda a, s=deviation: -log_density(a, s), mode)
            mode, root = fit.x, 1.2 * np.linalg.cholesky(fit.hess_inv)
            alpha = mode + normal @ root.T
            weights = log_density(alpha, deviation) + 0.5 * np.sum(normal**2, axis=1)
            weights += np.log(np.diag(root)).sum() + 0.001 * log_tau - 0.001 * np.exp(log_tau)
            logits = terms(alpha, deviation)
            gumbel = random.gumbel(size=logits.shape)
            effects = deviation * self.Z[np.argmax(logits + gumbel, axis=-1)]
            tau = np.full((self.POINTS, 1), log_tau)
            found.append(np.column_stack([alpha, effects, tau, weights]))
        whole = np.concatenate(found)
        self.values = whole[:, :-1]
        self.weights = np.exp(whole[:, -1] - special.logsumexp(whole[:, -1]))

    def w2(self, draws):
        """The Wasserstein distance of draws (draw, k) from each marginal, in its sd."""
        places = (np.arange(4000) + 0.5) / 4000
        found = []
        for own, reference in zip(draws.T, self.values.T, strict=True):
            order = np.argsort(reference)
            below = np.cumsum(self.weights[order]) - self.weights[order] / 2
            exact = np.interp(places, below, reference[order])
            apart = np.quantile(own, places) - exact
            found.append(np.sqrt(np.mean(apart**2)) / exact.std())
        return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_seeds_are_sampled_by_hmc_as_by_quadrature(seed):
    """The mode has tau = 10,500, and the posterior tau = 13: chains have a long way to go."""
    result = run(seeds_problem(), method="auto", seed=seed, check=False)
    assert result.attrs["method"] == "hmc"
    assert result.attrs["effective_draws"] > 800  # it is ended before the 4,000 that it aims at
    alpha, b, tau = (at_one_agent(result, name) for name in ("alpha", "b", "tau"))
    draws = np.concatenate([alpha, b, np.log(tau)], axis=2).reshape(-1, 26)
    assert SeedsByQuadrature().w2(draws).max() < 0.1


@pytest.mark.slow
def test_posteriors_are_calibrated():
    """Ranks of true values among draws are uniform, over 150 simulated data sets."""
    X, y, sites = logistic_rows(60)
    problem = st.models.logistic_regression(X, y, sites, prior_std=1.0, intercept=False)
    network = st.Network.ring(problem.num_agents)
    simulate = partial(st.models.simulate, problem)
    found = calibrate(simulate, network, BySums("hmc"), replications=150)
    assert (found.ranks == found.ranks.isel(agent=0)).all()
    assert float(found.p_values.min()) > 0.01 / 3, found.verdict  # three parameters; one test each


def half_line(p, row):
    """N(1, 1) above zero, and undefined below it, by the square root."""
    return 0 * jnp.sqrt(p["x"]) - 0.5 * row["share"] * (p["x"] - 1) ** 2


def test_a_posterior_that_ends_abruptly():
    """Trajectories that leave the support are refused, and the rest has the right law."""
    problem = st.Problem(half_line, flat, {"x": ()}, [{"share": [0.5]}, {"share": [0.5]}])
    draws = at_one_agent(run(problem, check=False), "x")[..., 0]
    quantiles = stats.truncnorm(-1, np.inf, loc=1).ppf(LEVELS)
    assert np.abs(z_scores(indicators(draws, quantiles), LEVELS)).max() < 4

"""Local parameters that every site integrates out: potentials, laws, runtimes, and refusals."""

from __future__ import annotations

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import starlings as st
from starlings.errors import CandidateError, InterruptedWarning, LocalParametersError
from starlings.methods import marginal
from starlings.methods.marginal import OwnDraws, integrated, quadrature_error
from starlings.network.gossip import Gossip
from starlings.sampling import by_quadrature, by_weights
from starlings.sampling.by_quadrature import is_affordable
from starlings.solvers.marginal import MarginalAgent
from tests.local.problems import (
    LOCAL_SD,
    PRIOR_SD,
    gaussian_problem,
    joint_draws,
    joint_posterior,
    sites_rows,
)
from tests.mpi import mpi, needs_mpi

NODES = 41


SIZES = (20, 15, 12, 30)


def run(problem=None, **options) -> st.Result:
    problem = gaussian_problem(SIZES) if problem is None else problem
    network = options.pop("network", st.Network.path(problem.num_agents))
    return st.sample(problem, network, **{"progress": False, "check": False, **options})


def count_problem() -> st.Problem:
    """Poisson counts, with an intercept of every site."""
    random, shards = np.random.default_rng(4), {}
    for site, size in enumerate((1, 4, 9)):
        counts = random.poisson(np.exp(0.5 + 0.8 * random.normal()), size=size)
        shards[f"site {site}"] = {"y": counts.astype(float)}
    parameters = {"mean": (), "sd": st.Parameter((), "positive"), "z": st.Parameter((), local=True)}
    return st.Problem(
        lambda p, row: row["y"] * (eta := p["mean"] + p["sd"] * p["z"]) - jnp.exp(eta),
        lambda p: -0.5 * p["mean"] ** 2 - p["sd"],
        parameters,
        shards,
        local_prior=lambda p: -0.5 * p["z"] ** 2,
    )


def log_conditional(problem, site, x, z):
    """Minus the potential of one site of `count_problem`, typed in."""
    mean, sd, y = x[0], np.exp(x[1]), problem.shards[f"site {site}"]["y"]
    eta, prior = mean + sd * z, (-0.5 * mean**2 - sd + x[1]) / 3
    return y.sum() * eta - len(y) * np.exp(eta) - 0.5 * z**2 + prior


# Potentials


def test_the_potential_of_a_gaussian_problem_is_its_closed_form():
    """The rows of a site are N(X beta, I + X S X'); two nodes are exact, and so are derivatives."""
    problem, beta = gaussian_problem(SIZES), np.array([0.3, -0.8])
    shared = integrated(problem, 2)
    found = shared.potentials(beta)
    for rows, value in zip(problem.shards.values(), found, strict=True):
        count = len(rows["y"])
        covariance = np.eye(count) + rows["x"] @ np.diag(LOCAL_SD**2) @ rows["x"].T
        log_density = stats.multivariate_normal(rows["x"] @ beta, covariance).logpdf(rows["y"])
        constant = count / 2 * np.log(2 * np.pi) + np.log(2 * np.pi * np.prod(LOCAL_SD))
        expected = -log_density - constant + 0.5 * np.sum((beta / PRIOR_SD) ** 2) / 4
        assert value == pytest.approx(expected, rel=1e-12)
    _, covariance = joint_posterior(SIZES)
    hessian = shared.hessians(beta).sum(axis=0)
    np.testing.assert_allclose(hessian, np.linalg.inv(covariance[:2, :2]), rtol=1e-10)


@pytest.mark.parametrize("x", [[0.4, -0.3], [-1.0, 1.0]])
def test_the_potential_is_an_integral(x):
    """Of a problem that is not Gaussian, by SciPy."""
    problem = count_problem()
    for site, value in enumerate(integrated(problem, NODES).potentials(x)):
        total, _ = integrate.quad(
            lambda z, s=site: np.exp(log_conditional(problem, s, x, z)),
            -9, 9, epsabs=0, epsrel=1e-12, limit=200, points=[0.0],
        )  # fmt: skip
        assert value == pytest.approx(-np.log(total), abs=1e-8)


def test_gradients_are_differences_of_potentials():
    """In other coordinates, too, and as they are computed for chains."""
    with jax.enable_x64(True):
        moved = integrated(count_problem(), NODES).affine([0.1, 0.2], [0.5, 1.2])
        agents, z, step = moved.agents(), np.array([0.2, -0.4]), 1e-5
        values, slopes = jax.vmap(lambda agent: agent.value_and_gradient(z))(agents)
    np.testing.assert_allclose(values, moved.potentials(z), rtol=1e-12)
    for k, unit in enumerate(step * np.eye(2)):
        difference = (moved.potentials(z + unit) - moved.potentials(z - unit)) / (2 * step)
        np.testing.assert_allclose(slopes[:, k], difference, atol=1e-6)


def test_more_nodes_tell_the_error_of_few(monkeypatch):
    problem = count_problem()
    network = st.Network.path(3).matched_to(problem.sites)
    points = np.array([[0.5, 1.0], [0.0, -0.5]])
    with jax.enable_x64(True):
        gossip = Gossip(network)
        found = [quadrature_error(problem, gossip, points, nodes) for nodes in (5, 9)]
        exact = integrated(problem, NODES)
        for nodes, error in zip((5, 9), found, strict=True):
            few = integrated(problem, nodes)
            true = max(abs(few.potential(x) - exact.potential(x)) for x in points)
            assert error == pytest.approx(true, rel=0.5)
        monkeypatch.setattr(marginal, "SMALL_ERROR", 0.5 * found[0])
        assert marginal.surveyed(problem, gossip, points) == (9, problem.num_rows.sum())
    assert found[1] < 0.1 * found[0]


# Draws of local parameters


def test_local_draws_have_the_conditional_law():
    """Given the shared parameters, by the distribution function, numerically."""
    problem, x, draws = count_problem(), np.array([0.5, 0.7]), 4000
    with jax.enable_x64(True):
        gossip = Gossip(st.Network.path(3).matched_to(problem.sites))
        own = OwnDraws.of(problem, gossip, 3, draws)
        found = own.completed(np.tile(x, (draws, 1)), 7)
        again = own.completed(np.tile(x, (draws, 1)), 8)
    np.testing.assert_array_equal(found[..., :2], np.broadcast_to(x, (draws, 3, 2)))
    assert not np.any(found[..., 2] == again[..., 2])
    grid = np.linspace(-9, 9, 20001)
    for site in range(3):
        density = np.exp(log_conditional(problem, site, x, grid))
        mass = integrate.cumulative_simpson(density, x=grid, initial=0)
        ranks = np.interp(found[:, site, 2], grid, mass / mass[-1])
        assert stats.kstest(ranks, "uniform").pvalue > 1e-4


# The law of whole runs


@pytest.fixture(scope="module")
def weighted():
    return run(chains=4, draws=1000)


def test_weights_have_the_moments_of_the_joint_posterior(weighted):
    (mean, covariance), draws = joint_posterior(SIZES), joint_draws(weighted).reshape(4000, -1)
    assert weighted.attrs["method"] == "weights"
    assert weighted.attrs["quadrature_error"] < 1e-9
    deviations = (draws - mean) / np.sqrt(np.diag(covariance))
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.abs(deviations.mean(axis=0)).max() < 4.5 / np.sqrt(4000)
    assert np.abs(deviations.T @ deviations / 4000 - correlation).max() < 4.5 * np.sqrt(2 / 4000)


def test_the_evidence_is_that_of_the_joint_posterior(weighted):
    """Of the densities as they are written, without constants."""
    mean, covariance = joint_posterior(SIZES)
    problem = gaussian_problem(SIZES).pooled()
    least = problem.potential(mean)
    expected = -least + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    error = weighted.attrs["log_evidence_error"]
    assert weighted.attrs["log_evidence"] == pytest.approx(expected, abs=5 * error + 1e-6)


def test_nothing_of_local_parameters_is_sent(weighted):
    kinds = json.loads(weighted.attrs["disclosed"])
    assert kinds["draws of the site's own parameters, in the result"] == 4000 * 2
    assert kinds["potentials at shared candidates"] == 8192 + 2
    assert kinds["differences between two quadratures at draws"] == 64 * 5
    assert weighted.attrs["network_rounds"] < 60


@pytest.mark.slow
def test_hmc_has_the_moments_of_the_joint_posterior():
    (mean, covariance), result = (
        joint_posterior(SIZES),
        run(method="marginal-hmc", chains=64, draws=100),
    )
    deviations = (joint_draws(result) - mean) / np.sqrt(np.diag(covariance))
    rows, columns = np.triu_indices(len(mean))
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    products = deviations[..., rows] * deviations[..., columns] - correlation[rows, columns]
    for values in (deviations, products):
        by_chain = values.mean(axis=1)
        error = by_chain.std(axis=0, ddof=1) / 8
        assert np.abs(by_chain.mean(axis=0) / error).max() < 4.5  # of 65 numbers
    assert result.attrs["quadrature_error"] < 1e-9
    assert result.check().ok


# Runtimes


def test_masked_runs_have_the_same_draws(weighted):
    """But for candidates that rounding exchanges: masks hold numbers to some decimal places."""
    masked = run(privacy="totals", chains=4, draws=1000).posterior["u"]
    same = np.isclose(masked, weighted.posterior["u"], atol=1e-6).all(axis=(2, 3))
    assert same.mean() > 0.98


@pytest.mark.slow
def test_a_run_that_is_interrupted_goes_on(tmp_path, monkeypatch):
    """Weights after their candidates, and HMC among its draws."""
    kept, whole = {"checkpoint": tmp_path / "run"}, run(chains=4, draws=50)
    with monkeypatch.context() as broken:
        broken.setattr(by_weights, "run_weights", None)
        broken.setattr("starlings.sampling.automatic.run_weights", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(chains=4, draws=50, **kept)
    found = run(chains=4, draws=50, **kept, resume=True)
    assert found.posterior.identical(whole.posterior)
    assert found.attrs["network_rounds"] == whole.attrs["network_rounds"]

    options = {"method": "marginal-hmc", "chains": 8, "draws": 20}
    whole, plain, made = run(**options), OwnDraws.completed, []

    def counted(self, x, number):
        made.append(number)
        if len(made) == 12:
            raise KeyboardInterrupt
        return plain(self, x, number)

    kept = {"checkpoint": tmp_path / "hmc", "checkpoint_every": 100}
    with monkeypatch.context() as broken:
        broken.setattr(OwnDraws, "completed", counted)
        with pytest.warns(InterruptedWarning):
            run(**options, **kept)
    found = run(**options, **kept, resume=True)
    assert found.posterior.identical(whole.posterior)
    assert found.attrs["network_rounds"] == whole.attrs["network_rounds"]


def _interrupted(*arguments):
    raise KeyboardInterrupt


@pytest.mark.slow
@needs_mpi
def test_two_processes_have_the_same_draws():
    program = """
import numpy as np
from starlings.runtime.mpi.cluster import Cluster
from tests.local.problems import gaussian_problem
from tests.local.test_marginal import SIZES
from tests.local.test_marginal import run
from tests.mpi import placed
import starlings as st
with Cluster() as cluster:
    problem = gaussian_problem(SIZES)
    part, shared = placed(cluster, problem, st.Network.path(4))
    for method in ("auto", "marginal-hmc"):
        found = run(part, network=shared, method=method, draws=10, chains=8)
        if found is not None:
            alone = run(problem, method=method, draws=10, chains=8)
            for name, values in found.posterior.items():
                np.testing.assert_allclose(values, alone.posterior[name], rtol=0, atol=1e-8)
            for name in ("network_rounds", "bytes_sent"):
                assert found.attrs[name] == alone.attrs[name], name
            print("the same")
"""
    done = mpi(2, "-c", program)
    assert done.stdout.count("the same") == 2, done.stderr


# Choices and refusals


def test_integrals_are_made_as_long_as_they_take_minutes():
    network = SimpleNamespace(communicator=SimpleNamespace(size=2))
    asked = SimpleNamespace(problem=SimpleNamespace(num_local=2), network=network)
    found = SimpleNamespace(request=asked, choice={"rows": 1000}, nodes=5)
    most = 2 * marginal.MOST_EVALUATIONS / (1000 * 5**2)
    assert is_affordable(found, 0.999 * most)
    assert not is_affordable(found, 1.001 * most)


@pytest.mark.slow
def test_integrals_that_would_take_long_are_left_to_joint_hmc(monkeypatch):
    monkeypatch.setattr(by_quadrature, "MOST_EVALUATIONS", 0)
    assert run(method="auto", draws=2, chains=4).attrs["method"] == "hmc"


@pytest.mark.slow
def test_rough_integrals_are_refused_and_left_to_joint_hmc(monkeypatch):
    monkeypatch.setattr(marginal, "quadrature_errors", lambda *arguments: [5.0])
    with pytest.raises(CandidateError, match=r"by up to 5 nats.*method=\"hmc\""):
        run(method="weights", draws=50)
    result = run(method="auto", draws=2, chains=4)
    assert result.attrs["method"] == "hmc"
    rough = run(method="marginal-hmc", draws=2, chains=4)
    assert "Rough integrals" in str(rough.check())


def test_methods_that_cannot_integrate_are_refused():
    rows = sites_rows((3, 5))
    many = st.Problem(
        lambda p, row: -0.5 * (row["y"] - p["b"] - p["u"].sum()) ** 2,
        lambda p: -0.5 * p["b"] ** 2,
        {"b": (), "u": st.Parameter((4,), local=True)},
        rows,
        local_prior=lambda p: -0.5 * jnp.sum(p["u"] ** 2),
    )
    for method in ("weights", "marginal-hmc"):
        with pytest.raises(LocalParametersError, match=r"more than 3 of them .*method='auto'"):
            run(many, method=method)
    with pytest.raises(ValueError, match="none is local here; take method='hmc'"):
        run(many.pooled(), network=st.Network.no_edges(1), method="marginal-hmc")


def test_an_agent_without_a_minimum_is_still_defined():
    """The quadrature is rough there, and its error is seen."""
    with jax.enable_x64(True):
        agents = integrated(count_problem(), NODES).agents()
        assert isinstance(agents, MarginalAgent)
        near = jax.vmap(lambda agent: agent.near(jnp.array([1e4, 0.0])))(agents)
        assert np.isfinite(np.asarray(near.root)).all()

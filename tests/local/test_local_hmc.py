"""Lock-step HMC with local parameters: its equations, its law, and what leaves the sites."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag

import starlings as st
from starlings.comparison.site_likelihood import local_vectors, log_likelihood_blocks
from starlings.errors import InterruptedWarning
from starlings.methods.hierarchical import HierarchicalChains
from starlings.methods.lockstep import shared_keys
from starlings.methods.nuts import pooled_nuts
from starlings.network.gossip import Gossip
from starlings.sampling.private import private_network
from starlings.tuning.tuner import Coordinates
from tests.local.problems import (
    SIZES,
    gaussian_problem,
    joint_draws,
    joint_posterior,
    logistic_problem,
)
from tests.mpi import mpi, needs_mpi

CHAINS, DRAWS = 64, 100


def run(problem=None, **options) -> st.Result:
    problem = gaussian_problem() if problem is None else problem
    network = options.pop("network", st.Network.path(problem.num_agents))
    how = {"method": "hmc", "chains": CHAINS, "draws": DRAWS, "progress": False, "check": False}
    return st.sample(problem, network, **{**how, **options})


@pytest.fixture(scope="module")
def whole():
    return run()


# Equations


def energy(joint):
    """-log of the joint posterior of the Gaussian problem, up to a constant, and its gradient."""
    mean, covariance = joint_posterior()
    slope = np.linalg.solve(covariance, joint - mean)
    return 0.5 * (joint - mean) @ slope, slope


def test_leapfrogs_are_those_of_the_joint_posterior():
    """In the coordinates of the sites, with all local momenta; and so is the energy."""
    with jax.enable_x64(True):
        problem, random, step = gaussian_problem(), np.random.default_rng(0), 0.3
        scale = np.array([[0.3, 0.0], [0.1, 0.4]])
        gossip = Gossip(st.Network.path(4).matched_to(problem.sites))
        where = Coordinates(np.array([0.2, -0.5]), scale)
        chains = HierarchicalChains.at_sites(problem, gossip, where, 3, 2)
        keys, metric = shared_keys(3, 2), np.array([[0.9, 0.0], [0.2, 1.1]])
        phase = chains.begun(jnp.asarray(random.normal(size=(2, 2))))
        before = chains.refreshed(phase, keys, 1)
        after = chains.leapfrogs(3, before, step, jnp.asarray(metric))
        frames, before, after = jax.device_get((chains.sites.frame, before, after))
        energies = np.asarray(after.energy - before.energy)
    A = block_diag(metric, np.eye(8))
    M, centre = block_diag(scale, *frames.scale[:, 2:, 2:]), np.empty(10)
    centre[:2] = where.centre
    for i in range(4):
        own = slice(2 + 2 * i, 4 + 2 * i)
        M[own, :2], centre[own] = frames.scale[i, 2:, :2], frames.centre[i, 2:]
    for c in range(2):
        v = np.append(before.position[c], np.ravel(before.own.position[c]))
        p = np.append(before.momentum[c], np.ravel(before.own.momentum[c]))
        start = energy(centre + M @ v)[0] + p @ p / 2
        for _ in range(3):
            p = p - step / 2 * A.T @ M.T @ energy(centre + M @ v)[1]
            v = v + step * A @ p
            p = p - step / 2 * A.T @ M.T @ energy(centre + M @ v)[1]
        found = np.append(after.position[c], np.ravel(after.own.position[c]))
        np.testing.assert_allclose(found, v, atol=1e-10)
        error = energy(centre + M @ v)[0] + p @ p / 2 - start
        assert energies[c] == pytest.approx(error, abs=1e-9)


def test_shared_and_local_parameters_are_independent_in_the_coordinates_of_the_sites():
    """Of a Gaussian posterior, exactly: the Hessian there is the identity."""
    with jax.enable_x64(True):
        problem = gaussian_problem()
        gossip = Gossip(st.Network.complete(4).matched_to(problem.sites))
        _, covariance = joint_posterior()
        where = Coordinates(np.zeros(2), np.linalg.cholesky(covariance[:2, :2]))
        frames = HierarchicalChains.at_sites(problem, gossip, where, 0, 1).sites.frame
    scales = np.asarray(frames.scale)
    M = block_diag(scales[0, :2, :2], *scales[:, 2:, 2:])
    M[2:, :2] = scales[:, 2:, :2].reshape(-1, 2)
    np.testing.assert_allclose(M.T @ np.linalg.solve(covariance, M), np.eye(10), atol=1e-8)


# The law


def test_moments_of_the_joint_posterior(whole):
    """Means, variances and covariances, of shared and local parameters, in standard errors."""
    (mean, covariance), draws = joint_posterior(), joint_draws(whole)
    rows, columns = np.triu_indices(len(mean))
    deviations = draws - mean
    products = deviations[..., rows] * deviations[..., columns] - covariance[rows, columns]
    for values in (deviations, products):
        by_chain = values.mean(axis=1)
        error = by_chain.std(axis=0, ddof=1) / np.sqrt(CHAINS)
        assert np.abs(by_chain.mean(axis=0) / error).max() < 4.5  # of 65 numbers


@pytest.mark.slow
@pytest.mark.parametrize(("sites", "method"), [(6, "hmc"), (6, "auto"), (50, "hmc")])
def test_a_logistic_posterior_is_that_of_pooled_nuts(sites, method):
    problem = logistic_problem(sites)
    result = run(
        problem, network=st.Network.complete(sites), method=method, chains=None, draws=1000
    )
    assert result.attrs["method"] != "auto"
    with jax.enable_x64(True):
        check = result.check(pooled_nuts(problem, 2000, 4, seed=1))
    assert check.against_reference["w2"].max() < 0.08
    assert (check.table["rhat"] < 1.02).all()


# The result


def test_a_local_parameter_has_a_row_for_each_site(whole):
    assert whole.posterior["u"].dims == ("chain", "draw", "agent", "u_dim_0")
    table = whole.summary()
    mean, _ = joint_posterior()
    names = [f"u[site {i}, {k}]" for i in range(len(SIZES)) for k in ("base", "slope")]
    assert list(table.index) == ["beta[0]", "beta[1]", *names]
    assert (np.abs(table["mean"] - mean) < 5 * table["mcse"]).all()
    assert table["mean_range"].isna().tolist() == [False] * 2 + [True] * 8
    check = whole.check()
    assert check.table.loc["beta[0]", "mean_range"] == 0
    assert "disagree" not in str(check)


def test_nothing_of_local_parameters_is_sent(whole):
    """A sum has two numbers and the shared gradient of each chain, and one more."""
    chains, each = json.loads(whole.attrs["disclosed"]), CHAINS * (2 + 2) + 1
    starts = 8 * 16 * (2 + 2) + 1
    sent = chains["potentials, gradients and kinetic energies along trajectories"]
    assert sent > starts
    assert (sent - starts) % each == 0
    assert chains["draws of the site's own parameters, in the result"] == CHAINS * DRAWS * 2
    others = {kind for kind in chains if "result" not in kind and "checksum" not in kind}
    assert others == {
        "limits of its guard rails",
        "derivatives",
        "potentials, gradients and kinetic energies along trajectories",
    }


def test_rows_are_examined_with_the_parameters_of_their_site(whole):
    """As for leave-one-out cross-validation: log-likelihoods at the draws of the site's agent."""
    problem, network = gaussian_problem(), st.Network.path(4)
    vectors = local_vectors(problem, network, whole)
    for site, rows in problem.shards.items():
        found = np.concatenate(list(log_likelihood_blocks(problem, site, vectors[site][:, :3])))
        draws = whole.posterior.sel(agent=site).isel(draw=slice(0, 6, 2))  # 4000 of 6400
        coefficients = (draws["beta"].values + draws["u"].values).reshape(-1, 2)
        expected = -0.5 * (rows["y"][:, None] - rows["x"] @ coefficients.T) ** 2
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_site_that_is_absent_takes_its_parameters_along():
    problem, network = gaussian_problem(), st.Network.path(4)
    fewer, smaller = st.without(problem, network, ["site 3"])
    expected = joint_posterior(SIZES[:3])
    mean, covariance = fewer.pooled().exact_posterior()
    np.testing.assert_allclose(mean, expected[0], atol=1e-10)
    np.testing.assert_allclose(covariance, expected[1], atol=1e-10)
    assert smaller.names == ["site 0", "site 1", "site 2"]


# Runtimes


def test_masked_sums_have_the_same_leapfrogs():
    problem = gaussian_problem((20, 15, 12, 30))
    plain = st.Network.path(4).matched_to(problem.sites)
    found = []
    with jax.enable_x64(True):
        for network in (plain, private_network(problem, plain, "totals")):
            chains = HierarchicalChains.at_sites(problem, Gossip(network), None, 0, 3)
            phase = chains.refreshed(chains.begun(jnp.ones((3, 2))), shared_keys(0, 3), 1)
            after = chains.leapfrogs(2, phase, 0.1, jnp.ones(2))
            found.append(jax.tree.leaves(jax.device_get((after, after.energy))))
    for masked, sent in zip(*found, strict=True):
        np.testing.assert_allclose(masked, sent, atol=1e-6)


def test_a_run_that_is_interrupted_anywhere_goes_on(tmp_path, monkeypatch, whole):
    """In the warm-up and among the draws, from a checkpoint within a trajectory."""
    plain, made = HierarchicalChains.leapfrogs, []
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 42}

    def counted(self, number, *arguments):
        if len(made) in (40, 200):
            made.append(0)
            raise KeyboardInterrupt
        made.append(number)
        return plain(self, number, *arguments)

    monkeypatch.setattr(HierarchicalChains, "leapfrogs", counted)
    with pytest.raises(KeyboardInterrupt):
        run(**kept)
    with pytest.warns(InterruptedWarning):
        run(**kept, resume=True)
    found = run(**kept, resume=True)
    assert found.posterior.identical(whole.posterior)
    assert found.attrs["network_rounds"] == whole.attrs["network_rounds"]


@pytest.mark.slow
@needs_mpi
def test_two_processes_have_the_same_draws():
    program = """
import numpy as np
from starlings.runtime.mpi.cluster import Cluster
from tests.local.problems import gaussian_problem
from tests.local.test_local_hmc import run
from tests.mpi import placed
import starlings as st
with Cluster() as cluster:
    problem = gaussian_problem()
    part, shared = placed(cluster, problem, st.Network.path(4))
    found = run(part, network=shared, draws=10)
    if found is not None:
        alone = run(problem, draws=10)
        for name, values in found.posterior.items():
            np.testing.assert_allclose(values, alone.posterior[name], rtol=0, atol=1e-8)
        for name in ("network_rounds", "bytes_sent"):
            assert found.attrs[name] == alone.attrs[name], name
        print("the same")
"""
    done = mpi(2, "-c", program)
    assert done.stdout.count("the same") == 1, done.stderr


@pytest.mark.slow
def test_chains_start_where_they_are_told():
    """Values of the shared parameters are enough."""
    result = run(initial={"beta": [0.5, -1.0]}, chains=4, draws=2)
    assert np.isfinite(joint_draws(result)).all()

"""D-ADMMS with local parameters: its equations, and its exact law on a Gaussian."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.errors import LocalParametersError
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.theory import law
from tests.local.problems import gaussian_problem, joint_posterior, logistic_problem

ROUNDS, SEED, RHO = 3, 7, 0.8
GRAPHS = {"path": st.Network.path(4), "star": st.Network.star(4)}
SAMPLERS = {
    f"{noise}, {output}": st.DADMMS(RHO, noise, output)
    for noise in ("coherent", "private", "paper")
    for output in ("half-noise", "iterate")
}
CHAINS, LIMIT = 1500, 5.3
"""Chains of a simulation, and the z-score that one of some 500 exceeds once in 20,000 tests."""


def simulated(problem, network, sampler, rounds, chains, start=None):
    """Positions (chain, agent, dim) after some rounds, from N(0, I) or a start."""
    with jax.enable_x64(True):
        if start is None:
            start = np.random.default_rng(1).normal(size=(chains, 4, problem.dim))
        agents = problem.agents(network.matched_to(problem.sites))
        run = (sampler, agents, network.matched_to(problem.sites), jax.numpy.asarray(start))
        return loop.run(*run, SEED, Schedule(1, 0, rounds)).joined().position[0], start


def noises(shared, local):
    """Noise of rounds 1, 2, ... of chain 0: that all share, and private of every agent."""
    keys, common = chain_keys(SEED, 1, 4)
    rounds = [[Round(k, keys[0, i], common[0]) for i in range(4)] for k in range(1, ROUNDS + 2)]
    like = jax.ShapeDtypeStruct((shared,), float), jax.ShapeDtypeStruct((shared + local,), float)
    w = np.array([[r.shared_noise(like[0]) for r in each] for each in rounds])
    return w, np.array([[r.private_noise(like[1]) for r in each] for each in rounds])


def transcribed(problem, network, noise, z):
    """Eqs. (1) to (5) of `local_proximal`, agent by agent, with the local noise of each round."""
    with jax.enable_x64(True):
        w, private = noises(2, 2)
    quadratic, near = problem.quadratic, [list(network.graph.adj[i]) for i in range(4)]
    degrees = np.array([len(each) for each in near])
    x, u, p = z[:, :2].copy(), z[:, 2:].copy(), np.zeros((4, 2))
    h = 1 / (2 * RHO * degrees.sum())
    scale = {
        "coherent": 2 * degrees * np.sqrt(RHO / degrees.sum()),
        "private": 2 * np.sqrt(RHO * degrees),
        "paper": np.sqrt(2) * degrees,
    }[noise]
    n = scale[:, None] * (w if noise == "coherent" else private[..., :2])
    for k in range(ROUNDS):
        after = np.empty((4, 4))
        for i in range(4):
            target = RHO * sum(x[i] + x[j] for j in near[i]) - p[i] - n[k, i]
            pull = u[i] + np.sqrt(2 * h) * private[k, i, 2:]
            K = quadratic.hessian[i] + np.diag([2 * RHO * degrees[i]] * 2 + [1 / h] * 2)
            right = np.asarray(quadratic.linear[i]) + np.append(target, pull / h)
            after[i] = np.linalg.solve(K, right)
        x, u = after[:, :2], after[:, 2:]
        p = p + RHO * np.array([sum(x[i] - x[j] for j in near[i]) for i in range(4)])
    half = n[ROUNDS] / (4 * RHO * degrees[:, None]), np.sqrt(2 * h) * private[ROUNDS, :, 2:] / 2
    return np.hstack([x, u]), np.hstack([x - half[0], u + half[1]])


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_rounds_are_those_of_the_equations(sampler):
    problem, network = gaussian_problem(), GRAPHS["star"]
    found, start = simulated(problem, network, sampler, ROUNDS, 1)
    iterate, half = transcribed(problem, network, sampler.noise, start[0])
    expected = half if sampler.output == "half-noise" else iterate
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
def test_simulated_moments_are_those_of_the_law(graph):
    problem, network, rounds = gaussian_problem(), GRAPHS[graph], 12
    sampler = st.DADMMS(RHO, "coherent" if graph == "star" else "private")
    found, _ = simulated(problem, network, sampler, rounds, CHAINS)
    *_, exact = law(problem, network, sampler).moments(rounds)
    draws, mean, S = found.reshape(CHAINS, -1), exact.mean.ravel(), exact.covariance
    variance = np.diag(S)
    z_mean = (draws.mean(axis=0) - mean) / np.sqrt(variance / CHAINS)
    errors = np.sqrt((np.outer(variance, variance) + S**2) / CHAINS)
    z_covariance = (np.cov(draws.T) - S) / errors
    assert np.abs(z_mean).max() < LIMIT
    assert np.abs(z_covariance).max() < LIMIT


def test_the_stationary_law_tends_to_the_joint_posterior():
    """With half-noise output its error falls with the square of the step 1 / (4 rho |E|)."""
    problem, network = gaussian_problem(), GRAPHS["star"]
    mean, covariance = joint_posterior()
    errors = []
    for rho in (20.0, 40.0):
        exact = law(problem, network, st.DADMMS(rho)).stationary()
        np.testing.assert_allclose(exact.mean[:, :2], np.tile(mean[:2], (4, 1)), atol=1e-9)
        np.testing.assert_allclose(exact.mean[:, 2:].ravel(), mean[2:], atol=1e-9)
        blocks = exact.covariance.reshape(4, 4, 4, 4)
        average = blocks[:, :2, :, :2].mean(axis=(0, 2))
        own = np.array([blocks[i, 2:, i, 2:] for i in range(4)])
        known = np.array([covariance[k : k + 2, k : k + 2] for k in range(2, 10, 2)])
        apart = [np.abs(average - covariance[:2, :2]).max(), np.abs(own - known).max()]
        errors.append(max(apart))
    assert errors[0] < 0.02
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)


def test_only_shared_parameters_are_sent():
    problem = gaussian_problem()
    result = st.sample(
        problem, GRAPHS["path"], st.DADMMS(RHO), draws=20, burn_in=0, chains=2, check=False
    )
    disclosed = result.disclosed().query("kind == 'messages of the sampler'")
    assert (disclosed["numbers"] == 2 * 2 * 20).all()  # parameters, chains and rounds
    assert int(result.sample_stats["bytes_sent"].isel(draw=0, agent=0, chain=0)) == 2 * 8
    shared = result.posterior["beta"].values
    centre = shared - shared.mean(axis=2, keepdims=True)
    expected = np.sqrt((centre**2).sum(axis=3).mean(axis=2))
    np.testing.assert_allclose(result.sample_stats["disagreement"], expected, rtol=1e-12)


@pytest.mark.slow
def test_a_logistic_problem_has_proximal_steps():
    """A long run has the moments of HMC, within a tenth of a standard deviation."""
    problem, network = logistic_problem(), st.Network.complete(6)
    how = {"progress": False, "check": False}
    found = st.sample(problem, network, st.DADMMS(20.0), draws=1500, thin=20, chains=8, **how)
    exact = st.sample(problem, network, method="hmc", **how)
    for name in ("beta", "u", "effect"):
        values, known = found.posterior[name], exact.posterior[name]
        sd = known.std(("chain", "draw"))
        assert (
            float((abs(values.mean(("chain", "draw")) - known.mean(("chain", "draw"))) / sd).max())
            < 0.15
        )
        assert float(abs(values.std(("chain", "draw")) / sd - 1).max()) < 0.15


def test_curvature_noise_and_penalties_are_refused():
    how = {"draws": 1, "progress": False}
    for sampler in (st.DADMMS(1.0, "curvature", "iterate"), st.DADMMS(1.0, penalty=st.Ridge(1.0))):
        with pytest.raises(LocalParametersError, match="take noise='coherent'"):
            st.sample(gaussian_problem(), GRAPHS["path"], sampler, **how)

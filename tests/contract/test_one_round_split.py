"""Split Gibbs, global consensus Monte Carlo and DG-LMC against dense NumPy transcriptions.

The six sites have 1 to 40 rows. Nothing is shared with the package but the noise. Where potentials
are not quadratic, draws of the hub are compared with the augmented law by quadrature.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from tests.curved import GRID, curved_problem, hub_density
from tests.problems import unequal_linear_problem

CHAINS, SEED, SITES, DIM, CYCLES = 2, 7, 6, 3, 3
EYE = np.eye(DIM)


def round_of(index, agent):
    agents, network = chain_keys(SEED, CHAINS, SITES + 1)
    return Round(index, agents[1, agent], network[1])


def noise(index, agent):
    """w of one agent in one round."""
    return np.asarray(round_of(index, agent).private_noise(np.zeros(DIM)))


def normal(key):
    return np.asarray(jax.random.normal(key, (DIM,), float))


def root(matrix):
    """The symmetric square root of the inverse."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(values)) @ vectors.T


def compare(sampler, expected, prior="sites", cycles=CYCLES):
    """Draws of hub and sites after so many cycles, and one round, equal those of NumPy to 1e-12.

    `expected` gives the iterates of the hub from H and b (agent, ...), and where all agents start.
    """
    problem, network = st.with_hub(unequal_linear_problem(), prior=prior)
    start = np.random.default_rng(0).normal(size=(CHAINS, SITES + 1, DIM))
    with jax.enable_x64(True):
        plan = Schedule(draws=2 * cycles + 1)
        agents = problem.agents(network)
        record = loop.run(sampler, agents, network, jnp.asarray(start), SEED, plan).joined()
        q = problem.quadratic
        iterates = np.array(expected(np.asarray(q.hessian), np.asarray(q.linear), start[1]))
    found = record.position[:, 1]
    np.testing.assert_allclose(found[1::2, 0], iterates, rtol=1e-12, atol=1e-12)
    heard = np.repeat(iterates[:, None], SITES, axis=1)
    np.testing.assert_allclose(found[2::2, 1:], heard, rtol=1e-12, atol=1e-12)


@pytest.mark.quick(1)
@pytest.mark.parametrize("alpha", [0.4, None])
def test_split_gibbs(alpha):
    rho = 0.7

    def expected(H, b, start):
        x, u = start[0], np.zeros((SITES, DIM))
        for k in range(CYCLES):
            z = np.empty((SITES, DIM))
            for i in range(SITES):
                K = H[1 + i] + EYE / rho**2
                mean = np.linalg.solve(K, b[1 + i] + (x + u[i]) / rho**2)
                z[i] = mean + root(K) @ noise(2 * k + 1, 1 + i)
                if alpha is not None:
                    kick = normal(jax.random.split(round_of(2 * k + 1, 1 + i).batch_key())[0])
                    total = alpha**2 + rho**2
                    u[i] = alpha**2 / total * (z[i] - x) + alpha * rho / np.sqrt(total) * kick
            x = np.mean(z - u, axis=0) + rho / np.sqrt(SITES) * noise(2 * k + 2, 0)
            yield x

    compare(st.SplitGibbs(rho, alpha), lambda *given: list(expected(*given)))


def test_gcmc():
    """The hub has the prior N(0, 5 I), and the sites have none."""
    lam = 0.3

    def expected(H, b, start):
        np.testing.assert_allclose(H[0], EYE / 5)
        z = start[0]
        for k in range(CYCLES):
            x = []
            for i in range(1, SITES + 1):
                K = H[i] + EYE / lam
                x.append(np.linalg.solve(K, b[i] + z / lam) + root(K) @ noise(2 * k + 1, i))
            K = EYE / 5 + SITES * EYE / lam
            z = np.linalg.solve(K, sum(x) / lam) + root(K) @ noise(2 * k + 2, 0)
            yield z

    compare(st.GlobalConsensusMC(lam), lambda *given: list(expected(*given)), prior="hub")


@pytest.mark.quick(1)
@pytest.mark.parametrize("variance", [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 0.3])
def test_dglmc(variance):
    steps, scale = 3, 1.3
    rho = np.broadcast_to(variance, SITES)

    def expected(H, b, start):
        x, z = start[0], start[1:].copy()
        for k in range(CYCLES):
            for i in range(SITES):
                largest = np.linalg.eigvalsh(H[1 + i]).max()
                gam = scale / (steps * (1 / rho[i] + largest))
                for key in jax.random.split(round_of(2 * k + 1, 1 + i).batch_key(), steps):
                    slope = H[1 + i] @ z[i] - b[1 + i] + (z[i] - x) / rho[i]
                    z[i] = z[i] - gam * slope + np.sqrt(2 * gam) * normal(key)
            precision = np.sum(1 / rho)
            x = np.sum(z / rho[:, None], axis=0) / precision
            x = x + noise(2 * k + 2, 0) / np.sqrt(precision)
            yield x

    compare(st.DGLMC(variance, steps, scale), lambda *given: list(expected(*given)))


def test_dglmc_needs_a_variance_for_every_site():
    problem, network = st.with_hub(unequal_linear_problem())
    assert st.DGLMC(np.array([0.1, 0.2])).variance == (0.1, 0.2)
    with pytest.raises(ValueError, match="has 2 numbers, and there are 6 sites"):
        st.sample(problem, network, st.DGLMC([0.1, 0.2]), draws=1)
    with pytest.raises(ValueError, match="`variance` must be positive"):
        st.DGLMC([0.1, -0.2])


def distances(draws, density):
    """How far the first four moments of draws (chain, draw) are from a law, in standard errors."""
    powers = draws[..., None] ** np.arange(1, 5)
    of_chains = powers.mean(axis=1) - (GRID[:, None] ** np.arange(1, 5)).T @ density
    return of_chains.mean(axis=0) / (of_chains.std(axis=0) / np.sqrt(len(draws)))


def hub_draws(problem, sampler, chains=1500):
    """Draws of the hub (chain, draw) from chains which all start at zero."""
    found, network = st.with_hub(problem, prior=sampler.prior_at)
    how = {"chains": chains, "draws": 30, "thin": 6, "burn_in": 100, "seed": 3, "check": False}
    start = np.zeros((chains, found.num_agents, 1))
    result = st.sample(found, network, sampler, progress=False, initial=start, **how)
    return result.posterior["x"].values[:, :, 0]


CURVED = [(st.SplitGibbs(0.6), 0.36), (st.SplitGibbs(0.5, 0.4), 0.41)]
CURVED += [(st.GlobalConsensusMC(0.4), 0.4)]


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "variance"), CURVED, ids=str)
def test_the_augmented_law_where_it_is_not_gaussian(sampler, variance):
    """Also for a prior at the hub that is not Gaussian, and conditional laws with several modes."""
    draws = hub_draws(curved_problem(), sampler)
    assert np.abs(distances(draws, hub_density(variance, sampler.prior_at))).max() < 4
    assert np.abs(distances(draws, hub_density(0.8 * variance, sampler.prior_at))).max() > 6


@pytest.mark.slow
def test_the_law_of_dglmc_where_it_is_not_gaussian():
    """One site and one step: z' ~ N(z - g f'(z), 2 g + g^2 / r) and x ~ N(z, r), by quadrature."""
    variance, scale, row = 0.2, 0.9, {"a": 1.0, "c": 0.0, "w": 0.5}
    problem = curved_problem([row], lambda p: -(p["x"] ** 2) / 2)
    draws = hub_draws(problem, st.DGLMC(variance, step_scale=scale), 3000)
    law, other = (law_of_dglmc(variance, scale * factor) for factor in (1.0, 0.5))
    assert np.abs(distances(draws, law)).max() < 4
    assert np.abs(distances(draws, other)).max() > 6


def law_of_dglmc(variance, scale):
    """With f(z) = z^2 / 2 - z + cos(3 z) / 2, which bends down where it starts, at 0: L is 0."""
    z, g = GRID[::4], scale * variance
    mean = z - g * (z - 1 - 1.5 * np.sin(3 * z))
    kernel = np.exp(-((z - mean[:, None]) ** 2) / (2 * (2 * g + g**2 / variance)))
    kernel /= kernel.sum(axis=1, keepdims=True)
    stationary = np.linalg.matrix_power(kernel, 400)[len(z) // 2]
    law = np.exp(-((GRID[:, None] - z) ** 2) / (2 * variance)) @ stationary
    return law / law.sum()

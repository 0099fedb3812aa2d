"""Simulated means and covariances equal the oracle's, within Monte Carlo error.

Chains are independent, so at one round the sample mean and covariance over C chains have known
errors: the mean of a coordinate has standard error sd/sqrt(C), and an entry of the covariance of
Gaussians has variance (S_ii S_jj + S_ij^2)/C. Every entry is turned into a z-score; the largest of
K nearly independent standard normals exceeds the limit below with probability about ALARM.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers import MidpointADMMS
from starlings.theory import gaussian_w2, law
from tests.problems import paper_problem
from tests.quick import quick_cases

CHAINS = 2000
ALARM = 1e-5
GRAPHS = {
    "ring": st.Network.ring(6),
    "complete": st.Network.complete(6),
    "star": st.Network.star(6),
    "path": st.Network.path(6),
    "small world": st.Network.small_world(6, 4, 0.4, seed=2),
}
QUICK_GRAPHS = ("star",)
"""Graphs on which the quick suite simulates; a star has the most unequal degrees."""
SAMPLERS = {
    "dadmms paper": st.DADMMS(rho=2.0, noise="paper", output="iterate"),
    "dadmms private": st.DADMMS(rho=2.0, noise="private", output="iterate"),
    "dadmms private half": st.DADMMS(rho=2.0, noise="private", output="half-noise"),
    "dadmms coherent": st.DADMMS(rho=2.0, noise="coherent", output="iterate"),
    "dadmms ridge": st.DADMMS(rho=2.0, penalty=st.Ridge(5.0)),
    "dadmms coherent half": st.DADMMS(rho=2.0, noise="coherent", output="half-noise"),
    "dadmms curvature": st.DADMMS(rho=2.0, noise="curvature", output="iterate"),
    "dadmms coherent curvature": st.DADMMS(2.0, noise="coherent-curvature", output="iterate"),
    "midpoint": MidpointADMMS(rho=2.0),
    "dsgld private": st.DSGLD(step_size=0.02, noise="private"),
    "dsgld coherent": st.DSGLD(step_size=0.02, noise="coherent"),
    "dsghmc private": st.DSGHMC(step_size=0.1, friction=5.0, noise="private"),
    "dsghmc coherent": st.DSGHMC(step_size=0.1, friction=5.0, noise="coherent"),
    "dula private": st.DULA(step_size=st.Decay(0.004, 2.0, 0.3), consensus_step=0.1),
    "dula coherent": st.DULA(step_size=0.002, consensus_step=0.1, noise="coherent"),
    "gextra private": st.GEXTRA(step_size=0.01, memory=0.3),
    "diging private": st.DIGing(step_size=0.005),
    "gibbs": st.NetworkGibbs(rho=2.0),
    "spla": st.SPLA(0.05, hops=10),
    "spla gradient": st.SPLA(0.05, hops=11, first="gradient", penalty=st.Ridge(3.0)),
    "depsgld ridge": st.DEPSGLD(0.02, st.Ridge(4.0), smoothing=0.3, noise="coherent"),
    "mahmc published": st.MAHMC(0.1, "published-unadjusted", tracking_rounds=2),
    "mahmc corrected": st.MAHMC(0.1, consensus_rounds=2),
    "peer learning mean-field": st.PeerLearning(family="mean-field", updates=3),
}

QUICK_SAMPLERS = (
    "dadmms private half",
    "dadmms coherent half",
    "dadmms curvature",
    "midpoint",
    "dsgld private",
    "dsghmc coherent",
    "dula private",
    "gextra private",
    "diging private",
    "gibbs",
    "spla gradient",
)
"""Samplers that the quick suite simulates."""


def simulate(problem, network, sampler, rounds, chains=CHAINS, burn_in=0):
    """Positions (round, chain, agent, dim) from x_i ~ N(0, I)."""
    with jax.enable_x64(True):
        start = np.random.default_rng(1).normal(size=(chains, problem.num_agents, problem.dim))
        run = loop.run(
            sampler,
            problem.agents(network),
            network,
            jax.numpy.asarray(start),
            0,
            Schedule(draws=rounds, burn_in=burn_in),
        )
        return run.joined().position


def z_scores(draws, moments):
    """Distances of all means and covariances from the exact ones, in standard errors."""
    flat = draws.reshape(len(draws), -1)
    S, count = moments.covariance, len(draws)
    mean = (flat.mean(axis=0) - moments.mean.ravel()) / np.sqrt(np.diag(S) / count)
    spread = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / count)
    covariance = (np.cov(flat.T) - S) / spread
    return np.concatenate([mean, covariance[np.triu_indices(len(S))]])


@pytest.mark.quick(3)
@pytest.mark.parametrize("graph", quick_cases(GRAPHS, QUICK_GRAPHS))
@pytest.mark.parametrize("sampler", quick_cases(SAMPLERS, QUICK_SAMPLERS))
def test_simulation_has_the_exact_law(graph, sampler):
    network, problem = GRAPHS[graph], paper_problem(6)
    draws = simulate(problem, network, SAMPLERS[sampler], rounds=12)
    exact = list(law(problem, network, SAMPLERS[sampler]).moments(12))
    scores = np.concatenate([z_scores(draws[k - 1], exact[k]) for k in (1, 4, 12)])
    limit = scipy.stats.norm.isf(ALARM / len(scores) / 2)
    assert np.abs(scores).max() < limit


def test_the_comparison_can_fail():
    """The paper's noise is not taken for the calibrated one, nor a wrong step for the right one."""
    problem, network = paper_problem(6), GRAPHS["ring"]
    draws = simulate(problem, network, SAMPLERS["dadmms paper"], rounds=12)
    other = list(law(problem, network, SAMPLERS["dadmms private"]).moments(12))[-1]
    assert np.abs(z_scores(draws[-1], other)).max() > 10
    draws = simulate(problem, network, SAMPLERS["dsgld private"], rounds=12)
    other = list(law(problem, network, st.DSGLD(step_size=0.022)).moments(12))[-1]
    assert np.abs(z_scores(draws[-1], other)).max() > 10


def test_coherent_half_noise_samples_the_posterior():
    """The paper's ring of five at rho = 5: every agent within 0.015 sd, simulated as predicted.

    One draw per chain after 160 rounds (ten autocorrelation times, so what is left of the start is
    below e^-10). With C chains the estimate of W2^2 is biased by about tr(S) (1 + d/2) / C.
    """
    problem, network = paper_problem(5), st.Network.ring(5)
    sampler = st.DADMMS(rho=5.0)
    target = problem.exact_posterior()
    size = np.sqrt(np.trace(target[1]))
    predicted = law(problem, network, sampler).stationary()
    assert predicted.worst_agent_w2(*target) < 0.015 * size
    chains = 20_000
    draws = simulate(problem, network, sampler, 1, chains, burn_in=160)[0]
    scores = z_scores(draws, predicted)
    assert np.abs(scores).max() < scipy.stats.norm.isf(ALARM / len(scores) / 2)
    fits = [(draws[:, i].mean(axis=0), np.cov(draws[:, i].T)) for i in range(5)]
    worst = max(gaussian_w2(*fit, *target) for fit in fits)
    assert worst < 0.015 * size + 3 * size * np.sqrt(2 / chains)


def test_no_edges_dadmms_jumps_to_the_local_modes():
    problem = paper_problem(5)
    with pytest.warns(UserWarning, match="will not agree"):
        network = st.Network.no_edges(5)
    draws = simulate(problem, network, st.DADMMS(rho=5.0), rounds=2, chains=3)
    pairs = zip(problem.quadratic.hessian, problem.quadratic.linear, strict=True)
    local = [np.linalg.solve(H, b) for H, b in pairs]
    np.testing.assert_allclose(draws, np.broadcast_to(local, draws.shape), rtol=1e-12)
    exact = law(problem, network, st.DADMMS(rho=5.0)).stationary()
    np.testing.assert_allclose(exact.mean, local, rtol=1e-9)
    np.testing.assert_array_equal(exact.covariance, 0.0)

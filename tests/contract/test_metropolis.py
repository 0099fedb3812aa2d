"""Metropolis without a coordinator: exact, the same bits everywhere, and decided as it says."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import starlings as st
from starlings.network.agreement import VoteState
from starlings.pytrees import pytree
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers import Metropolis
from starlings.samplers.metropolis import DECISIONS
from starlings.sampling import start_positions
from starlings.tuning import tune
from tests.problems import irregular_graph, skewed_problem, unequal_poisson_problem, wavy_problem
from tests.quick import quick_cases

IRREGULAR = st.Network(irregular_graph())
RING = st.Network.ring(5)
by_decision = pytest.mark.parametrize("decision", DECISIONS)


def run(problem, network, sampler, chains, candidates, draws=1, seed=0, dtype=np.float64):
    """Draws (draw, chain, agent, dim) that many candidates apart, the first after as many."""
    every = candidates * sampler.cycle
    with jax.enable_x64(dtype == np.float64):
        start = start_positions(problem, sampler, None, chains, seed, dtype)
        agents, plan = problem.agents(network, dtype), Schedule(draws, sampler.flood_rounds, every)
        return loop.run(sampler, agents, network, start, seed, plan).joined().position


@pytest.mark.slow
def test_all_agents_hold_the_same_bits_at_every_draw():
    """In single precision, in which agents would part soonest."""
    problem, sampler = unequal_poisson_problem(), Metropolis.on(IRREGULAR, 0.2)
    draws = run(problem, IRREGULAR, sampler, 20, candidates=1, draws=200, dtype=np.float32)
    assert 0.01 < np.mean(np.any(draws[1:] != draws[:-1], axis=-1)) < 0.99
    np.testing.assert_array_equal(draws, np.broadcast_to(draws[:, :, :1], draws.shape))


def exact_cdf(problem):
    """The distribution function of `skewed_problem`, by quadrature of its density in NumPy."""
    rows = problem.pooled().shards["pooled"]
    beta = np.linspace(-8, 5, 20_001)
    means = np.exp(beta[:, None] * rows["x"][:, 0])
    log_density = beta * (rows["y"] @ rows["x"][:, 0]) - means.sum(axis=1) - beta**2 / 20
    density = np.exp(log_density - log_density.max())
    below = scipy.integrate.cumulative_simpson(density, x=beta, initial=0)
    return lambda value: np.interp(value, beta, below / below[-1])


def rank_p_values(positions, problem):
    """Are the exact CDF's values uniform? Chi-squared over 50 bins, and Kolmogorov-Smirnov."""
    ranks = exact_cdf(problem)(positions)
    counts = np.histogram(ranks, bins=50, range=(0, 1))[0]
    tests = scipy.stats.chisquare(counts), scipy.stats.kstest(ranks, "uniform")
    return [test.pvalue for test in tests]


CHAINS = 10_000


@functools.cache
def tuned_skewed():
    problem = skewed_problem()
    return problem, tune(problem, RING)


@pytest.mark.slow
@by_decision
def test_metropolis_has_exactly_a_skewed_posterior(decision):
    """One draw from each of 10,000 chains, after 80 candidates from a start in common."""
    (problem, tuning), network = tuned_skewed(), RING
    sampler = Metropolis.on(network, 0.7, decision)
    z = run(tuning.problem(problem), network, sampler, CHAINS, candidates=80)[0]
    np.testing.assert_array_equal(z, np.broadcast_to(z[:, :1], z.shape))
    x = tuning.centre + z[:, 0] @ tuning.scale.T
    assert min(rank_p_values(x[:, 0], problem)) > 0.01


@pytest.mark.slow
def test_the_rank_test_rejects_a_large_step():
    """Coherent D-ADMMS at the largest step that leaves proximal steps convex: variances x 3/4."""
    problem, network = skewed_problem(), RING
    tuning = tune(problem, network, step=1.0, exactness="coherent")
    assert 0.6 < tuning.step < 0.7
    moved, sampler = tuning.problem(problem), tuning.sampler
    with jax.enable_x64(True):
        start, plan = jnp.zeros((CHAINS, 5, 1)), Schedule(draws=1, burn_in=15)
        agents = moved.agents(network)
        z = loop.run(sampler, agents, network, start, 0, plan).joined().position[0, :, 0]
    values = rank_p_values((tuning.centre + z @ tuning.scale.T)[:, 0], problem)
    assert max(values) < 0.01
    assert min(values) < 1e-6


def numpy_changes(problem, tuning, z, candidate):
    """phi_i(z') - phi_i(z) of `skewed_problem` in tuned coordinates, (..., agent)."""

    def energies(z):
        beta, parts = tuning.centre + tuning.scale[0, 0] * z, []
        for i, rows in enumerate(problem.shards.values()):
            x, y = rows["x"][:, 0], rows["y"]
            likelihood = beta * (y @ x) - np.exp(np.multiply.outer(beta, x)).sum(axis=-1)
            tilt = tuning.tilt_slope[i, 0] * z + tuning.tilt_curvature[i, 0, 0] * z**2 / 2
            parts.append(beta**2 / 20 / 5 - likelihood - tilt - z**2 / 2 / 5)
        return np.stack(parts, axis=-1)

    return energies(candidate) - energies(z)


@pytest.mark.slow
@by_decision
def test_acceptance_is_what_numpy_says(decision):
    """The first candidate of all chains: the same for both decisions, and the sum takes more."""
    (problem, tuning), network = tuned_skewed(), RING
    moved, sampler, seed = tuning.problem(problem), Metropolis.on(network, 0.9, decision), 3
    after = run(moved, network, sampler, CHAINS, candidates=1, seed=seed)[0, :, 0, 0]
    with jax.enable_x64(True):
        start = np.asarray(start_positions(moved, sampler, None, CHAINS, seed, np.float64))
        _, keys = chain_keys(seed, CHAINS, 5)
        like = jax.ShapeDtypeStruct((1,), np.float64)
        drawn = jax.vmap(lambda key: Round(sampler.flood_rounds, None, key).shared_noise(like))
        noise = np.asarray(drawn(keys))[:, 0]
    z = start[:, 0, 0]
    candidate = np.sqrt(1 - 0.9**2) * z + 0.9 * noise
    changes = numpy_changes(problem, tuning, z, candidate)
    factorised = np.exp(-np.maximum(changes, 0).sum(axis=-1))
    summed = np.exp(-np.maximum(changes.sum(axis=-1), 0))
    assert np.all(factorised <= summed * (1 + 1e-12))
    assert np.mean(factorised < 0.999 * summed) > 0.1
    expected = {"factorised": factorised, "sum": summed}[decision]
    taken = after != z
    np.testing.assert_allclose(after[taken], candidate[taken], rtol=1e-12)
    error = np.sqrt(np.sum(expected * (1 - expected))) / CHAINS
    assert abs(taken.mean() - expected.mean()) < 4 * error
    assert np.all(taken[expected > 1 - 1e-12])


@pytest.mark.slow
@by_decision
def test_agents_with_their_shares_of_a_gaussian_refuse_nothing(decision):
    """phi_i is then constant, on any graph: every candidate is taken, whatever the step."""
    share = IRREGULAR.degrees / IRREGULAR.degrees.sum()
    problem = st.models.gaussian(share[:, None, None] * np.eye(2))
    sampler = Metropolis.on(IRREGULAR, 0.9, decision)
    draws = run(problem, IRREGULAR, sampler, chains=20, candidates=1, draws=50)
    assert np.all(draws[1:] != draws[:-1])


@pytree
@dataclasses.dataclass(frozen=True)
class Undecided(Metropolis):
    """Draws one candidate, and keeps what has been heard of it."""

    def _decide(self, agent, state, round):
        opened = super()._decide(agent, state, round)
        first = round.index == self.flood_rounds
        return jax.tree.map(lambda new, old: jnp.where(first, new, old), opened, state)


PROTOCOL_GRAPHS = {
    "ring": (nx.cycle_graph(7), 0),
    "star": (nx.star_graph(5), 0),
    "path": (nx.path_graph(5), 0),
    "irregular": (irregular_graph(), 0),
    "complete": (nx.complete_graph(4), 0),
    "several parents": (nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 3)), 0),
    "a flood longer than it needs": (irregular_graph(), 2),
}


one_round = jax.jit(loop.one_round)


def rounds_of(sampler, problem, network, rounds, states=None, first=1):
    """The states (chain, agent) after every round from `first` on."""
    with jax.enable_x64(True):
        agents = loop.prepared(sampler, problem.agents(network))
        keys = chain_keys(0, 3, network.size)
        if states is None:
            start = start_positions(problem, sampler, None, 3, 0, np.float64)
            states = loop.start(sampler, agents, start, keys).states
        wiring = loop.Wiring.of(network, np.float64)
        history = []
        for k in range(first, first + rounds):
            states, _ = one_round(sampler, agents, wiring, states, k, keys)
            history.append(states)
    return history


@pytest.mark.parametrize("name", quick_cases(PROTOCOL_GRAPHS, ["irregular", "several parents"]))
def test_the_sum_that_decides_is_the_sum_of_the_changes(name):
    graph, slack = PROTOCOL_GRAPHS[name]
    network = st.Network(graph)
    waves = np.arange(1, network.size)
    problem = wavy_problem([*waves, -waves.sum()])
    sampler = Undecided(0.8, network.diameter + slack, "sum")
    last = rounds_of(sampler, problem, network, sampler.flood_rounds + sampler.cycle)[-1]
    changes = np.asarray(last.candidate_energy - last.energy)
    total = np.asarray(last.agreement.outgoing)
    np.testing.assert_allclose(total[:, 0], changes.sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(total, np.broadcast_to(total[:, :1], total.shape))
    assert np.abs(changes).min() > 0
    levels = nx.single_source_shortest_path_length(network.graph, 0)
    expected = [levels[node] for node in network.nodes]
    parents = [
        sum(levels[other] == levels[node] - 1 for other in network.graph[node])
        for node in network.nodes
    ]
    for chain in range(3):
        assert last.agreement.level[chain].tolist() == expected
        assert last.agreement.parents[chain, 1:].tolist() == parents[1:]


@pytest.mark.slow
def test_a_veto_travels_one_edge_a_round():
    """Only what neighbours send is heard: one agent's bit reaches others by their distance."""
    network = st.Network.path(5)
    problem, sampler = skewed_problem(), Metropolis.on(network, 0.5)
    states = rounds_of(sampler, problem, network, sampler.flood_rounds)[-1]
    states = states._replace(agreement=VoteState(np.tile([0.0, 0.0, 0.0, 0.0, 1.0], (3, 1))))
    first = sampler.flood_rounds + 1
    for k, after in enumerate(rounds_of(sampler, problem, network, 3, states, first), start=1):
        heard = [float(4 - node <= k) for node in range(5)]
        assert np.asarray(after.agreement.outgoing).tolist() == [heard] * 3


def bounded_problem():
    """x^2 / 2 between -1 and 1; one agent finds the rest infinite, and another not a number."""

    def log_likelihood(p, row):
        x = p["x"]
        beyond = jnp.where(row["kind"] == 1, -jnp.inf, jnp.nan)
        outside = (row["kind"] == 1) & (x > 1) | (row["kind"] == 2) & (x < -1)
        return -(x**2) / 6 + jnp.where(outside, beyond, 0.0)

    shards = [{"kind": [kind]} for kind in (0, 1, 2)]
    return st.Problem(log_likelihood, lambda p: 0.0, {"x": ()}, shards)


@pytest.mark.slow
@by_decision
def test_unattainable_candidates_are_rejected(decision):
    """From any start, the law is the normal one between -1 and 1."""
    problem, network = bounded_problem(), st.Network.path(3)
    sampler = Metropolis.on(network, 0.9, decision)
    x = run(problem, network, sampler, chains=4000, candidates=40)[0, :, 0, 0]
    assert np.all(np.abs(x) <= 1)
    between = scipy.stats.truncnorm(-1, 1)
    assert scipy.stats.kstest(x, between.cdf).pvalue > 0.01


def test_what_metropolis_refuses():
    problem, network = skewed_problem(), st.Network.path(5)
    with pytest.raises(ValueError, match="`flood_rounds` must be at least 4, the diameter"):
        st.sample(problem, network, Metropolis(0.5, flood_rounds=3))
    apart = np.arange(5.0)[:, None]
    with pytest.raises(ValueError, match="needs one `initial` for all agents of a chain"):
        st.sample(problem, network, Metropolis.on(network, 0.5), initial=apart)
    for length in (0.0, -0.5, 1.01, np.nan):
        with pytest.raises(ValueError, match=r"`step_length` must be (in \(0, 1\]|positive)"):
            Metropolis(length, flood_rounds=4)
    with pytest.raises(TypeError, match="`step_length` must be a number"):
        Metropolis("0.5", flood_rounds=4)
    with (
        pytest.warns(UserWarning, match="no edges"),
        pytest.raises(ValueError, match="it needs a network with edges"),
    ):
        st.sample(problem, st.Network.no_edges(5), Metropolis(0.5, flood_rounds=4))
    with pytest.raises(ValueError, match="`decision` must be one of"):
        Metropolis(0.5, flood_rounds=4, decision="vote")
    with pytest.raises(ValueError, match="`flood_rounds` must be a whole number"):
        Metropolis(0.5, flood_rounds=0)

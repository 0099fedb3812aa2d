"""The ladder of exactness: shares, predictions, exact rungs, Metropolis by vote, and warm-up."""

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
from conftest import irregular_graph, paper_problem, unequal_linear_problem
from starlings.gossip import Gossip
from starlings.rounds import Round, chain_keys
from starlings.runtimes import vectorised
from starlings.runtimes.recording import Schedule
from starlings.samplers import Metropolis, MidpointADMMS
from starlings.samplers.metropolis import DECISIONS
from starlings.sampling import start_positions
from starlings.theory import law, regular_variances
from starlings.tuning import FLOOR_POINTS, STEP, even_shares, ladder, tune, warmup
from starlings.tuning.ladder import ADMM_RUNGS, POINTS, prediction, shared_points
from starlings.tuning.mode import DENSE_DIMENSION, inverse_root

IRREGULAR = st.Network(irregular_graph())
GRAPHS = {
    "ring": st.Network.ring(5),
    "complete": st.Network.complete(6),
    "star": st.Network.star(6),
    "irregular": IRREGULAR,
}
REGULAR = {
    "ring": st.Network.ring(5),
    "complete": st.Network.complete(6),
    "cube": st.Network(nx.convert_node_labels_to_integers(nx.hypercube_graph(3))),
}
RHOS = (0.02, 0.3, 5.0, 50.0)
on_graphs = pytest.mark.parametrize("network", GRAPHS.values(), ids=GRAPHS)
on_regular_graphs = pytest.mark.parametrize("network", REGULAR.values(), ids=REGULAR)
at_rhos = pytest.mark.parametrize("rho", RHOS)
by_decision = pytest.mark.parametrize("decision", DECISIONS)


def shares(network):
    return network.degrees / network.degrees.sum()


def shared_problem(network, curvature=1.0):
    """A Gaussian of one parameter of which every agent carries its share."""
    return st.models.gaussian(curvature * shares(network)[:, None, None])


def curvature_noise(rho, noise="curvature"):
    return st.DADMMS(rho, noise=noise, output="iterate")


# The rungs that are exact for Gaussians


def test_private_noise_with_the_curvature_has_the_right_average():
    """On the ring of five at rho = 5: 4 rho d alone gives 0.9756, 4 rho d + m gives 1."""
    without, exact = (regular_variances(GRAPHS["ring"], 1.0, 5.0, v)[0] for v in (40.0, 41.0))
    assert f"{without:.4f}" == "0.9756"
    assert exact == pytest.approx(1.0, rel=1e-14)


@on_regular_graphs
@at_rhos
def test_curvature_noise_has_the_right_average_and_scatters_the_agents(network, rho):
    """The average is exact; the modes of disagreement have the private part alone."""
    m, size = 1.3, network.size
    problem = st.models.gaussian(np.full((size, 1, 1), m))
    moments = law(problem, network, curvature_noise(rho)).stationary()
    assert moments.average()[1][0, 0] == pytest.approx(1 / (m * size), rel=1e-9)
    scatter = regular_variances(network, m, rho, m)[1:].sum() / size
    assert np.diag(moments.covariance) == pytest.approx(1 / (m * size) + scatter, rel=1e-8)


@on_graphs
@at_rhos
@pytest.mark.parametrize(
    "rung", [MidpointADMMS, lambda rho: curvature_noise(rho, "coherent-curvature")]
)
def test_agents_with_their_shares_have_exactly_the_posterior(network, rho, rung):
    moments = law(shared_problem(network), network, rung(rho)).stationary()
    np.testing.assert_allclose(moments.covariance, 1.0, rtol=1e-9)
    np.testing.assert_allclose(moments.mean, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("rung", "order"),
    [(ADMM_RUNGS["coherent"], 1), (ADMM_RUNGS["half-noise"], 2), (MidpointADMMS, 2)],
    ids=["coherent", "half-noise", "midpoint"],
)
@pytest.mark.parametrize("name", ["alike", "unequal"])
def test_orders_of_the_error_where_agents_differ(name, rung, order):
    """Without tilts; from the exact law, where a hundredfold rho has left the higher orders."""
    problem, network = paper_problem(5), GRAPHS["ring"]
    if name == "unequal":
        problem, network = unequal_linear_problem(), IRREGULAR
    target, rhos = problem.exact_posterior(), np.geomspace(100, 1000, 4)
    errors = [law(problem, network, rung(rho)).stationary().worst_agent_w2(*target) for rho in rhos]
    slope = np.polyfit(np.log(rhos), np.log(errors), 1)[0]
    assert slope == pytest.approx(-order, abs=0.15)


# Shares by tilting


def skewed_problem():
    """Two events of a Poisson variable with one coefficient, at five very unequal sites.

    The posterior has a skewness of -0.51. The third derivatives of two sites have the other sign,
    so that their changes differ in sign even when tilted.
    """
    sizes = [1, 4, 3, 2, 5]
    x, sites = np.repeat([1.0, -0.3, 2.0, -0.2, 1.5], sizes), np.repeat(np.arange(5), sizes)
    y = np.zeros(15)
    y[[0, 5]] = 1.0
    return st.models.poisson_regression(x[:, None], y, sites)


def unequal_poisson_problem():
    """Three coefficients at six sites with 1 to 25 rows."""
    random = np.random.default_rng(8)
    sites = np.repeat(np.arange(6), [1, 25, 2, 9, 14, 3])
    X = np.column_stack([np.ones(len(sites)), random.normal(size=(len(sites), 2))])
    y = random.poisson(np.exp(X @ [0.3, 0.5, -0.4])).astype(float)
    return st.models.poisson_regression(X, y, sites)


@functools.cache
def tuned_poisson():
    problem = unequal_poisson_problem()
    return problem, tune(problem, IRREGULAR)


def test_tilts_keep_the_pooled_potential():
    problem, tuning = tuned_poisson()
    moved, pooled = tuning.problem(problem), problem.pooled()
    for z in np.random.default_rng(0).normal(size=(5, 3)):
        apart = tuning.centre + tuning.scale @ z
        assert moved.potential(z) == pytest.approx(pooled.potential(apart), rel=1e-10)
    assert np.abs(tuning.linear).max() > 0.5, "the agents were not alike before"
    assert np.abs(tuning.quadratic).max() > 0.1


@pytest.mark.parametrize("offset", [0.0, 0.5], ids=["mode", "elsewhere"])
def test_every_agent_has_its_share_of_gradient_and_curvature(offset):
    """At any centre; at the mode the gradients are nothing's shares."""
    problem, tuning = tuned_poisson()
    centre, scale = tuning.centre + tuning.scale @ np.full(3, offset), tuning.scale
    slopes = jax.jit(jax.vmap(lambda agent: agent.gradient(jnp.zeros(3))))
    with jax.enable_x64(True):
        untilted = problem.affine(centre, scale).agents(IRREGULAR)
        slope = np.asarray(slopes(untilted)).sum(axis=0)
        tilts = even_shares(Gossip(IRREGULAR), untilted)
        gradients = slopes(problem.affine(centre, scale, *tilts).agents(IRREGULAR))
    hessians = problem.affine(centre, scale, *tilts).hessians(np.zeros(3))
    whole = scale.T @ problem.hessians(centre).sum(axis=0) @ scale
    share = shares(IRREGULAR)
    np.testing.assert_allclose(gradients, np.multiply.outer(share, slope), atol=1e-10)
    np.testing.assert_allclose(hessians, np.multiply.outer(share, whole), atol=1e-10)
    assert (np.abs(slope).max() > 0.1) == (offset > 0)


def test_tilted_agents_have_one_law_on_an_irregular_graph():
    """Equation (3) of `tuning`, for shards of 1 to 40 rows and degrees from 1 to 4."""
    problem = unequal_linear_problem()
    tuning = tune(problem, IRREGULAR)
    exact = law(tuning.problem(problem), IRREGULAR, tuning.sampler)
    moments, eta = exact.stationary(), tuning.step
    assert eta == pytest.approx(STEP)
    variance = 1 + eta**2 / (4 * (1 + eta / 2))
    together = np.kron(np.ones((6, 6)), variance * np.eye(3))
    np.testing.assert_allclose(moments.covariance, together, atol=1e-9)
    np.testing.assert_allclose(moments.mean, 0.0, atol=1e-9)
    for agent in range(6):
        np.testing.assert_allclose(exact.autocorrelation_rounds(agent), 1 + 2 / eta, rtol=1e-9)


# What is promised before a run


@pytest.mark.parametrize("rung", ADMM_RUNGS)
@pytest.mark.parametrize("name", ["paper's ring", "unequal, irregular"])
def test_the_prediction_is_the_law_of_the_tuned_problem(name, rung):
    problem, network = paper_problem(5), GRAPHS["ring"]
    if name == "unequal, irregular":
        problem, network = unequal_linear_problem(), IRREGULAR
    tuning = tune(problem, network, exactness=rung)
    exact, dim = law(tuning.problem(problem), network, tuning.sampler), problem.dim
    worst = exact.stationary().worst_agent_w2(np.zeros(dim), np.eye(dim)) / np.sqrt(dim)
    # the square root of what rounding leaves of a zero W2^2
    assert tuning.predicted_w2 == pytest.approx(worst, abs=1e-6)
    slowest = max(exact.autocorrelation_rounds(i).max() for i in range(network.size))
    assert tuning.predicted_rounds_per_draw == pytest.approx(slowest, rel=1e-6)


@on_graphs
@pytest.mark.parametrize("rung", ADMM_RUNGS)
def test_two_agents_stand_for_a_large_network(network, rung, monkeypatch):
    sampler = ADMM_RUNGS[rung](1 / (4 * network.num_edges * STEP))
    own = prediction(network, sampler)
    monkeypatch.setattr(ladder, "LARGEST_CHECKED", 2)
    assert prediction(network, sampler) == pytest.approx(own, rel=1e-7, abs=1e-7)


def test_midpoint_needs_half_the_rounds():
    euler, midpoint = (
        prediction(IRREGULAR, ADMM_RUNGS[rung](1 / (4 * 7 * STEP)))[1]
        for rung in ("half-noise", "midpoint")
    )
    assert (euler, midpoint) == pytest.approx((1 + 2 / STEP, 1 / STEP))


# The floor of the penalty


def wavy(p, row):
    """Minus x^2 / 2N and a wave."""
    x, frequency = p["x"], 1.5
    return -0.5 * x**2 * row["share"] - row["wave"] * jnp.cos(frequency * x) / frequency**2


def flat(p):
    return 0.0


def wavy_problem(waves):
    """N(0, 1) of which agent i holds 1/N and a wave of its own; the waves sum to zero."""
    assert sum(waves) == 0
    share = 1 / len(waves)
    shards = [{"share": [share], "wave": [float(wave)]} for wave in waves]
    return st.Problem(wavy, flat, {"x": ()}, shards)


def test_the_penalty_keeps_proximal_steps_convex():
    """Tilted, agent i has the curvature s_i + wave_i (1 - cos(1.5 z))."""
    waves = 2.0 * np.array([1, -1, 0, 1, -1, 0])
    problem = wavy_problem(waves)
    tuning = tune(problem, IRREGULAR, exactness="half-noise")
    with jax.enable_x64(True):
        points = shared_points(tuning.problem(problem).agents(IRREGULAR), POINTS)[:FLOOR_POINTS]
    curvatures = shares(IRREGULAR) + waves * (1 - np.cos(1.5 * points))  # (point, agent)
    floor = np.max(-curvatures / IRREGULAR.degrees)
    assert tuning.sampler.rho == pytest.approx(floor, rel=1e-9)
    assert floor > 1 / (4 * 7 * STEP)
    assert tuning.step == pytest.approx(1 / (4 * 7 * floor))
    assert np.all(curvatures + 2 * tuning.sampler.rho * IRREGULAR.degrees > 0)


def test_auto_takes_metropolis_where_proximal_steps_would_be_short():
    problem, mild = wavy_problem([20, -10, -10]), wavy_problem([0.2, -0.1, -0.1])
    network = st.Network.path(3)
    assert isinstance(tune(problem, network).sampler, Metropolis)
    assert isinstance(tune(problem, network, exactness="half-noise").sampler, st.DADMMS)
    assert isinstance(tune(mild, network).sampler, st.DADMMS)
    assert isinstance(tune(mild, network, exactness="metropolis").sampler, Metropolis)


# Metropolis


def run(problem, network, sampler, chains, candidates, draws=1, seed=0, dtype=np.float64):
    """Draws (draw, chain, agent, dim) that many candidates apart, the first after as many."""
    every = candidates * sampler.cycle
    with jax.enable_x64(dtype == np.float64):
        start = start_positions(problem, sampler, None, chains, seed, dtype)
        agents, plan = problem.agents(network, dtype), Schedule(draws, sampler.flood_rounds, every)
        return vectorised.run(sampler, agents, network, start, seed, plan).joined().position


def test_all_agents_hold_the_same_bits_at_every_draw():
    """In single precision, in which agents would part soonest."""
    problem, sampler = unequal_poisson_problem(), Metropolis.on(IRREGULAR, 0.2)
    draws = run(problem, IRREGULAR, sampler, 20, candidates=1, draws=200, dtype=np.float32)
    assert 0.01 < np.mean(np.any(draws[1:] != draws[:-1], axis=-1)) < 0.99
    np.testing.assert_array_equal(draws, np.broadcast_to(draws[:, :, :1], draws.shape))


def exact_cdf(problem):
    """Of the posterior of `skewed_problem`, by quadrature of its density in NumPy."""
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
    return problem, tune(problem, GRAPHS["ring"])


@by_decision
def test_metropolis_has_exactly_a_skewed_posterior(decision):
    """One draw from each of 10,000 chains, after 80 candidates from a start in common."""
    (problem, tuning), network = tuned_skewed(), GRAPHS["ring"]
    sampler = Metropolis.on(network, 0.7, decision)
    z = run(tuning.problem(problem), network, sampler, CHAINS, candidates=80)[0]
    np.testing.assert_array_equal(z, np.broadcast_to(z[:, :1], z.shape))
    x = tuning.centre + z[:, 0] @ tuning.scale.T
    assert min(rank_p_values(x[:, 0], problem)) > 0.01


def test_the_rank_test_rejects_a_large_step():
    """Coherent D-ADMMS at the largest step that leaves proximal steps convex: variances x 3/4."""
    problem, network = skewed_problem(), GRAPHS["ring"]
    tuning = tune(problem, network, step=1.0, exactness="coherent")
    assert 0.6 < tuning.step < 0.7
    moved, sampler = tuning.problem(problem), tuning.sampler
    with jax.enable_x64(True):
        start, plan = jnp.zeros((CHAINS, 5, 1)), Schedule(draws=1, burn_in=15)
        agents = moved.agents(network)
        z = vectorised.run(sampler, agents, network, start, 0, plan).joined().position[0, :, 0]
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
            tilt = tuning.linear[i, 0] * z + tuning.quadratic[i, 0, 0] * z**2 / 2
            parts.append(beta**2 / 20 / 5 - likelihood - tilt - z**2 / 2 / 5)
        return np.stack(parts, axis=-1)

    return energies(candidate) - energies(z)


@by_decision
def test_acceptance_is_what_numpy_says(decision):
    """The first candidate of all chains: the same for both decisions, and the sum takes more."""
    (problem, tuning), network = tuned_skewed(), GRAPHS["ring"]
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


@jax.tree_util.register_dataclass
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


one_round = jax.jit(vectorised.one_round)


def rounds_of(sampler, problem, network, rounds, states=None, first=1):
    """The states (chain, agent) after every round from `first` on."""
    with jax.enable_x64(True):
        agents, keys = problem.agents(network), chain_keys(0, 3, network.size)
        if states is None:
            start = start_positions(problem, sampler, None, 3, 0, np.float64)
            states = vectorised.start(sampler, agents, start, keys).states
        wiring = vectorised.Wiring.of(network, np.float64)
        history = []
        for k in range(first, first + rounds):
            states, _ = one_round(sampler, agents, wiring, states, k, keys)
            history.append(states)
    return history


@pytest.mark.parametrize(("graph", "slack"), PROTOCOL_GRAPHS.values(), ids=PROTOCOL_GRAPHS)
def test_the_sum_that_decides_is_the_sum_of_the_changes(graph, slack):
    network = st.Network(graph)
    problem = wavy_problem(np.arange(network.size) - (network.size - 1) / 2)
    sampler = Undecided(0.8, network.diameter + slack, "sum")
    last = rounds_of(sampler, problem, network, sampler.flood_rounds + sampler.cycle)[-1]
    changes = np.asarray(last.candidate_energy - last.energy)
    total = np.asarray(last.outgoing)
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
        assert last.level[chain].tolist() == expected
        assert last.parents[chain, 1:].tolist() == parents[1:]


def test_a_veto_travels_one_edge_a_round():
    """Only what neighbours send is heard: one agent's bit reaches others by their distance."""
    network = st.Network.path(5)
    problem, sampler = skewed_problem(), Metropolis.on(network, 0.5)
    states = rounds_of(sampler, problem, network, sampler.flood_rounds)[-1]
    states = states._replace(outgoing=np.tile([0.0, 0.0, 0.0, 0.0, 1.0], (3, 1)))
    first = sampler.flood_rounds + 1
    for k, after in enumerate(rounds_of(sampler, problem, network, 3, states, first), start=1):
        heard = [float(4 - node <= k) for node in range(5)]
        assert np.asarray(after.outgoing).tolist() == [heard] * 3


def bounded_problem():
    """x^2 / 2 between -1 and 1; one agent finds the rest infinite, and another not a number."""

    def log_likelihood(p, row):
        x = p["x"]
        beyond = jnp.where(row["kind"] == 1, -jnp.inf, jnp.nan)
        outside = (row["kind"] == 1) & (x > 1) | (row["kind"] == 2) & (x < -1)
        return -(x**2) / 6 + jnp.where(outside, beyond, 0.0)

    shards = [{"kind": [kind]} for kind in (0, 1, 2)]
    return st.Problem(log_likelihood, lambda p: 0.0, {"x": ()}, shards)


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
        with pytest.raises(ValueError, match=r"`step_length` must be in \(0, 1\]"):
            Metropolis(length, flood_rounds=4)
    with pytest.raises(ValueError, match="`decision` must be one of"):
        Metropolis(0.5, flood_rounds=4, decision="vote")
    with pytest.raises(ValueError, match="`flood_rounds` must be a whole number"):
        Metropolis(0.5, flood_rounds=0)


def test_curvature_noise_is_for_iterates():
    for noise in ("curvature", "coherent-curvature"):
        with pytest.raises(ValueError, match="take output='iterate' with it"):
            st.DADMMS(1.0, noise=noise)


# Warm-up


MIXTURE = np.array([[2.0, -1.0], [0.5, 1.0]])


def long_tailed(p, row):
    u, v = MIXTURE @ p["x"]
    return -row["part"] * (0.3 * jnp.sqrt(1 + u**2) + 0.5 * v**2)


def long_tailed_problem():
    """exp(-0.3 sqrt(1 + u^2) - v^2 / 2) of two mixtures u and v of the parameters.

    Convex, with a mode whose curvature says little about the tails.
    """
    shards = [{"part": [part]} for part in (0.1, 0.6, 0.3)]
    return st.Problem(long_tailed, flat, {"x": (2,)}, shards)


def long_tailed_covariance():
    """Of the parameters, with the variance of u by quadrature."""
    u = np.linspace(-200, 200, 400_001)
    density = np.exp(-0.3 * np.sqrt(1 + u**2))
    variance = (u**2 * density).sum() / density.sum()
    unmix = np.linalg.inv(MIXTURE)
    return unmix @ np.diag([variance, 1.0]) @ unmix.T


def worst_stretch(tuning, covariance):
    """The largest |log| of an eigenvalue of the posterior's covariance in tuned coordinates."""
    inverse = np.linalg.inv(tuning.scale)
    return np.abs(np.log(np.linalg.eigvalsh(inverse @ covariance @ inverse.T))).max()


def test_a_pilot_finds_better_coordinates_for_long_tails():
    problem, network = long_tailed_problem(), st.Network.path(3)
    tuning, covariance = tune(problem, network), long_tailed_covariance()
    sent = dataclasses.replace(tuning.sent)
    better = warmup.warm_up(problem, tuning, network, seed=0)
    assert worst_stretch(tuning, covariance) > np.log(6)
    assert worst_stretch(better, covariance) < np.log(warmup.TOLERATED)
    assert better.pilots >= 1
    length = warmup.ADMM_PILOT
    each = length.chains * length.rounds * 2 * network.num_edges
    assert better.sent.messages - sent.messages >= (better.pilots + 1) * each


def test_a_pilot_leaves_gaussian_coordinates_and_is_counted():
    """Levels and parents; the pilot; floods of its mean, its covariance and some of its draws."""
    problem, network = unequal_linear_problem(), IRREGULAR
    tuning = tune(problem, network)
    before = dataclasses.replace(tuning.sent)
    after = warmup.warm_up(problem, tuning, network, seed=0)
    assert after.pilots == 0
    np.testing.assert_array_equal(after.scale, tuning.scale)
    links, depth, dim = 14, 2, 3
    setting_up, (chains, rounds, _) = network.size, warmup.ADMM_PILOT
    assert after.sent.rounds - before.rounds == setting_up + rounds + 3 * depth
    pilot = rounds * chains * links
    assert after.sent.messages - before.messages == setting_up * links + pilot + 3 * links
    flooded = dim + dim**2 + POINTS * dim
    floats = setting_up * links + pilot * dim + links * flooded
    assert after.sent.floats - before.floats == floats
    with jax.enable_x64(True):
        pilots = [warmup.pilot(problem, tuning, Gossip(network), seed) for seed in (0, 0, 1)]
    for one, same, other in zip(*pilots, strict=True):
        np.testing.assert_array_equal(one, same)
        assert np.all(np.not_equal(one, other))


# Many parameters


def test_many_parameters_are_tuned_by_limited_memory():
    """Past `DENSE_DIMENSION` the metric is diagonal; the mode is found from gradients."""
    random = np.random.default_rng(2)
    dim, rows = DENSE_DIMENSION + 20, 60
    X = random.normal(size=(rows, dim)) * np.geomspace(0.3, 3, dim)
    y = (random.logistic(size=rows) < X @ random.normal(size=dim) / 10).astype(float)
    problem = st.models.logistic_regression(X, y, np.arange(rows) % 3, prior_var=0.1)
    network = st.Network.path(3)
    tuning = tune(problem, network)
    means = 1 / (1 + np.exp(-X @ tuning.centre))
    gradient = X.T @ (means - y) + tuning.centre / 0.1
    hessian = (X.T * (means * (1 - means))) @ X + np.eye(dim) / 0.1
    assert gradient @ np.linalg.solve(hessian, gradient) / 2 < 1e-8
    assert tuning.newton_iterations > 3
    np.testing.assert_allclose(tuning.scale, inverse_root(np.diag(hessian)), rtol=1e-8)
    assert tuning.quadratic.shape == (3, dim)
    moved = tuning.problem(problem)
    result = st.sample(moved, network, tuning.sampler, draws=10, chains=2, burn_in=20)
    assert np.all(np.isfinite(result.posterior["beta"].values))


# From end to end


@pytest.mark.parametrize("rung", ["curvature", "midpoint", "metropolis"])
def test_a_rung_samples_a_regression(rung):
    """Against the exact posterior; errors from the effective draws that are promised."""
    problem = paper_problem(5)
    result = st.sample(problem, GRAPHS["ring"], exactness=rung, chains=8, draws=250)
    mean, covariance = problem.exact_posterior()
    draws = result.posterior["beta"].values.reshape(-1, 5, 2)
    effective = len(draws) / 3  # draws are half an autocorrelation time apart
    errors = np.abs(draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    assert errors.max() < 4.5 / np.sqrt(effective)
    spreads = draws.std(axis=0) / np.sqrt(np.diag(covariance))
    assert np.abs(spreads - 1).max() < 4.5 / np.sqrt(2 * effective)

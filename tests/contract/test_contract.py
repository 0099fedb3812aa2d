"""What every sampler in the registry must do, whatever its algorithm."""

from __future__ import annotations

import inspect
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.network import Inbox
from starlings.pytrees import pytree
from starlings.random.addresses import Drawn, Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers.dadmms import NOISE_LAWS, OUTPUTS
from starlings.samplers.metropolis import DECISIONS
from starlings.samplers.names import BUILT_IN as SAMPLERS
from tests.problems import irregular_graph, unequal_linear_problem

SETTINGS = {
    "dadmms": {"rho": 2.0},
    "cadmm": {"rho": 2.0},
    "dsgld": {"step_size": 0.01},
    "dsghmc": {"step_size": 0.05, "friction": 4.0},
    "dula": {"step_size": 0.001, "consensus_step": 0.1},
    "midpoint": {"rho": 2.0},
    "metropolis": {"step_length": 0.5, "flood_rounds": 3},
}
CHOICES = {
    "noise": NOISE_LAWS,
    "output": OUTPUTS,
    "decision": DECISIONS,
}
GRADIENT_NOISE = ("private", "coherent")


def variants():
    """Every sampler with every noise law, output and minibatching that it accepts."""
    for name, cls in SAMPLERS.items():
        fields = inspect.signature(cls).parameters
        options = [{}]
        for choice, values in CHOICES.items():
            if choice in fields:
                options = [{**o, choice: v} for o in options for v in values]
        if "batch_size" in fields:
            options = [{**o, "batch_size": b} for o in options for b in (None, 4)]
        for option in options:
            try:
                sampler = cls(**SETTINGS[name], **option)
            except ValueError:  # other laws are D-ADMMS's alone, curvature's for its iterates
                assert option["noise"] not in GRADIENT_NOISE
                continue
            yield pytest.param(sampler, id=f"{name} {list(option.values())}")


def is_typical(sampler):
    """Enough for what compiles whole runs: every law, every output, and minibatches once each."""
    batched = getattr(sampler, "batch_size", None) is not None
    usual_output = getattr(sampler, "output", "half-noise") == "half-noise"
    noise = getattr(sampler, "noise", None)
    return not (batched and noise == "coherent") and (usual_output or noise not in GRADIENT_NOISE)


def typical():
    return [variant for variant in variants() if is_typical(variant.values[0])]


every_sampler = pytest.mark.parametrize("sampler", list(variants()))
typical_samplers = pytest.mark.parametrize("sampler", typical())


def test_every_registered_sampler_is_covered():
    assert set(SETTINGS) == set(SAMPLERS)


def flock(sampler, dtype=np.float64, chains=2):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    agents = loop.prepared(sampler, problem.agents(network, dtype))
    positions = jnp.asarray(np.random.default_rng(0).normal(size=(chains, 6, 3)), dtype)
    keys = chain_keys(0, chains, 6)
    return sampler, agents, loop.Wiring.of(network, dtype), positions, keys


@every_sampler
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_shapes_and_dtypes_survive_a_round(sampler, dtype):
    with jax.enable_x64(dtype == "float64"):
        sampler, agents, wiring, positions, keys = flock(sampler, np.dtype(dtype))
        states = loop.start(sampler, agents, positions, keys).states
        after, info = loop.one_round(sampler, agents, wiring, states, 1, keys)
        draws = loop.draws_of(sampler, agents, after, 2, keys)
    before = jax.tree.map(lambda a: (a.shape, a.dtype), states)
    assert before == jax.tree.map(lambda a: (a.shape, a.dtype), after)
    assert draws.shape == positions.shape
    assert draws.dtype == positions.dtype
    assert info.residual.shape == positions.shape[:2]
    assert info.residual.dtype == positions.dtype
    assert np.all(np.isfinite(draws))


@typical_samplers
def test_messages_are_flat_floats_of_the_promised_size(sampler):
    with jax.enable_x64(True):
        sampler, agents, _, positions, keys = flock(sampler)
        states = loop.start(sampler, agents, positions, keys).states
        one = jax.tree.map(lambda a: a[0, 0], states)
        assert sampler.message(one).shape == (sampler.card.floats(3),)


@every_sampler
def test_jit_equals_eager(sampler):
    with jax.enable_x64(True):
        sampler, agents, wiring, positions, keys = flock(sampler, chains=1)
        states = loop.start(sampler, agents, positions, keys).states
        index = getattr(sampler, "flood_rounds", 1)  # where the first candidate is drawn
        eager, _ = loop.one_round(sampler, agents, wiring, states, index, keys)
        jitted, _ = jax.jit(loop.one_round)(sampler, agents, wiring, states, index, keys)
    for a, b in zip(jax.tree.leaves(eager), jax.tree.leaves(jitted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@typical_samplers
def test_one_trace_serves_burn_in_sampling_and_other_settings(sampler):
    """Chunks of other lengths, another seed and other numbers in the fields do not recompile."""
    traces = []

    class Counted(type(sampler)):
        def step(self, *arguments):
            traces.append(1)
            return super().step(*arguments)

    pytree(Counted)
    fields = {name: getattr(sampler, name) for name in inspect.signature(type(sampler)).parameters}
    other = {k: 0.9 * v if isinstance(v, float) else v for k, v in fields.items()}
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    with jax.enable_x64(True):
        agents = problem.agents(network)
        positions = jnp.zeros((2, 6, 3))
        for settings, seed in ((fields, 1), (other, 2)):
            schedule = Schedule(draws=37, burn_in=23, thin=2)
            counted = Counted(**settings)
            loop.run(counted, agents, network, positions, seed, schedule)
    assert len(traces) == 1


SHARED_PER_ROUND = {"coherent": 1, "curvature": 1, "coherent-curvature": 2}
SHARED_PER_DECISION = {"factorised": 1, "sum": 2}


def shared_draws(sampler):
    """How often an agent draws what all agents draw with it, in two cycles of rounds."""
    if isinstance(sampler, st.CADMM):
        return 0
    if hasattr(sampler, "decision"):
        return 2 * SHARED_PER_DECISION[sampler.decision]
    return 2 * SHARED_PER_ROUND.get(getattr(sampler, "noise", "coherent"), 0)


@typical_samplers
def test_no_key_is_used_twice(sampler, monkeypatch):
    """Over agents, chains and rounds, each random call of a run has a key of its own.

    Shared noise is the exception by design: all agents of a chain draw it from one key.
    """
    used = []
    for name in ("normal", "exponential", "randint"):
        original = getattr(jax.random, name)

        def spy(key, *args, _original=original, **kwargs):
            used.append(bytes(np.asarray(jax.random.key_data(key))))
            return _original(key, *args, **kwargs)

        monkeypatch.setattr(jax.random, name, spy)
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    count = Counter()
    with jax.enable_x64(True), jax.disable_jit():
        agents = problem.agents(network)
        agent_keys, network_keys = chain_keys(0, 2, 6)
        inbox = Inbox(*[jnp.zeros(sampler.card.floats(3))] * 3)
        for chain, i in np.ndindex(2, 6):
            used.clear()
            agent = jax.tree.map(lambda a, i=i: a[i], agents)
            rounds = [Round(k, agent_keys[chain, i], network_keys[chain]) for k in range(20)]
            state = sampler.init(agent, jnp.zeros(3), rounds[0])
            for k in range(1, 2 * getattr(sampler, "cycle", 1) + 1):
                state, _ = sampler.step(agent, state, inbox, rounds[k])
            assert len(set(used)) == len(used), "by one agent of one chain"
            count.update(used)
    owners = sorted(count.values())
    assert set(owners) <= {1, 6}, "its own, or all agents' of one chain"
    assert owners.count(6) == 2 * shared_draws(sampler)
    assert owners.count(1) + owners.count(6) > 0 or isinstance(sampler, st.CADMM)


@pytest.mark.parametrize("kind", ["shared_noise", "private_noise"])
def test_noise_that_is_drawn_ahead_serves_only_who_asks_for_just_that(kind):
    own, common = chain_keys(0, 1, 1)
    with jax.enable_x64(True):
        ahead = jnp.full(3, 7.0)
        served = Round(4, own[0, 0], common[0], Drawn(ahead, ahead))
        alone = Round(4, own[0, 0], common[0])
        np.testing.assert_array_equal(getattr(served, kind)(jnp.zeros(3)), ahead)
        for other in (jnp.zeros(2), jnp.zeros(3, np.float32)):
            found, wanted = (getattr(round, kind)(other) for round in (served, alone))
            assert found.dtype == other.dtype
            np.testing.assert_array_equal(found, wanted)


@typical_samplers
def test_draws_depend_on_the_seed_alone(sampler):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    run = lambda **kw: st.sample(problem, network, sampler, burn_in=5, **kw).posterior.beta.values  # noqa: E731
    first = run(draws=20, chains=3, seed=4)
    np.testing.assert_array_equal(first, run(draws=20, chains=3, seed=4))
    alone = run(draws=20, chains=1, seed=4)  # a chain alone takes other forms of some sums
    np.testing.assert_allclose(first[:1], alone, rtol=1e-12, atol=1e-14)
    thinned = run(draws=20, chains=3, seed=4, thin=2)
    np.testing.assert_allclose(first[:, 1::2], thinned[:, :10], rtol=1e-12)
    if not isinstance(sampler, st.CADMM):
        assert np.abs(first - run(draws=20, chains=3, seed=5)).min() > 0


@pytest.mark.parametrize("dim", [1, 2, 8, 9])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_chain_does_not_depend_on_how_many_there_are(dim, dtype):
    """One, few and many chains multiply small matrices in different ways."""
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(4, dim, dim))
    problem = st.models.gaussian(
        roots @ roots.swapaxes(1, 2) + np.eye(dim), rng.normal(size=(4, dim))
    )
    settings = {"draws": 5, "burn_in": 20, "thin": 4, "check": False, "precision": dtype}

    def first_chain(chains):
        drawn = st.sample(problem, st.Network.ring(4), st.DADMMS(1.0), chains=chains, **settings)
        return drawn.posterior["x"].values[0]

    rounding = 1e-12 if dtype == "float64" else 1e-4
    for chains in (3, 33):
        np.testing.assert_allclose(
            first_chain(1), first_chain(chains), rtol=rounding, atol=rounding
        )


def test_a_step_without_a_minimum_stops_a_run_that_prepares_nothing():
    class Unprepared(st.DADMMS):
        def prepare(self, agent):
            return agent

    sampler = pytree(Unprepared)(1.0)
    problem = st.models.gaussian([[[-50.0]], [[60.0]], [[1.0]]])
    network = st.Network.ring(3).matched_to(problem.sites)
    with jax.enable_x64(True):
        arguments = (sampler, problem.agents(network), network, jnp.ones((1, 3, 1)), 0)
        with pytest.raises(st.DivergenceError, match=r"agent '0' diverged in round 1 "):
            loop.run(*arguments, Schedule(4, thin=50))


@pytest.mark.parametrize("thin", [1, 8, 21])
def test_what_a_gpu_does_with_large_states_changes_nothing(thin, monkeypatch):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    sampler, schedule = st.DADMMS(rho=2.0), Schedule(draws=7, burn_in=11, thin=thin)

    def drawn():
        loop.advance.clear_cache()
        with jax.enable_x64(True):
            agents = problem.agents(network)
            recording = loop.run(sampler, agents, network, jnp.ones((2, 6, 3)), 3, schedule)
        return recording.joined().position

    usual, chosen = drawn(), []

    def as_on_a_gpu(*arguments, cpu, default):
        chosen.append(default.__name__)
        return default(*arguments)

    monkeypatch.setattr(loop, "LARGE_STATES", 1)
    monkeypatch.setattr(jax.lax, "platform_dependent", as_on_a_gpu)
    np.testing.assert_allclose(usual, drawn(), rtol=1e-12)
    assert "in_blocks" in chosen


def test_products_keep_all_digits(logistic_problem):
    """On a GPU products of float32 would lose half of their digits by default."""
    sampler = st.DADMMS(rho=2.0)
    for problem in (unequal_linear_problem(), logistic_problem):
        network = st.Network.ring(problem.num_agents).matched_to(problem.sites)
        with jax.enable_x64(False):
            agents = loop.prepared(sampler, problem.agents(network, np.dtype("float32")))
            positions = jnp.zeros((2, problem.num_agents, problem.dim), jnp.float32)
            keys = chain_keys(0, 2, problem.num_agents)
            flock = loop.start(sampler, agents, positions, keys)
            wiring = loop.Wiring.of(network, np.dtype("float32"))
            traced = jax.make_jaxpr(partial(loop.advance.__wrapped__, sampler, capacity=1))(
                agents, wiring, keys, 1e9, flock, 1, 1
            )
        assert "HIGHEST" in str(traced)
        assert "precision=None" not in str(traced)


@pytest.mark.parametrize(
    "sampler", [v for v in typical() if not getattr(v.values[0], "common_start", False)]
)
def test_agents_only_read_their_inbox(sampler):
    """Changing a far agent's state does not move an agent in one round, and does in enough.

    Where all agents have to start at one point, `test_metropolis` follows a single bit instead.
    """
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    positions = np.zeros((1, 6, 3))
    moved = positions.copy()
    moved[0, 5] += 1.0  # agent 5 hangs on agent 4; agent 1 is three hops away
    runs = [
        st.sample(problem, network, sampler, draws=3, chains=1, burn_in=0, initial=start)
        for start in (positions, moved)
    ]
    change = np.abs(runs[0].posterior.beta.values - runs[1].posterior.beta.values).max(axis=-1)
    assert change[0, 0, 1] == 0
    assert change[0, 1, 1] == 0
    assert change[0, 2, 1] > 0

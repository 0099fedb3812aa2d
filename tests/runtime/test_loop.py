"""How the loop over rounds computes: noise ahead of time, chains together, all digits."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.pytrees import pytree
from starlings.random.addresses import Drawn, Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from tests.problems import irregular_graph, unequal_linear_problem
from tests.quick import quick_cases


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


@pytest.mark.slow
@pytest.mark.parametrize("dim", quick_cases([1, 2, 8, 9], [2]))
@pytest.mark.parametrize("dtype", quick_cases(["float64", "float32"], ["float64"]))
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_products_keep_all_digits(logistic_problem):
    """On a GPU products of float32 would lose half of their digits by default."""
    sampler = st.DADMMS(rho=2.0)
    for problem in (unequal_linear_problem(), logistic_problem):
        network = st.Network.ring(problem.num_agents).matched_to(problem.sites)
        with jax.enable_x64(False):
            agents = loop.prepared(sampler, problem.agents(network, np.dtype("float32")))
            positions = jnp.zeros((2, problem.num_agents, problem.dim), jnp.float32)
            keys = chain_keys(0, 2, problem.num_agents)
            states = loop.start(sampler, agents, positions, keys)
            wiring = loop.Wiring.of(network, np.dtype("float32"))
            traced = jax.make_jaxpr(partial(loop.advance.__wrapped__, sampler, capacity=1))(
                agents, wiring, keys, 1e9, states, 1, 1
            )
        assert "HIGHEST" in str(traced)
        assert "precision=None" not in str(traced)

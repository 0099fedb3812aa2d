"""Samplers with a coordinator: its place, its rounds, its share of the prior, its messages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.problem.agent import sum_over
from starlings.problem.hub import PRIORS
from starlings.testing import SamplerContract
from starlings.theory import Law, Recursion, Stacked, register_law
from starlings.theory.hub_laws import law_of_iterates
from tests.problems import logistic_rows, unequal_linear_problem


@st.pytree
@dataclass(frozen=True)
class Summed(st.HubSampler):
    """Langevin steps of the hub, with the sum of the gradients of all sites."""

    step_size: Any

    step_field = "step_size"
    card = st.Card("Summed", "position; gradient", 1, "first order in the step", "a test")

    def at_site(self, agent, state, heard, round):
        return st.HubState(heard, agent.gradient(heard))

    def at_hub(self, agent, state, total, round):
        x, eta = state.position, self.step_size
        x = x - eta * total + jnp.sqrt(2 * eta) * round.private_noise(x)
        return st.HubState(x, x)


@register_law(Summed)
def summed_law(s: Stacked, sampler: Summed) -> Law:
    dim, eta = s.shape[1], sampler.step_size
    total = np.tile(np.eye(dim), (1, s.shape[0]))
    H, b = total @ s.H @ total.T, total @ s.b
    return law_of_iterates(
        s, Recursion(np.eye(dim) - eta * H, eta * b, np.sqrt(2 * eta) * np.eye(dim))
    )


class TestSummed(SamplerContract):
    samplers = (pytest.param(Summed(0.05), marks=pytest.mark.slow),)


@pytest.fixture
def problem():
    return unequal_linear_problem()


@pytest.mark.parametrize("prior", PRIORS)
def test_the_posterior_is_the_same_with_a_hub(problem, prior):
    found, network = st.with_hub(problem, prior=prior)
    assert found.sites == ["hub", *problem.sites]
    assert network.names[network.centre] == "hub"
    assert found.num_rows[0] == 0
    for one, other in zip(found.exact_posterior(), problem.exact_posterior(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    with jax.enable_x64(True):
        shares = np.asarray(found.agents(network).prior_share)
    assert float(shares.sum()) == pytest.approx(1.0)
    assert float(shares[0]) == (prior == "hub")
    assert (found.potentials([0.3, -0.2, 0.1])[0] == 0.0) == (prior == "sites")


@pytest.mark.parametrize("prior", PRIORS)
def test_sums_over_agents_have_the_whole_prior(prior):
    """Methods on sums find the pooled potential whoever has the prior."""
    problem = st.models.logistic_regression(*logistic_rows(), prior_std=0.7, intercept=False)
    found, _ = st.with_hub(problem, prior=prior)
    z = np.linspace(-0.3, 0.4, problem.dim)
    wanted = problem.potential(z)
    assert found.potential(z) == pytest.approx(wanted, rel=1e-12)
    with jax.enable_x64(True):
        total = sum_over(found.agents(), lambda agent: agent.potential(z))
    assert float(total) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
def test_other_methods_run_on_a_star_around_a_hub():
    problem = st.models.logistic_regression(*logistic_rows(), intercept=False)
    found, network = st.with_hub(problem)
    how = {"draws": 500, "seed": 1, "progress": False}
    result = st.sample(found, network, method="weights", **how)
    mode = st.theory.posterior_mode(problem)
    sd = np.sqrt(np.diag(st.theory.quadratic_model(problem).exact_posterior()[1]))
    means = result.posterior["beta"].mean(("chain", "draw")).values
    assert np.abs((means - mode) / sd).max() < 0.3
    assert json.loads(result.attrs["data_of"]) == problem.sites


def test_the_hub_has_the_iterates_and_the_sites_have_them_one_round_later(problem):
    found, network = st.with_hub(problem)
    result = st.sample(found, network, Summed(0.01), draws=9, chains=1, burn_in=0, check=False)
    draws = result.posterior["beta"].values[0]
    hub, sites = draws[:, 0], draws[:, 1:]
    np.testing.assert_array_equal(hub[1::2][:-1], hub[2::2][: len(hub[1::2][:-1])])
    for k in range(2, 9, 2):
        np.testing.assert_array_equal(sites[k], np.tile(hub[k - 1], (len(problem.sites), 1)))


def test_rounds_that_are_no_whole_cycles_are_recorded_as_they_are(problem):
    """Draws with `thin` = 3 are every third round of those of a cycle of two."""
    found, network = st.with_hub(problem)
    how = {"chains": 1, "burn_in": 0, "check": False}
    every = st.sample(found, network, Summed(0.01), draws=12, **how).posterior["beta"].values
    third = st.sample(found, network, Summed(0.01), draws=4, thin=3, **how).posterior["beta"].values
    np.testing.assert_array_equal(third, every[:, 2::3])
    hub = every[0, :, 0]
    assert (hub[5] == hub[6]).all()  # rounds 6 and 7 have one iterate
    assert (hub[6] != hub[7]).any()


def test_messages_are_counted_by_their_direction(problem):
    found, network = st.with_hub(problem)
    result = st.sample(found, network, Summed(0.01), draws=5, chains=1, burn_in=0, check=False)
    sent, size = result.sample_stats["messages_sent"].values[0], len(problem.sites)
    np.testing.assert_array_equal(sent[:, 0], [size, size, 2 * size, 2 * size, 3 * size])
    np.testing.assert_array_equal(sent[:, 1:], np.tile([[0], [1], [1], [2], [2]], (1, size)))


def test_a_coordinator_is_asked_for(problem):
    with pytest.raises(ValueError, match="with_hub"):
        st.sample(problem, st.Network.star(len(problem.sites)), Summed(0.01), draws=1)
    found, _ = st.with_hub(problem)
    with pytest.raises(ValueError, match="with_hub"):
        st.sample(found, st.Network.ring(found.num_agents), Summed(0.01), draws=1)


def test_a_hub_that_tuning_gave_a_part_of_the_potentials_is_refused(problem):
    found, network = st.with_hub(problem)
    slopes, curvatures = np.zeros((found.num_agents, 3)), np.zeros((found.num_agents, 3))
    Summed(0.01).check(found.affine(np.ones(3), np.ones(3), slopes, curvatures), network)
    slopes[:2] = [[1.0], [-1.0]]
    with pytest.raises(ValueError, match="give the original problem"):
        Summed(0.01).check(found.affine(np.ones(3), np.ones(3), slopes, curvatures), network)

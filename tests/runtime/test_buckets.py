"""Groups of agents change what is computed, never what is drawn."""

import re

import jax
import numpy as np
import pytest

import starlings as st
from starlings.problem.shards import padded_length, stacked
from starlings.runtime import buckets, loop
from starlings.runtime.buckets import Groups, Stack, grouped
from starlings.runtime.recording import Schedule
from starlings.runtime.rounds import NOTHING
from starlings.sampling import start_positions
from tests.quick import quick_cases

SIZES = (3, 90, 4, 100, 5, 17, 2)


def unequal_logistic(sizes=SIZES, dim=3):
    rng = np.random.default_rng(0)
    sites = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sites), dim))
    return st.models.logistic_regression(X, rng.integers(0, 2, len(sites)), sites, intercept=False)


def test_long_shards_get_a_group_of_their_own():
    with jax.enable_x64(True):
        agents = unequal_logistic().agents(st.Network.ring(len(SIZES)))
        groups = grouped(agents)
        assert isinstance(groups, Groups)
        members = [np.asarray(group).tolist() for group in groups.members]
        assert members == [[3, 1], [5, 4, 2, 0, 6]]
        for group, numbers in zip(groups.stacks, members, strict=True):
            assert group.row_weights.shape[1] == padded_length(max(SIZES[i] for i in numbers))


def test_like_shards_and_quadratics_stay_together():
    X = np.random.default_rng(0).normal(size=(100, 2))
    linear = st.models.linear_regression(X, X[:, 0], [0] * 99 + [1], noise_std=1.0, intercept=False)
    with jax.enable_x64(True):
        assert isinstance(grouped(unequal_logistic((50, 60, 70)).agents()), Stack)
        assert isinstance(grouped(linear.agents()), Stack)


SAMPLERS = [
    st.DADMMS(2.0),
    st.DADMMS(2.0, noise="private"),
    st.DADMMS(2.0, noise="curvature", output="iterate"),
    st.MidpointADMMS(2.0),
    st.Metropolis(0.3, 2, "sum"),
    st.DSGLD(1e-3, batch_size=2),
    st.DSGHMC(1e-3, friction=5.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "dim"),
    [(sampler, 3) for sampler in SAMPLERS] + [(sampler, 12) for sampler in SAMPLERS[1:3]],
    ids=str,
)
def test_draws_are_the_same_with_and_without_groups(sampler, dim, monkeypatch):
    """With noise drawn ahead, and drawn by every agent for itself."""
    problem, network = unequal_logistic(dim=dim), st.Network.star(len(SIZES))

    def draws():
        with jax.enable_x64(True):
            start = start_positions(problem, sampler, None, 2, 0, np.float64)
            plan = Schedule(draws=20, burn_in=5, thin=2)
            agents = problem.agents(network)
            return loop.run(sampler, agents, network, start, 3, plan).joined().position

    in_groups = draws()
    monkeypatch.setattr(buckets, "WORTHWHILE", np.inf)
    monkeypatch.setattr(loop, "noise_ahead", lambda *_: NOTHING)
    loop.advance.clear_cache()
    np.testing.assert_allclose(draws(), in_groups, rtol=1e-10, atol=1e-12)


def test_each_agent_meets_its_own_entry():
    with jax.enable_x64(True):
        agents = unequal_logistic().agents()
        numbers = np.arange(len(SIZES))
        pairs = grouped(agents).each(lambda agent, i: (agent.index, agent.num_rows, i), numbers)
    np.testing.assert_array_equal(pairs[0], numbers)
    np.testing.assert_array_equal(pairs[1], SIZES)
    np.testing.assert_array_equal(pairs[2], numbers)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [SIZES, (5, 5, 5)])
@pytest.mark.parametrize("is_moved", quick_cases([False, True], [True]))
def test_a_sum_over_agents_is_that_of_their_own_values(sizes, is_moved):
    """Also in coordinates with tilts, which differ from agent to agent and sum to zero."""
    problem, rng = unequal_logistic(sizes), np.random.default_rng(1)
    if is_moved:
        tilts = rng.normal(size=(len(sizes), 3)), rng.normal(size=(len(sizes), 3, 3))
        centred = (tilt - tilt.mean(axis=0) for tilt in tilts)
        problem = problem.affine(rng.normal(size=3), np.diag([1.0, 2.0, 3.0]), *centred)
    z = rng.normal(size=3)
    with jax.enable_x64(True):
        agents = grouped(problem.agents())
        found = jax.value_and_grad(lambda q: agents.sum_over(lambda a: a.potential(q)))(z)
        parts = agents.each(lambda agent: (agent.potential(z), agent.gradient(z)))
    for total, part in zip(found, parts, strict=True):
        np.testing.assert_allclose(total, np.asarray(part).sum(axis=0), rtol=1e-12)


def test_what_agents_have_in_common_is_computed_once():
    """The exponential of all coordinates is taken and differentiated once, not by every agent."""
    problem = st.Problem(
        lambda p, row: -row["y"] * jax.numpy.exp(p["x"]).sum(),
        lambda p: -(p["x"] @ p["x"]),
        {"x": st.Parameter((7,))},
        [{"y": np.ones(2)} for _ in range(3)],
    )
    with jax.enable_x64(True):
        agents = grouped(problem.affine(np.zeros(7), np.eye(7)).agents())
        program = jax.make_jaxpr(
            jax.grad(lambda q: agents.sum_over(lambda agent: agent.potential(q)))
        )(np.zeros(7))
    shapes = [
        re.search(r"f64(\[.*\])", line)[1] for line in str(program).split("\n") if "= exp" in line
    ]
    assert shapes == ["[7]"]


def test_lengths_are_rounded_up_by_an_eighth_at_most():
    for length in (1, 7, 15, 16, 17, 50, 200, 1000, 12345):
        assert length <= padded_length(length) <= 1.125 * length + 1
    assert {padded_length(length) for length in range(49, 53)} == {52}
    rows, weights = stacked([{"y": np.arange(3.0)}, {"y": np.arange(10.0, 15.0)}])
    np.testing.assert_array_equal(rows["y"][0], [0, 1, 2, 0, 0])
    np.testing.assert_array_equal(weights.sum(axis=1), [3, 5])

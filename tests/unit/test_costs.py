"""How often agents of every sampler go through their rows, and how many messages they send."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.samplers.names import BUILT_IN
from tests.problems import irregular_graph, logistic_rows, unequal_linear_problem

BALL = st.Ball(1.0)
COSTS = [  # a sampler, and its passes through the rows in a round: quadratic potentials, and others
    (st.DADMMS(1.0), 1, 1),
    (st.DADMMS(1.0, noise="curvature", output="iterate"), 1, 2),
    (st.DADMMS(1.0, noise="coherent-curvature", output="iterate"), 1, 2),
    (st.CADMM(1.0), 1, 1),
    (st.MidpointADMMS(1.0), 1, 1),
    (st.AsyncDADMMS(1.0), 1, 1),
    (st.DSGLD(0.1), 1, 1),
    (st.DSGHMC(0.1, 1.0), 1, 1),
    (st.DULA(0.1, 0.1), 1, 1),
    (st.EventDULA(0.1, 0.1, threshold=0.1), 1, 1),
    (st.GEXTRA(0.1), 1, 1),
    (st.DIGing(0.1), 1, 1),
    (st.DEPSGLD(0.1, BALL, 0.1), 1, 1),
    (st.DPSGLD(0.1, 1.0, 1.0), 1, 1),
    (st.MAHMC(0.1), 1, 1),  # a gradient and a product with the Hessian in two rounds
    (st.MAHMC(0.1, tracking_rounds=2, consensus_rounds=3), 0.4, 0.4),
    (st.NetworkGibbs(1.0), 1, 6),
    (st.PeerLearning(updates=3), 0, 0),  # in the long run
    (st.SPLA(0.1, hops=8), 1 / 8, 1 / 8),
    (st.PULA(0.1), 1, 1),
    (st.PMALA(0.1), 2, 2),  # a proximal step, and a value of the potential
    (st.MYULA(0.1, BALL, 0.1), 1, 1),
    (st.Metropolis(0.5, flood_rounds=3), 1 / 3, 1 / 3),
    (st.Metropolis(0.5, flood_rounds=3, decision="sum"), 1 / 6, 1 / 6),
]
WITH_HUB = [  # the same in the two rounds of a cycle, on average
    (st.FedAvgLangevin(0.1, local_steps=6), 3, 3),
    (st.FALD(0.1, averaging=0.2), 2.5, 2.5),
    (st.VRFALD(0.1, averaging=0.2, refreshing=0.1), 1.1 / 0.8, 1.1 / 0.8),
    (st.ELF(0.1, keep=1), 0.5, 0.5),
]

COSTS_WITH_TIES = [  # the same for samplers with copies at six sites and a hub
    (st.SplitGibbs(1.0), 0.5, 3),
    (st.DGLMC(1.0, local_steps=4), 2, 2),
    (st.GlobalConsensusMC(1.0), 0.5, 3),
    (st.FedPA(0.1), 0, 0),  # in the long run
]

HUB_COSTS = [  # the same with six sites and a hub, whatever the potentials
    (st.DistributedSGLD(0.1), 1 / 12),
    (st.FSGLD(0.1, 4), 4 / 12),
    (st.QLSD(0.1), 1 / 2),
]


def logistic_problem():
    return st.models.logistic_regression(*logistic_rows())


@pytest.mark.parametrize(("sampler", "quadratic", "curved"), COSTS + WITH_HUB, ids=str)
def test_passes_through_the_rows(sampler, quadratic, curved):
    for problem, wanted in ((unequal_linear_problem(), quadratic), (logistic_problem(), curved)):
        assert sampler.gradients_per_round(problem) == pytest.approx(wanted, rel=1e-15)


def test_every_sampler_of_the_library_says_what_it_costs():
    tried = [*COSTS, *WITH_HUB, *COSTS_WITH_TIES, *HUB_COSTS]
    assert {type(sampler) for sampler, *_ in tried} == set(BUILT_IN.values())


@pytest.mark.parametrize(("sampler", "quadratic", "curved"), COSTS_WITH_TIES, ids=str)
def test_passes_through_the_rows_where_copies_are_tied(sampler, quadratic, curved):
    test_passes_through_the_rows(sampler, quadratic, curved)
    found = sampler.gradients_until(np.array([0, 1, 2, 4]), unequal_linear_problem())
    if isinstance(sampler, st.FedPA):
        assert found.tolist() == [0, 200, 200, 400]
    else:
        first = isinstance(sampler, st.DGLMC)  # a Hessian
        assert found.tolist() == [0, *(quadratic * np.array([1, 2, 4]) + first)]


def test_the_search_of_fedpa_ends_with_a_hessian():
    """73 rows at six sites, with and without a hub that has none."""
    problem = unequal_linear_problem()
    sampler = st.FedPA(0.1, updates=2, samples=3, window=2, local_burn_in=4, batch_size=2)
    for each in (problem, st.with_hub(problem)[0]):
        found = sampler.gradients_until(np.array([1, 3, 4, 5, 60]), each)
        search = 10 * 2 * 6 / 73
        wanted = [search, 2 * search, 2 * search, 2 * search + 1, 2 * search + 1]
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize(("sampler", "wanted"), HUB_COSTS, ids=str)
def test_passes_through_the_rows_at_sites_with_a_hub(sampler, wanted):
    problem, _ = st.with_hub(unequal_linear_problem(), prior=sampler.prior_at)
    assert sampler.gradients_per_round(problem) == pytest.approx(wanted, rel=1e-15)
    rounds = np.array([0, 1, 2, 3, 60])
    found = sampler.gradients_until(rounds, problem)
    if isinstance(sampler, st.FSGLD):  # a search and derivatives; then it moves from cycle 2 on
        np.testing.assert_allclose(found, [0, 2, 2, 2 + wanted, 2 + 58 * wanted], rtol=1e-14)
    else:
        np.testing.assert_array_equal(found, rounds * sampler.gradients_per_round(problem))


@pytest.mark.parametrize("sampler", [sampler for sampler, *_ in COSTS], ids=str)
def test_passes_add_up_over_the_rounds(sampler):
    problem, rounds = logistic_problem(), np.array([0, 1, 3, 60])
    found = sampler.gradients_until(rounds, problem)
    if isinstance(sampler, st.PeerLearning):  # a search and a Hessian, as long as there are data
        assert found.tolist() == [0, 2, 6, 6]
    else:
        np.testing.assert_array_equal(found, rounds * sampler.gradients_per_round(problem))


def test_minibatches_count_by_their_share():
    problem = unequal_linear_problem()  # 73 rows at 6 sites
    found = st.GEXTRA(0.1, batch_size=2).gradients_per_round(problem)
    assert found == pytest.approx(2 * 6 / 73, rel=1e-15)


SENDS_BY_TURNS = (st.SPLA,)


@pytest.mark.parametrize(
    "sampler", [s for s, *_ in COSTS if type(s) not in SENDS_BY_TURNS], ids=str
)
def test_all_agents_send_to_all_neighbours_in_every_round_at_most(sampler):
    network = st.Network(irregular_graph())
    found = sampler.messages_until(np.array([0, 1, 7]), network)
    np.testing.assert_array_equal(found, np.outer([0, 1, 7], [4, 2, 2, 2, 3, 1]))

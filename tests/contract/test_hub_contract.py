"""Samplers with a coordinator keep the contract of `starlings.testing`, on a star around a hub."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.samplers.names import BUILT_IN
from starlings.testing import RULES, SamplerContract, keys, runs
from starlings.testing.trial import Trial
from tests.contract.test_contract import QUICK_RULES, RULES_OF_RUNS
from tests.problems import paper_problem, unequal_linear_problem

SAMPLERS = {
    "distributed-sgld": (
        st.DistributedSGLD(0.02, (1, 3, 2, 1, 2, 1), visits="cyclic"),
        st.DistributedSGLD(0.02, 2, batch_size=4),
    ),
    "fsgld": (st.FSGLD(0.02, 2), st.FSGLD(0.02, (1, 2, 1, 3, 1, 2), "cyclic", batch_size=4)),
    "qlsd": (
        st.QLSD(0.05, participants=2, batch_size=4, refresh=2),
        st.QLSD(0.05, "plain", levels=None),
        st.QLSD(0.05, "fixed-point", batch_size=4, mode=np.array([0.9, -1.8, 0.4])),
    ),
    "fa-ld": (
        st.FedAvgLangevin(0.001, 3, 0.5),
        st.FedAvgLangevin(0.001, 3, 0.5, batch_size=4),
        st.FedAvgLangevin(0.001, 3, 0.5, participants=2, weights=[1.0, 2.0, 1.0, 2.0, 3.0, 1.0]),
        st.FedAvgLangevin(0.001, 3, 0.5, participants=2, with_replacement=False),
    ),
    "fald": (
        st.FALD(0.005, averaging=0.4, shared_part=0.5),
        st.FALD(0.005, averaging=0.4, shared_part=0.5, batch_size=4),
    ),
    "vr-fald": (
        st.VRFALD(0.005, averaging=0.8, refreshing=0.2, shared_part=0.5),
        st.VRFALD(0.005, averaging=0.8, refreshing=0.2, shared_part=0.5, batch_size=4),
    ),
    "elf": (
        st.ELF(0.005, keep=1),
        st.ELF(0.005, keep=2, form="bidirectional", entries="random"),
    ),
    "fedpa": (st.FedPA(0.1, updates=1, samples=3, window=2, local_burn_in=3),),
    "split-gibbs": (st.SplitGibbs(0.5), st.SplitGibbs(0.5, alpha=0.4)),
    "dg-lmc": (st.DGLMC(0.3, local_steps=2),),
    "gcmc": (st.GlobalConsensusMC(0.3),),
}
"""Samplers by name, with settings that take every way through their code; the first has
all rules."""
WITH_ANOTHER_LAW = (
    st.FedAvgLangevin(0.2, 3, 0.4, weights=[1.0, 40.0, 3.0, 7.0, 20.0, 2.0]),
    st.FALD(1.5, averaging=1.0, shared_part=0.4),
    st.ELF(0.3, "primal"),
    st.SplitGibbs(0.6),
    st.DGLMC([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], step_scale=1.5),
    st.FedPA(0.1, 0.8, 0.0, 0.5, updates=3, samples=2, window=2, local_burn_in=3),
)
"""Settings with a law, or with another one; long steps show most."""
FIRST = [pytest.param(samplers[0], id=name) for name, samplers in SAMPLERS.items()]
FURTHER = [
    pytest.param(sampler, id=f"{name} {number}")
    for name, samplers in SAMPLERS.items()
    for number, sampler in enumerate(samplers[1:])
]


def is_deaf(sampler):
    """Whether what a site knows need not move the others within the rounds that the rule looks at.

    A site that is not visited changes nothing for the others, and in QLSD* linear terms cancel.
    """
    is_visit = type(sampler) is st.DistributedSGLD
    return is_visit or getattr(sampler, "form", None) == "fixed-point"


class TestQuick(SamplerContract):
    problem, network = st.with_hub(unequal_linear_problem())
    samplers = (st.SplitGibbs(0.5),)
    rules = QUICK_RULES


@pytest.mark.slow
class TestAtHub(SamplerContract):
    samplers = tuple(param for param in FIRST if not is_deaf(param.values[0]))
    rules = tuple(rule for rule in RULES if rule not in RULES_OF_RUNS)


@pytest.mark.thorough
class TestRuns(SamplerContract):
    samplers = tuple(FIRST)
    rules = RULES_OF_RUNS


@pytest.mark.slow
class TestDeafToOthers(SamplerContract):
    samplers = tuple(param for param in FIRST if is_deaf(param.values[0]))
    rules = tuple(
        rule for rule in RULES if rule not in (runs.agents_only_read_their_inbox, *RULES_OF_RUNS)
    )


@pytest.mark.thorough
class TestFurtherSettings(SamplerContract):
    samplers = FURTHER
    rules = (*QUICK_RULES, keys.no_key_is_used_twice)


@pytest.mark.slow
class TestVisitsOfTwoSites(SamplerContract):
    samplers = (st.DistributedSGLD(0.02, (2, 1), visits="cyclic"),)
    rules = (runs.agents_only_read_their_inbox,)
    problem, network = st.with_hub(paper_problem(2), prior="hub")


@pytest.mark.slow
class TestLaws(SamplerContract):
    samplers = WITH_ANOTHER_LAW
    rules = (runs.draws_have_the_registered_law,)


def test_every_sampler_with_a_hub_is_covered():
    assert set(SAMPLERS) == {name for name, cls in BUILT_IN.items() if cls.needs_hub}


def shared_draws(sampler):
    """How often the hub and all sites draw alike in two cycles, a whole number by two keys."""
    is_random = getattr(sampler, "visits", "cyclic") == "random"
    return 2 * 2 * (int(is_random) + (getattr(sampler, "participants", None) or 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["distributed-sgld", "fsgld", "qlsd"])
def test_visits_and_participants_are_drawn_as_often_as_the_equations_say(name):
    for sampler in SAMPLERS[name]:
        used = keys.keys_used(Trial.of(sampler=sampler), sampler)
        assert used.shared == keys.KEY_CHAINS * shared_draws(sampler)

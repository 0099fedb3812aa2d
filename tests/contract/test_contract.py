"""Every sampler of the library keeps the contract of `starlings.testing`."""

from __future__ import annotations

import inspect

import pytest

import starlings as st
from starlings.samplers.dadmms import ADMM_NOISE_LAWS, OUTPUTS
from starlings.samplers.mahmc import FORMS
from starlings.samplers.metropolis import DECISIONS
from starlings.samplers.names import BUILT_IN
from starlings.samplers.peer_learning import CALIBRATIONS, FAMILIES
from starlings.testing import RULES, SamplerContract, keys, rules, runs
from starlings.testing.trial import Trial
from tests.problems import irregular_graph, unequal_linear_problem

SETTINGS = {
    "dadmms": {"rho": 2.0},
    "cadmm": {"rho": 2.0},
    "dsgld": {"step_size": 0.01},
    "dpsgld": {"step_size": 0.01, "clip": 1.0, "noise_multiplier": 20.0, "secret": bytes(32)},
    "dsghmc": {"step_size": 0.05, "friction": 4.0},
    "dula": {"step_size": 0.001, "consensus_step": 0.1},
    "event-dula": {"step_size": 0.001, "consensus_step": 0.1, "threshold": 0.1},
    "gextra": {"step_size": 0.01},
    "diging": {"step_size": 0.01},
    "peer-learning": {"updates": 2},
    "depsgld": {"step_size": 0.01, "support": st.Box(-0.5, 0.5), "smoothing": 0.1},
    "gibbs": {"rho": 2.0},
    "mahmc": {"step_size": 0.1, "consensus_rounds": 2},
    "fedpa": {"client_step": 0.1, "updates": 1, "samples": 3, "window": 2, "local_burn_in": 3},
    "split-gibbs": {"rho": 0.5, "alpha": 0.4},
    "dg-lmc": {"variance": 0.3, "local_steps": 2},
    "gcmc": {"variance": 0.3},
    "midpoint": {"rho": 2.0},
    "async-dadmms": {"rho": 2.0},
    "metropolis": {"step_length": 0.5, "flood_rounds": 3},
    "fa-ld": {"step_size": 0.001, "local_steps": 3, "shared_part": 0.5},
    "fald": {"step_size": 0.005, "averaging": 0.4, "shared_part": 0.5},
    "vr-fald": {"step_size": 0.005, "averaging": 0.8, "refreshing": 0.2, "shared_part": 0.5},
    "elf": {"step_size": 0.005},
}
WITH_HUB = {
    "fa-ld": (
        {},
        {"batch_size": 4},
        {"participants": 2, "weights": [1.0, 2.0, 1.0, 2.0, 3.0, 1.0]},
        {"participants": 2, "with_replacement": False},
    ),
    "fald": ({}, {"batch_size": 4}),
    "vr-fald": ({}, {"batch_size": 4}),
    "elf": ({"keep": 1}, {"keep": 2, "form": "bidirectional", "entries": "random"}),
}
"""Further settings, by name, of the samplers that need a hub."""
CHOICES = {
    "noise": ADMM_NOISE_LAWS,
    "output": OUTPUTS,
    "decision": DECISIONS,
    "form": FORMS,
    "family": FAMILIES,
    "calibration": CALIBRATIONS,
}
GRADIENT_NOISE = ("private", "coherent")
LONG_RULES = (runs.draws_are_those_of_a_plain_loop, runs.draws_have_the_registered_law)
"""Rules that compile the most."""
COMMON_RULES = tuple(r for r in RULES if r not in (*LONG_RULES, keys.no_key_is_used_twice))
"""Rules for every sampler; keys are counted by a test of their own below."""
QUICK_SAMPLERS = (
    st.DADMMS(2.0),
    st.Metropolis(0.5, flood_rounds=3, decision="sum"),
)
"""Samplers that the quick suite tries: one with proximal steps, one with a protocol of several
rounds."""
QUICK_RULES = (
    rules.shapes_and_dtypes_survive_a_round,
    rules.compiled_rounds_can_be_replayed_eagerly_from_any_round,
)
"""Rules that do not compile whole runs."""


def variants():
    """Every sampler with every noise law, output and minibatching that it accepts."""
    for name, cls in BUILT_IN.items():
        if cls.needs_hub:
            continue
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
                assert option["noise"] not in (("private",) if cls.is_private else GRADIENT_NOISE)
                continue
            yield pytest.param(sampler, id=f"{name} {list(option.values())}")


def variants_with_hub():
    """Every sampler that needs a hub, with the settings above."""
    for name, options in WITH_HUB.items():
        for option in options:
            sampler = BUILT_IN[name](**SETTINGS[name], **option)
            yield pytest.param(sampler, id=f"{name} {list(option)}")


def is_typical(sampler):
    """Enough for what compiles whole runs: every law, every output, and minibatches once each."""
    batched = getattr(sampler, "batch_size", None) is not None
    usual_output = getattr(sampler, "output", "half-noise") == "half-noise"
    noise = getattr(sampler, "noise", None)
    if isinstance(sampler, st.MAHMC):
        return sampler.form != "published-unadjusted"
    if isinstance(sampler, st.PeerLearning):
        is_full = sampler.family == "full"
        return sampler.calibration == "network" and is_full == (noise == "private")
    return not (batched and noise == "coherent") and (usual_output or noise not in GRADIENT_NOISE)


def without_hub(variants):
    """Those that run on any network."""
    return [variant for variant in variants if not variant.values[0].needs_hub]


def with_hub(variants, prior):
    """Those that need a coordinator, and the prior at the sites or at the hub."""
    found = [variant for variant in variants if variant.values[0].needs_hub]
    return [variant for variant in found if variant.values[0].prior_at == prior]


TYPICAL = [variant for variant in variants() if is_typical(variant.values[0])]
QUICK = [variant for variant in TYPICAL if variant.values[0] in QUICK_SAMPLERS]
ALL_TYPICAL = [
    v if v in QUICK else pytest.param(*v.values, id=v.id, marks=pytest.mark.slow) for v in TYPICAL
]
HUB_VARIANTS = list(variants_with_hub())
UNUSUAL = [variant for variant in variants() if not is_typical(variant.values[0])]


class OnUnequalSites(SamplerContract):
    problem = unequal_linear_problem()
    network = st.Network(irregular_graph())


class TestQuick(OnUnequalSites):
    samplers = QUICK
    rules = COMMON_RULES


@pytest.mark.slow
class TestTypical(OnUnequalSites):
    samplers = tuple(variant for variant in without_hub(TYPICAL) if variant not in QUICK)
    rules = COMMON_RULES


@pytest.mark.slow
class TestUnusual(OnUnequalSites):
    samplers = without_hub(UNUSUAL)
    rules = QUICK_RULES


class OnUnequalSitesWithHub(SamplerContract):
    problem, network = st.with_hub(unequal_linear_problem())


class TestQuickWithHub(OnUnequalSitesWithHub):
    samplers = (st.SplitGibbs(0.5),)
    rules = QUICK_RULES


@pytest.mark.slow
class TestTypicalWithHub(OnUnequalSitesWithHub):
    samplers = tuple(with_hub(TYPICAL, "sites"))
    rules = COMMON_RULES


@pytest.mark.slow
class TestTypicalWithPriorAtHub(SamplerContract):
    problem, network = st.with_hub(unequal_linear_problem(), prior="hub")
    samplers = tuple(with_hub(TYPICAL, "hub"))
    rules = COMMON_RULES


@pytest.mark.slow
class TestUnusualWithHub(OnUnequalSitesWithHub):
    samplers = with_hub(UNUSUAL, "sites")
    rules = QUICK_RULES


class OnUnequalSitesWithHub(SamplerContract):
    problem, network = st.with_hub(unequal_linear_problem())


class TestQuickWithHub(OnUnequalSitesWithHub):
    samplers = (st.ELF(0.005, keep=1),)
    rules = QUICK_RULES


@pytest.mark.slow
class TestWithHub(OnUnequalSitesWithHub):
    samplers = tuple(HUB_VARIANTS)
    rules = COMMON_RULES


@pytest.mark.slow
class TestWithHubAtLength(SamplerContract):
    samplers = tuple(HUB_VARIANTS)
    rules = LONG_RULES


@pytest.mark.slow
class TestLawsWithLocalSteps(SamplerContract):
    """Settings with a law, and long steps."""

    samplers = (
        st.FedAvgLangevin(0.2, 3, 0.4, weights=[1.0, 40.0, 3.0, 7.0, 20.0, 2.0]),
        st.FALD(1.5, averaging=1.0, shared_part=0.4),
        st.ELF(0.3, "primal"),
    )
    rules = (runs.draws_have_the_registered_law,)


@pytest.mark.slow
class TestExample(SamplerContract):
    """The rules that compile the most, on the problems that anybody's sampler is tried on."""

    samplers = (st.DSGLD(step_size=0.1),)
    rules = LONG_RULES


@pytest.mark.slow
class TestTypicalAtLength(SamplerContract):
    samplers = TYPICAL
    rules = LONG_RULES


@pytest.mark.slow
class TestLawsOfSamplersWithHub(SamplerContract):
    """Settings with a law, or with another one, beside those of `SETTINGS`."""

    samplers = (
        st.SplitGibbs(0.6),
        st.DGLMC([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], step_scale=1.5),
        st.FedPA(0.1, 0.8, 0.0, 0.5, updates=3, samples=2, window=2, local_burn_in=3),
    )
    rules = (runs.draws_have_the_registered_law,)


def test_every_sampler_of_the_library_is_covered():
    assert set(SETTINGS) == set(BUILT_IN)
    assert set(WITH_HUB) == {name for name, cls in BUILT_IN.items() if cls.needs_hub}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", HUB_VARIANTS)
def test_no_key_is_used_twice_with_a_hub(sampler):
    keys.no_key_is_used_twice(Trial.of(sampler=sampler), sampler)


SHARED_PER_ROUND = {"coherent": 1, "curvature": 1, "coherent-curvature": 2}
SHARED_PER_DECISION = {"factorised": 1, "sum": 2}


def shared_draws(sampler):
    """How often an agent draws what all agents draw with it, in two cycles of rounds."""
    if sampler.draws_nothing or isinstance(sampler, (st.MAHMC, st.NetworkGibbs)):
        return 0
    if isinstance(sampler, (st.FedPA, st.SplitGibbs, st.DGLMC, st.GlobalConsensusMC)):
        return 0
    if sampler.reads_each:
        return 1  # at the start; ticks are drawn in a loop, which the count does not look into
    if hasattr(sampler, "decision"):
        return 2 * SHARED_PER_DECISION[sampler.decision]
    return 2 * SHARED_PER_ROUND.get(getattr(sampler, "noise", "coherent"), 0)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ALL_TYPICAL)
def test_no_key_is_used_twice_and_shared_noise_as_often_as_the_equations_say(sampler):
    used = keys.keys_used(Trial.of(sampler=sampler), sampler)
    assert used.shared == keys.KEY_CHAINS * shared_draws(sampler)

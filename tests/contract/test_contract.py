"""Every sampler of the library keeps the contract of `starlings.testing`.

Those with a coordinator are in `test_hub_contract`.
"""

from __future__ import annotations

import inspect

import pytest

import starlings as st
from starlings.samplers.dadmms import ADMM_NOISE_LAWS, OUTPUTS
from starlings.samplers.mahmc import FORMS
from starlings.samplers.metropolis import DECISIONS
from starlings.samplers.names import BUILT_IN
from starlings.samplers.peer_learning import CALIBRATIONS, FAMILIES
from starlings.samplers.spla import FIRST_STEPS
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
    "depsgld": {"step_size": 0.01, "penalty": st.Box(-0.5, 0.5), "smoothing": 0.1},
    "spla": {"step_size": 0.2, "hops": 9},
    "pula": {"step_size": 0.1},
    "pmala": {"step_size": 0.1},
    "myula": {"step_size": 0.02, "penalty": st.Ridge(2.0), "smoothing": 0.1},
    "gibbs": {"rho": 2.0},
    "mahmc": {"step_size": 0.1, "consensus_rounds": 2},
    "midpoint": {"rho": 2.0},
    "async-dadmms": {"rho": 2.0},
    "metropolis": {"step_length": 0.5, "flood_rounds": 3},
}
CHOICES = {
    "noise": ADMM_NOISE_LAWS,
    "output": OUTPUTS,
    "decision": DECISIONS,
    "form": FORMS,
    "family": FAMILIES,
    "calibration": CALIBRATIONS,
    "first": FIRST_STEPS,
}
AT_ONE_PLACE = [name for name, kind in BUILT_IN.items() if kind.needs_one_place]
PENALISED = (
    st.DADMMS(2.0, penalty=st.Lasso((0.0, 1.0, 2.0))),
    st.CADMM(2.0, st.Ball(0.5)),
    st.DEPSGLD(0.01, st.Lasso((0.0, 1.0, 2.0)), smoothing=0.1),
    st.SPLA(0.2, hops=8, penalty=st.GroupLasso(1.0, (0, 1, 1))),
)
"""Samplers with other penalties than `SETTINGS` has."""
GRADIENT_NOISE = ("private", "coherent")
LONG_RULES = (runs.draws_are_those_of_a_plain_loop, runs.draws_have_the_registered_law)
"""Rules that compile the most."""
COMMON_RULES = tuple(r for r in RULES if r not in (*LONG_RULES, keys.no_key_is_used_twice))
"""Rules for every sampler; keys are counted by a test of their own below."""
RULES_OF_RUNS = (runs.one_trace_serves_all_settings, runs.draws_depend_on_the_seed_alone)
"""Rules for which several whole runs are made."""
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
    """Every sampler of a network with every choice that it accepts."""
    for name in SETTINGS:
        cls = BUILT_IN[name]
        if cls.needs_one_place:
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


def is_typical(sampler):
    """Enough for what compiles whole runs: every law and output of D-ADMMS, minibatches once."""
    noise = getattr(sampler, "noise", None)
    if isinstance(sampler, st.MAHMC):
        return sampler.form != "published-unadjusted"
    if isinstance(sampler, st.PeerLearning):
        is_full = sampler.family == "full"
        return sampler.calibration == "network" and is_full == (noise == "private")
    if isinstance(sampler, st.DADMMS):
        return sampler.output == "half-noise" or noise not in GRADIENT_NOISE
    is_batched = getattr(sampler, "batch_size", None) is not None
    if isinstance(sampler, st.DSGLD):
        return not (is_batched and noise == "coherent")
    return not is_batched and noise != "coherent"  # their noise and minibatches are those of D-SGLD


TYPICAL = [variant for variant in variants() if is_typical(variant.values[0])]
QUICK = [variant for variant in TYPICAL if variant.values[0] in QUICK_SAMPLERS]
ALL_TYPICAL = [
    v if v in QUICK else pytest.param(*v.values, id=v.id, marks=pytest.mark.slow) for v in TYPICAL
]
UNUSUAL = [variant for variant in variants() if not is_typical(variant.values[0])]


FIELD = ("dsghmc", "dula", "event-dula", "gextra", "diging", "depsgld", "peer-learning", "mahmc")
"""Samplers whose rules of whole runs are thorough tests: only their step is their own."""
OF_FIELD = tuple(v for v in TYPICAL if v.id.split()[0] in FIELD)


class OnUnequalSites(SamplerContract):
    problem = unequal_linear_problem()
    network = st.Network(irregular_graph())


class TestQuick(OnUnequalSites):
    samplers = QUICK
    rules = COMMON_RULES


@pytest.mark.slow
class TestTypical(OnUnequalSites):
    samplers = tuple(v for v in TYPICAL if v not in QUICK and v not in OF_FIELD)
    rules = COMMON_RULES


@pytest.mark.slow
class TestField(OnUnequalSites):
    samplers = OF_FIELD
    rules = tuple(rule for rule in COMMON_RULES if rule not in RULES_OF_RUNS)


@pytest.mark.thorough
class TestRunsOfField(OnUnequalSites):
    samplers = OF_FIELD
    rules = RULES_OF_RUNS


@pytest.mark.thorough
class TestUnusual(OnUnequalSites):
    samplers = UNUSUAL
    rules = QUICK_RULES


@pytest.mark.slow
class TestPenalised(OnUnequalSites):
    samplers = PENALISED
    rules = QUICK_RULES


@pytest.mark.slow
class TestOnePlace(SamplerContract):
    """Samplers of one agent, with all rows."""

    samplers = tuple(BUILT_IN[name](**SETTINGS[name]) for name in AT_ONE_PLACE)


@pytest.mark.slow
class TestPenalisedAtOnePlace(SamplerContract):
    samplers = (
        st.PULA(0.1, st.Lasso(1.0)),
        st.PMALA(0.1, st.Box(-0.5, 1.0)),
        st.MYULA(0.02, st.Ball(1.0), smoothing=0.1),
    )
    rules = QUICK_RULES


@pytest.mark.slow
class TestExample(SamplerContract):
    """The rules that compile the most, on the problems that anybody's sampler is tried on."""

    samplers = (st.DSGLD(step_size=0.1),)
    rules = LONG_RULES


@pytest.mark.slow
class TestTypicalAtLength(SamplerContract):
    samplers = tuple(variant for variant in TYPICAL if variant not in OF_FIELD)
    rules = LONG_RULES


@pytest.mark.thorough
class TestFieldAtLength(SamplerContract):
    samplers = OF_FIELD
    rules = LONG_RULES


def test_every_sampler_of_the_library_is_covered():
    assert set(SETTINGS) == {name for name, cls in BUILT_IN.items() if not cls.needs_hub}


SHARED_PER_ROUND = {"coherent": 1, "curvature": 1, "coherent-curvature": 2}
SHARED_PER_DECISION = {"factorised": 1, "sum": 2}


def shared_draws(sampler):
    """How often an agent draws what all agents draw with it, in two cycles of rounds."""
    if sampler.draws_nothing or isinstance(sampler, (st.MAHMC, st.NetworkGibbs, st.SPLA)):
        return 0
    if sampler.reads_each:
        return 1  # at the start; ticks are drawn in a loop, which the count does not look into
    if hasattr(sampler, "decision"):
        return 2 * SHARED_PER_DECISION[sampler.decision]
    return 2 * SHARED_PER_ROUND.get(getattr(sampler, "noise", "coherent"), 0)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ALL_TYPICAL)
def test_no_key_is_used_twice_and_shared_noise_as_often_as_the_equations_say(sampler):
    used = keys.keys_used(Trial.of(), sampler)
    assert used.shared == keys.KEY_CHAINS * shared_draws(sampler)

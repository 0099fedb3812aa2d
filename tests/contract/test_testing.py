"""The contract of samplers can be broken: for every rule there is a sampler that breaks it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.samplers.names import BUILT_IN
from starlings.testing import RULES, check_sampler, keys, rules, runs

CARD = st.Card("Plain", "position x_i", 1, "first order in the step", "nobody 2026")


@st.pytree
@dataclass(frozen=True)
class Plain(st.Sampler):
    """Gossip and a Langevin step: keeps the contract."""

    step_size: Any = 0.1
    card: ClassVar[st.Card] = CARD

    def init(self, agent, position, round):
        return st.PositionState(position)

    def step(self, agent, state, inbox, round):
        x = state.position
        kick = jnp.sqrt(2 * self.step_size) * self.noise(round, x)
        x = self.mixed(x, inbox) - self.step_size * agent.gradient(x) + kick
        return st.PositionState(x), st.no_info(x)

    def mixed(self, x, inbox):
        return inbox.mix

    def noise(self, round, x):
        return round.private_noise(x)


class Unregistered(st.Sampler):
    card = CARD

    def init(self, agent, position, round):
        return st.PositionState(position)

    def step(self, agent, state, inbox, round): ...


@st.pytree
@dataclass(frozen=True)
class TextAsNumber(Plain):
    how: str = "fast"


class RefusesWithoutWords(Plain):
    def check(self, problem, network):
        raise KeyError("rows")


class Narrow(Plain):
    def init(self, agent, position, round):
        return st.PositionState(position.astype(np.float32))


class WordyState(NamedTuple):
    position: Any
    key: Any


class HoldsAKey(Plain):
    def init(self, agent, position, round):
        return WordyState(position, round.batch_key())

    def step(self, agent, state, inbox, round):
        return WordyState(*super().step(agent, state, inbox, round)[0], state.key), st.no_info(
            state.position
        )


class Talkative(Plain):
    card = st.Card("Talkative", "position and more", 2, "none", "nobody 2026")


class ReturnsItsState(Plain):
    def step(self, agent, state, inbox, round):
        return super().step(agent, state, inbox, round)[0]


class StepOfNoField(Plain):
    step_field = "eta"


class NoSuchNoise(Plain):
    noises = ("privat",)


class NoiseAsText(Plain):
    noises = "private"


class AnotherNoise(Plain):
    noises = ("shared",)


MEMORY = [0.0]


class Remembers(Plain):
    def step(self, agent, state, inbox, round):
        MEMORY[0] += 1.0
        state, info = super().step(agent, state, inbox, round)
        return st.PositionState(state.position + MEMORY[0]), info


class NoiseTwice(Plain):
    def noise(self, round, x):
        return round.private_noise(x) + round.private_noise(x)


class KeyTwice(Plain):
    def noise(self, round, x):
        key = round.batch_key()
        return jax.random.normal(key, x.shape, x.dtype) + jax.random.gumbel(key, x.shape, x.dtype)


class OwnSeed(Plain):
    def noise(self, round, x):
        return jax.random.normal(jax.random.fold_in(jax.random.key(1), round.index), x.shape)


class Silent(Plain):
    def noise(self, round, x):
        return jnp.zeros_like(x)


@st.pytree
@dataclass(frozen=True)
class Selects(Plain):
    """A number that selects code."""

    step_size: Any = st.choice(default=0.1)  # noqa: RUF009


class SameNoise(Plain):
    """The same noise for every seed."""

    def init(self, agent, position, round):
        return st.PositionState(0 * position)

    def noise(self, round, x):
        return jnp.sin(round.index + agent_numbers(x))


def agent_numbers(x):
    return jnp.arange(x.size, dtype=x.dtype)


class Deaf(Plain):
    def mixed(self, x, inbox):
        return x


class TooNoisy(Plain):
    """Noise that is 5 % too large."""

    def noise(self, round, x):
        return 1.05 * round.private_noise(x)


class NoisyAgent(Plain):
    """The draws of agent 0 have a variance that is 10 % too large."""

    def draw(self, agent, state, upcoming):
        return state.position * jnp.where(agent.index == 0, np.sqrt(1.1), 1.0)


class NoisyAgents(Plain):
    """The draws of all agents have variances that are 3 % too large."""

    def draw(self, agent, state, upcoming):
        return state.position * np.sqrt(1.03)


class TooFlat(Plain):
    """Gradients that are 10 % too small."""

    def step(self, agent, state, inbox, round):
        state, info = super().step(agent, state, inbox, round)
        back = 0.1 * self.step_size * agent.gradient(state.position)
        return st.PositionState(state.position + back), info


class CountedState(NamedTuple):
    position: Any
    count: Any


class Whispers(Plain):
    """It says that it sends its position every second round, and tells it in every round."""

    card = CARD

    def init(self, agent, position, round):
        return CountedState(position, jnp.zeros((), jnp.int32))

    def step(self, agent, state, inbox, round):
        moved, info = super().step(agent, state, inbox, round)
        return CountedState(moved.position, state.count + round.index % 2), info

    def broadcasts(self, state):
        return state.count


class CountsFromOne(Whispers):
    def broadcasts(self, state):
        return state.count + 1


class CountsTwice(Whispers):
    def broadcasts(self, state):
        return 2 * state.count


class WhispersUnderMasks(Whispers):
    card = dataclasses.replace(CARD, masked_as="mix")


@st.theory.register_law(Plain)
@st.theory.register_law(TooNoisy)
@st.theory.register_law(NoisyAgent)
@st.theory.register_law(NoisyAgents)
@st.theory.register_law(TooFlat)
def plain_law(s, sampler):
    eta = float(sampler.step_size)
    noise = np.sqrt(2 * eta) * s.private_noise
    return st.theory.Law.constant(
        s.shape, st.theory.Recursion(s.lift(s.W) - eta * s.H, eta * s.b, noise)
    )


BROKEN = {
    Unregistered: (rules.is_a_frozen_dataclass_with_a_card, "must be a frozen dataclass"),
    TextAsNumber: (rules.is_a_frozen_dataclass_with_a_card, r"make it with `starlings\.choice`"),
    RefusesWithoutWords: (rules.check_refuses_with_a_value_error, "it raised KeyError: 'rows'"),
    Narrow: (rules.shapes_and_dtypes_survive_a_round, "`step` changes the state from"),
    HoldsAKey: (rules.shapes_and_dtypes_survive_a_round, "a state must hold no key"),
    ReturnsItsState: (
        rules.shapes_and_dtypes_survive_a_round,
        r"`step` must return \(state, info\).*got PositionState",
    ),
    StepOfNoField: (
        rules.class_attributes_agree_with_the_step,
        r"one of the fields \['step_size'\], got 'eta'",
    ),
    NoSuchNoise: (rules.class_attributes_agree_with_the_step, r"'shared'\), got \('privat',\)"),
    NoiseAsText: (rules.class_attributes_agree_with_the_step, "tuple of some .* got 'private'"),
    AnotherNoise: (rules.class_attributes_agree_with_the_step, r"`noises` names \['shared'\]"),
    Talkative: (rules.message_has_the_size_on_the_card, r"must be \(6,\) of float64.*got \(3,\)"),
    Whispers: (
        rules.messages_that_are_not_counted_repeat_the_last_one,
        "the message of round 2 differs from the last one",
    ),
    CountsFromOne: (rules.messages_that_are_not_counted_repeat_the_last_one, "0 in round 0"),
    CountsTwice: (rules.messages_that_are_not_counted_repeat_the_last_one, r"rises by \[2"),
    WhispersUnderMasks: (
        rules.messages_that_are_not_counted_repeat_the_last_one,
        "silence cannot be masked",
    ),
    Remembers: (rules.compiled_rounds_can_be_replayed_eagerly_from_any_round, "compiled and eager"),
    NoiseTwice: (keys.no_key_is_used_twice, "call each method of `Round` once"),
    KeyTwice: (keys.no_key_is_used_twice, "JAX finds that a random key is used twice"),
    OwnSeed: (keys.no_key_is_used_twice, "not from a seed of your own"),
    Silent: (keys.no_key_is_used_twice, "no random number was drawn"),
    Selects: (runs.one_trace_serves_all_settings, "`step` was traced 2 times"),
    SameNoise: (runs.draws_depend_on_the_seed_alone, "another seed has some of the same draws"),
    Deaf: (runs.agents_only_read_their_inbox, "`step` has to use its inbox"),
    NoisyAgent: (runs.draws_have_the_registered_law, "standard errors from the registered law"),
    NoisyAgents: (runs.draws_have_the_registered_law, "standard errors from the registered law"),
    TooFlat: (runs.draws_have_the_registered_law, "standard errors from the registered law"),
    TooNoisy: (runs.draws_have_the_registered_law, "standard errors from the registered law"),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_sampler_that_breaks_a_rule_is_refused(kind):
    rule, text = BROKEN[kind]
    if "__dataclass_fields__" not in vars(kind) and issubclass(kind, Plain):
        st.pytree(kind)
    with pytest.raises(AssertionError, match=text):
        check_sampler(kind(), rules=[rule])


def test_a_class_is_no_sampler():
    with pytest.raises(st.ContractError, match=r"give an instance, `Plain\(\.\.\.\)`"):
        check_sampler(Plain)


class SendsTooMuch(Plain):
    def message(self, state):
        return jnp.concatenate([state.position, state.position])


def test_a_message_of_the_wrong_size_is_named_before_it_is_used():
    st.pytree(SendsTooMuch)
    with pytest.raises(st.ContractError, match=r"`message` must be \(3,\)"):
        check_sampler(SendsTooMuch())


@pytest.mark.parametrize(
    "rule", [keys.no_key_is_used_twice, rules.shapes_and_dtypes_survive_a_round]
)
def test_a_step_without_a_report_is_refused_by_every_rule_that_steps(rule):
    with pytest.raises(st.ContractError, match="`step` must return"):
        check_sampler(ReturnsItsState(), rules=[rule])


class TunedToNothing(Plain):
    @classmethod
    def tuned(cls, unit, **choices):
        cls(step_size=unit.step)  # and no `return`


def test_a_rule_for_settings_that_returns_nothing_is_refused():
    problem = st.models.gaussian(np.full((3, 1, 1), 0.5))
    with pytest.raises(TypeError, match=r"`tuned` of TunedToNothing must return a sampler.*None"):
        st.sample(problem, st.Network.path(3), TunedToNothing, progress=False)


class LawOfThree(Plain):
    pass


def test_a_law_function_that_returns_no_law_is_refused():
    st.theory.register_law(LawOfThree, lambda stacked, sampler: 3)
    with pytest.raises(TypeError, match=r"registered for LawOfThree must return.*Law`, got 3"):
        st.theory.has_law(LawOfThree())


class Conserving(Plain):
    step_field = "step_size"


def test_a_law_with_a_conserved_sum_says_so_instead_of_a_limit():
    @st.theory.register_law(Conserving)
    def conserving_law(s, sampler):
        """The law of `Plain`, and duals z' = W z that nothing reads, whose sum is conserved."""
        T, c, B = plain_law(s, sampler).recursion(1)
        rest = 1.000000000000001 * s.lift(s.W)  # rounding errors above 1
        step = st.theory.Recursion(
            np.block([[T, 0 * T], [0 * T, rest]]), np.tile(c, 2), np.vstack([B, 0 * B])
        )
        return st.theory.Law.constant(s.shape, step)

    problem = st.models.gaussian(np.full((3, 1, 1), 0.5))
    with pytest.raises(st.StabilityError, match=r"the eigenvalue 1 at every `step_size`.*prior"):
        st.sample(problem, st.Network.path(3), Conserving(0.1), draws=2, progress=False)


@pytest.mark.slow
def test_every_rule_has_a_sampler_that_breaks_it():
    unbroken = set(RULES) - {rule for rule, _ in BROKEN.values()}
    assert unbroken == {runs.draws_are_those_of_a_plain_loop}  # which the runtime could break


@pytest.mark.slow
def test_a_sampler_that_keeps_them_passes():
    assert check_sampler(Plain(0.1)) == {}  # and there is no rule that was not tried


def test_rules_that_cannot_be_tried_are_named_with_the_reason():
    asked = [runs.agents_only_read_their_inbox, runs.draws_have_the_registered_law]
    together = BUILT_IN["metropolis"](step_length=0.5, flood_rounds=3)
    untried = check_sampler(together, rules=asked)
    assert list(untried) == [rule.__name__ for rule in asked]
    assert all("start at one point" in reason for reason in untried.values())


@pytest.mark.slow
def test_a_small_problem_and_network_can_be_given():
    problem = st.models.gaussian(np.full((3, 1, 1), 0.5))
    check_sampler(Plain(0.1), problem, st.Network.path(3))


@pytest.mark.slow
def test_pytest_is_not_needed():
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import starlings.testing; print(len(starlings.testing.RULES))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"{len(RULES)}\n", done.stderr

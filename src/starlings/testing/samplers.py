"""The contract of samplers as tests: for pytest `SamplerContract`, for anybody `check_sampler`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar

from starlings.network import Network
from starlings.problem import Problem
from starlings.samplers import Sampler
from starlings.testing import keys, rules, runs
from starlings.testing.rules import Rule
from starlings.testing.trial import Trial

RULES: tuple[Rule, ...] = (
    rules.is_a_frozen_dataclass_with_a_card,
    rules.check_refuses_with_a_value_error,
    rules.message_has_the_size_on_the_card,
    rules.messages_that_are_not_counted_repeat_the_last_one,
    rules.shapes_and_dtypes_survive_a_round,
    rules.class_attributes_agree_with_the_step,
    rules.compiled_rounds_can_be_replayed_eagerly_from_any_round,
    keys.no_key_is_used_twice,
    runs.one_trace_serves_all_settings,
    runs.draws_depend_on_the_seed_alone,
    runs.draws_are_those_of_a_plain_loop,
    runs.agents_only_read_their_inbox,
    runs.draws_have_the_registered_law,
)
"""What every sampler has to do: functions (trial, sampler) that raise a `ContractError` if not, and
return None, or the reason why the rule cannot be tried with this sampler."""


def check_sampler(
    sampler: Sampler,
    problem: Problem | None = None,
    network: Network | None = None,
    rules: Sequence[Rule] = RULES,
) -> dict[str, str]:
    """Raise a `ContractError` where a sampler does not do what every sampler has to.

    Returns the rules that could not be tried with this sampler: their names, and why.

    Args:
        sampler: a sampler with its settings.
        problem: on which it is tried; by default a linear regression in three dimensions at six
            sites with 1 to 40 rows, whose potentials have curvatures between 0 and 2.
        network: by default one of six agents with one to four neighbours each; for samplers that
            need a hub a star around one, and for those that need one place a single agent.
        rules: some of `RULES`; by default all.
    """
    trial = Trial.of(problem, network, sampler)
    outcomes = {rule.__name__: rule(trial, sampler) for rule in rules}
    return {name: reason for name, reason in outcomes.items() if reason is not None}


class SamplerContract:
    """Base class of a pytest class: every sampler of the list against every rule, one test each.

    from starlings.testing import SamplerContract

    class TestMine(SamplerContract):
        samplers = [MySampler(0.1), MySampler(0.1, noise="private")]
    """

    samplers: ClassVar[Sequence[Any]] = ()
    """Samplers with their settings, or `pytest.param` of them."""
    problem: ClassVar[Problem | None] = None
    """The problem on which they are tried; see `check_sampler` for the default."""
    network: ClassVar[Network | None] = None
    """The network on which they are tried; see `check_sampler` for the default."""
    rules: ClassVar[Sequence[Rule]] = RULES
    """The rules that they are tested against."""

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Called by pytest: makes one test for each sampler and rule."""
        if "rule" in metafunc.fixturenames:
            metafunc.parametrize("sampler", self.samplers, ids=str)
            metafunc.parametrize("rule", self.rules, ids=lambda rule: rule.__name__)

    def test_contract(self, sampler: Sampler, rule: Rule) -> None:
        """One rule for one sampler; skipped, with the reason, where it cannot be tried."""
        reason = rule(Trial.of(self.problem, self.network, sampler), sampler)
        if reason is not None:
            importlib.import_module("pytest").skip(reason)

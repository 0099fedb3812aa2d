"""Classes of one shape never share a compiled program."""

from __future__ import annotations

import itertools
import pydoc
from dataclasses import dataclass, fields
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import starlings as st
from starlings.pytrees import choice, pytree
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers.dadmms import DADMMSState
from starlings.samplers.dsghmc import DSGHMCState
from starlings.samplers.names import BUILT_IN as SAMPLERS


def lookalikes(count: int) -> list[type]:
    """Classes with one field, alike but for what they say they are."""

    def kind(number: int) -> type:
        @pytree
        @dataclass(frozen=True)
        class Lookalike:
            rate: float

            def name(self) -> int:
                return number

        return Lookalike

    return [kind(number) for number in range(count)]


@pytest.mark.slow
def test_a_program_is_compiled_for_its_own_class():
    @jax.jit
    def named(thing):
        return thing.rate + thing.name()

    kinds = lookalikes(200)
    for first, second in zip(kinds[::2], kinds[1::2], strict=True):
        assert float(named(first(0.0))) == first(0.0).name()
        assert float(named(second(0.0))) == second(0.0).name()
    assert [float(named(kind(0.0))) for kind in kinds] == list(range(200))


def test_structures_of_lookalikes_differ_and_those_of_one_class_do_not():
    structures = [jax.tree.structure(kind(1.0)) for kind in lookalikes(30)]
    for one, other in itertools.combinations(structures, 2):
        assert one != other
    kind = lookalikes(1)[0]
    assert jax.tree.structure(kind(1.0)) == jax.tree.structure(kind(2.0))


def test_a_subclass_does_not_run_the_loop_of_its_parent():
    @pytree
    @dataclass(frozen=True)
    class Slower(st.DULA):
        def steps_at(self, k):
            return tuple(step / 4 for step in super().steps_at(k))

    problem, network = st.models.gaussian(jnp.ones((3, 1, 1))), st.Network.ring(3)

    def positions(sampler):
        with jax.enable_x64(True):
            agents, start = problem.agents(network), jnp.ones((1, 3, 1))
            recording = loop.run(sampler, agents, network, start, 0, Schedule(5))
        return recording.joined().position

    plain = positions(st.DULA(0.01, 0.1))
    assert abs(positions(Slower(0.01, 0.1)) - plain).max() > 1e-3
    assert abs(positions(Slower(0.04, 0.4)) - plain).max() < 1e-12


def test_samplers_know_their_class():
    def structure(kind):
        """The tree structure of an object of this class, with the same choices for every class."""
        thing = object.__new__(kind)
        for f in fields(kind):
            object.__setattr__(thing, f.name, None if f.metadata.get("static") else 1.0)
        return jax.tree.structure(thing)

    for one, other in itertools.combinations(SAMPLERS.values(), 2):
        assert structure(one) != structure(other)


def test_states_of_one_shape_differ_too():
    class Other(NamedTuple):
        position: float
        velocity: float

    assert jax.tree.structure(Other(1.0, 2.0)) != jax.tree.structure(DSGHMCState(1.0, 2.0))
    assert jax.tree.structure(DSGHMCState(1.0, 2.0)) != jax.tree.structure(DADMMSState(1.0, 2.0))


def test_choices_are_structure_and_numbers_are_leaves():
    @pytree
    @dataclass(frozen=True)
    class Rule:
        rate: float
        law: str = choice(default="a")

        def __post_init__(self):
            assert isinstance(self.rate, float), "only those who make one have to give numbers"

    assert jax.tree.structure(Rule(1.0)) != jax.tree.structure(Rule(1.0, "b"))
    doubled = jax.tree.map(lambda rate: jnp.asarray(2 * rate), Rule(1.5, "b"))
    assert (float(doubled.rate), doubled.law) == (3.0, "b")
    paths = [str(path) for (path,), _ in jax.tree_util.tree_leaves_with_path(Rule(1.0))]
    assert paths == [".rate"]


def test_help_explains_a_field_that_selects_code():
    assert "selects code" in pydoc.render_doc(st.choice)
    assert "partial" not in pydoc.render_doc(st.choice)

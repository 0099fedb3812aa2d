"""What counts as trouble, which of several is told, and what is said of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.runtime.divergence import first_trouble, no_trouble, watched

SMALL, LIMIT = 1e-9, 100.0
NAMES = ["north", "south", "west"]


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def looks(*at_rounds):
    """Look at (round, positions, residuals) of two chains of three agents, one after the other."""
    trouble = no_trouble((2, 3))
    for round, positions, residuals in at_rounds:
        trouble = watched(trouble, round, jnp.asarray(positions), jnp.asarray(residuals), LIMIT)
    return first_trouble(trouble, NAMES, st.DADMMS(1.0))


def sound(dim=2):
    return np.ones((2, 3, dim)), np.full((2, 3), SMALL)


def with_entry(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


def test_sound_iterates_are_no_trouble():
    assert looks((5, *sound())) is None
    at_the_limit = np.full((2, 3, 2), LIMIT)
    assert looks((5, at_the_limit, np.full((2, 3), 6e-6))) is None


@pytest.mark.parametrize("dim", [1, 2, 9])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (101.0, "its position exploded"),
        (-101.0, "its position exploded"),
        (np.nan, "its position is no longer finite"),
        (np.inf, "its position is no longer finite"),
    ],
)
def test_one_entry_of_one_agent_is_enough(dim, value, text):
    positions, residuals = sound(dim)
    found = looks((7, with_entry(positions, (1, 2, dim - 1), value), residuals))
    assert found.round == 7
    assert found.text.startswith(f"agent 'west' diverged in round 7 of chain 1: {text}. ")


@pytest.mark.parametrize(
    ("residual", "text"),
    [
        (6.2e-6, "its proximal step did not converge"),
        (np.nan, "its position is no longer finite"),
        (np.inf, "its position is no longer finite"),
    ],
)
def test_residuals_that_are_too_large_are_trouble(residual, text):
    positions, residuals = sound()
    found = looks((3, positions, with_entry(residuals, (0, 1), residual)))
    assert found.text.startswith(f"agent 'south' diverged in round 3 of chain 0: {text}. ")


def test_the_first_trouble_is_told_whatever_comes_after():
    positions, residuals = sound()
    bad, worse = with_entry(residuals, (1, 2), 1.0), with_entry(positions, (0, 0, 0), np.nan)
    found = looks((3, positions, bad), (4, positions, residuals), (5, worse, residuals))
    assert found.text.startswith("agent 'west' diverged in round 3 of chain 1: its proximal step")


def test_the_cause_that_is_likely_depends_on_the_sampler():
    positions, residuals = sound()
    trouble = watched(no_trouble((2, 3)), 2, jnp.asarray(10 * LIMIT * positions), residuals, LIMIT)
    by_gradient = first_trouble(trouble, NAMES, st.DSGLD(0.1)).text
    assert "a step too large for this problem" in by_gradient
    assert "a log-density that overflows" in first_trouble(trouble, NAMES, st.CADMM(1.0)).text

"""What counts as a divergence, which of several is reported, and what the report says."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.runtime.divergence import first_divergence, no_divergence, watched

SMALL, LIMIT = 1e-9, 100.0
NAMES = ["north", "south", "west"]


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def checked(*at_rounds):
    """Check (round, positions, residuals) of two chains of three agents, one after the other."""
    codes = no_divergence((2, 3))
    for round, positions, residuals in at_rounds:
        codes = watched(codes, round, jnp.asarray(positions), jnp.asarray(residuals), LIMIT)
    return first_divergence(codes, NAMES, st.DADMMS(1.0))


def sound(dim=2):
    return np.ones((2, 3, dim)), np.full((2, 3), SMALL)


def with_entry(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


def test_sound_iterates_are_no_divergence():
    assert checked((5, *sound())) is None
    at_the_limit = np.full((2, 3, 2), LIMIT)
    assert checked((5, at_the_limit, np.full((2, 3), 6e-6))) is None


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
    found = checked((7, with_entry(positions, (1, 2, dim - 1), value), residuals))
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
def test_residuals_that_are_too_large_are_divergences(residual, text):
    positions, residuals = sound()
    found = checked((3, positions, with_entry(residuals, (0, 1), residual)))
    assert found.text.startswith(f"agent 'south' diverged in round 3 of chain 0: {text}. ")


def test_the_first_divergence_is_reported_whatever_comes_after():
    positions, residuals = sound()
    bad, worse = with_entry(residuals, (1, 2), 1.0), with_entry(positions, (0, 0, 0), np.nan)
    found = checked((3, positions, bad), (4, positions, residuals), (5, worse, residuals))
    assert found.text.startswith("agent 'west' diverged in round 3 of chain 1: its proximal step")


def test_the_cause_that_is_likely_depends_on_the_sampler():
    positions, residuals = sound()
    divergence = watched(
        no_divergence((2, 3)), 2, jnp.asarray(10 * LIMIT * positions), residuals, LIMIT
    )
    by_gradient = first_divergence(divergence, NAMES, st.DSGLD(0.1)).text
    assert "a step too large for this problem" in by_gradient
    assert "a log-density that overflows" in first_divergence(divergence, NAMES, st.CADMM(1.0)).text

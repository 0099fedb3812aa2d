"""Potentials at candidates: the same for blocks of any size, in memory that does not grow."""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest

import starlings as st
from starlings.methods import evaluation
from starlings.methods.evaluation import largest_divisor, potentials_at
from starlings.problem.shards import padded_length
from starlings.runtime.buckets import Groups, Stack, grouped


def regression(sizes, dim=3, kind="logistic"):
    rng = np.random.default_rng(0)
    sites = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sites), dim))
    if kind == "linear":
        return st.models.linear_regression(X, X[:, 0], sites, noise_std=1.0, intercept=False)
    return st.models.logistic_regression(X, rng.integers(0, 2, len(sites)), sites, intercept=False)


def moved(problem):
    """The problem in other coordinates, with tilts that sum to zero."""
    rng, agents, dim = np.random.default_rng(1), problem.num_agents, problem.dim
    linear, quadratic = rng.normal(size=(agents, dim)), rng.normal(size=(agents, dim, dim))
    linear, quadratic = linear - linear.mean(axis=0), quadratic - quadratic.mean(axis=0)
    scale = np.eye(dim) + np.tri(dim, k=-1)
    return problem.affine(np.ones(dim), scale, linear_tilt=linear, quadratic_tilt=quadratic)


@jax.jit
def at_once(agents, points):
    return agents.each(lambda agent: jax.vmap(agent.potential)(points))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("problem", "stacking"),
    [
        (moved(regression((90, 100, 70))), Stack),
        (regression((3, 90, 4, 100, 5, 17, 2)), Groups),
        (moved(regression((9, 10, 7), kind="linear")), Stack),
    ],
    ids=["tilted", "grouped", "quadratic"],
)
def test_blocks_of_any_size_give_the_potential_of_every_agent(problem, stacking, monkeypatch):
    monkeypatch.setattr(evaluation, "FEWEST_CANDIDATES", 4)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)  # three blocks at a time
    points = np.random.default_rng(0).normal(size=(11, problem.dim))
    rows = int(problem.num_rows.sum())
    with jax.enable_x64(True):
        agents = grouped(problem.agents())
        assert isinstance(agents, stacking)
        expected = at_once(agents, points)
        for numbers in (1, 4 * 60, 11 * rows):
            found = potentials_at(agents, points, rows, 8 * numbers)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_memory_does_not_grow_with_rows_times_candidates():
    """Beside copies of the rows, some numbers for each row and candidate of a block are held."""
    numbers, points = 2**14, np.zeros((256, 3))
    with jax.enable_x64(True):
        agents = grouped(regression((8192, 8192)).agents())
        own = sum(leaf.nbytes for leaf in jax.tree.leaves(agents))
        compiled = evaluation._at_block.lower(agents, points, numbers).compile()
    held = compiled.memory_analysis().temp_size_in_bytes
    assert held < 3 * own + 8 * 8 * numbers < 8 * 2 * 8192 * 256 / 10


@pytest.mark.parametrize("most", [16, 100, 2048])
def test_padded_rows_are_divided_into_blocks_of_nearly_the_wanted_size(most):
    for rows in (17, 100, 1000, 2100, 3300, 50_001, 10**6):
        length = padded_length(rows)
        found = largest_divisor(length, most)
        assert length % found == 0
        assert min(length, most / 2 + 0.5) <= found <= most or found == length <= most

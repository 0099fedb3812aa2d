"""A posterior of one parameter that is skewed, with sites of several modes, and its tied laws."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import starlings as st

GRID = np.linspace(-8.0, 8.0, 2001)
ROWS = [{"a": 4.0, "c": 1.0, "w": 1.5}, {"a": 2.0, "c": 2.0, "w": -1.0}]
"""Potentials c exp(2 x) - a x + w cos(3 x) of two sites: skewed, and with several modes each."""


def row_density(p, row):
    x = p["x"]
    return row["a"] * x - row["c"] * jnp.exp(2 * x) - row["w"] * jnp.cos(3 * x)


def prior_density(p):
    return -(p["x"] ** 4) / 8 - p["x"] ** 2 / 8


def potential(row, x):
    return row["c"] * np.exp(2 * x) - row["a"] * x + row["w"] * np.cos(3 * x)


def prior(x):
    return x**4 / 8 + x**2 / 8


def curved_problem(rows=ROWS, prior_density=prior_density):
    shards = [{name: [value] for name, value in row.items()} for row in rows]
    return st.Problem(row_density, prior_density, {"x": ()}, shards)


def hub_density(variance, prior_at):
    """The law of x in the augmented law, on the grid: copies integrated out."""
    density = hub_weights(variance, prior_at)
    return density / density.sum()


def hub_weights(variance, prior_at):
    """The same, not divided by its integral."""
    ties = np.exp(-((GRID[:, None] - GRID) ** 2) / (2 * variance))
    share = 0.0 if prior_at == "hub" else 1 / len(ROWS)
    density = np.exp(-prior(GRID)) if prior_at == "hub" else np.ones_like(GRID)
    for row in ROWS:
        density = density * (ties @ np.exp(-potential(row, GRID) - share * prior(GRID)))
    return density

"""Projections are nearest points, and DE-PSGLD has the law that one dimension lets us compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.problem.supports import SUPPORTS

DIM, CENTRE = 4, np.array([0.1, -0.2, 0.0, 0.3])
SETS = {
    "box": st.Box((-0.5, 0.0, -np.inf, 0.2), 0.4),
    "ball": st.Ball(0.7, tuple(CENTRE)),
    "simplex": st.Simplex(1.5),
}


def is_inside(name, z):
    if name == "box":
        return np.all(z >= [-0.5, 0.0, -np.inf, 0.2]) and np.all(z <= 0.4)
    if name == "ball":
        return np.linalg.norm(z - CENTRE) <= 0.7 + 1e-14
    return np.all(z >= 0) and abs(z.sum() - 1.5) < 1e-14


def largest_product(name, v):
    """The largest v'z over the set; infinite for a direction without a limit."""
    if name == "box":
        ends = np.where(v > 0, 0.4, np.where(v < 0, [-0.5, 0.0, -np.inf, 0.2], 0.0))
        return np.sum(np.where(v == 0, 0.0, v * ends))
    if name == "ball":
        return v @ CENTRE + 0.7 * np.linalg.norm(v)
    return 1.5 * v.max()


@pytest.mark.parametrize("name", SUPPORTS)
def test_a_projection_is_the_nearest_point(name):
    """P(x) is that if and only if it is in the set, and no z there has (x - P)'(z - P) > 0."""
    support = SETS[name]
    assert type(support) is SUPPORTS[name]
    points = 1.5 * np.random.default_rng(2).normal(size=(50, DIM))
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(support.project)(jnp.asarray(points)))
    for x, nearest in zip(points, found, strict=True):
        assert is_inside(name, nearest)
        away = x - nearest
        assert largest_product(name, away) == pytest.approx(away @ nearest, abs=1e-12)
    assert np.abs(points - found).max() > 1


def test_the_centre_of_a_ball_has_a_derivative():
    with jax.enable_x64(True):
        slope = jax.jacfwd(st.Ball(1.0).project)(jnp.zeros(2))
    np.testing.assert_array_equal(slope, np.eye(2))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: st.Box(1.0, 0.0), "`lower` must be below `upper`, got 1.0 and 0.0"),
        (lambda: st.Box((0.0, 1.0), (2.0, 2.0, 2.0)), "must have as many numbers, got 2 and 3"),
        (lambda: st.Box("low", 1.0), "`lower` must be a number or a list of numbers, got 'low'"),
        (lambda: st.Ball(0.0), "`radius` must be positive"),
        (lambda: st.Simplex(-1.0), "`total` must be positive"),
    ],
)
def test_what_is_no_set_is_refused(make, text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        make()


# Two agents with f_i = x^2 / 2 on an interval, with coherent noise: they stay together, and their
# position is a Markov chain in one dimension.

SUPPORT, SMOOTHING, AGENTS = st.Box(0.3, 1.5), 0.05, 2
GRID = np.linspace(-1.5, 3.0, 601)


def outside(x):
    return x - np.clip(x, 0.3, 1.5)


def chain_law(eta):
    """The stationary mean and variance of one round, from its transition density on a grid."""
    to = GRID - eta * (GRID + outside(GRID) / (AGENTS * SMOOTHING))
    variance = 2 * eta / AGENTS
    density = np.exp(-((GRID[:, None] - to) ** 2) / (2 * variance))
    density /= density.sum(axis=0)
    equations = density - np.eye(len(GRID))
    equations[-1] = 1.0  # which replaces one of them: probabilities sum to 1
    return moments(np.linalg.solve(equations, np.eye(len(GRID))[-1]))


def moments(density):
    density = density / density.sum()
    mean = density @ GRID
    return mean, density @ (GRID - mean) ** 2


def smoothed_posterior():
    return moments(np.exp(-(GRID**2) - outside(GRID) ** 2 / (2 * SMOOTHING)))


def test_the_law_of_depsgld_comes_to_the_smoothed_posterior_with_the_step():
    exact = np.array(smoothed_posterior())
    errors = np.array([np.array(chain_law(eta)) - exact for eta in (0.02, 0.01)])
    np.testing.assert_allclose(errors[0] / errors[1], 2.0, rtol=0.1)
    assert np.abs(errors[1]).max() < 0.01


@pytest.mark.slow
def test_depsgld_has_the_law_of_its_chain():
    eta, chains = 0.05, 20_000
    problem = st.models.gaussian(np.ones((AGENTS, 1, 1)))
    sampler = st.DEPSGLD(eta, SUPPORT, SMOOTHING, noise="coherent")
    how = {"chains": chains, "draws": 1, "burn_in": 150, "check": False, "initial": [0.8]}
    result = st.sample(problem, st.Network.path(AGENTS), sampler, **how)
    draws = next(iter(result.posterior.data_vars.values())).values.reshape(chains, AGENTS)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], rtol=1e-10)
    mean, variance = chain_law(eta)
    assert abs(draws[:, 0].mean() - mean) < 4.5 * np.sqrt(variance / chains)
    spread = np.var((draws[:, 0] - mean) ** 2)
    assert abs(draws[:, 0].var() - variance) < 4.5 * np.sqrt(spread / chains)
    unconstrained = moments(np.exp(-(GRID**2)))
    assert abs(mean - unconstrained[0]) > 50 * np.sqrt(variance / chains)  # the test can fail

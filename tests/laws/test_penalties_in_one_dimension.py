"""Draws with penalties where one dimension lets us compute everything.

Two agents have f_i = (x - 0.3)^2 / 2 each; or one agent has both. The posterior with a Laplace
prior, on an interval and on a half-line is a numerical integral. So is the law of every sampler:
its rounds are a Markov chain in one dimension, written here from the equations of its paper. Where
a round ends with a proximal map, after its noise, the law has atoms, and the chain that is computed
is that of the point before the map.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import starlings as st

CURVATURE, CENTRE, STRENGTH = 2.0, 0.3, 1.5
GRID = np.linspace(-4.0, 5.0, 1201)
FINE = np.linspace(-6.0, 7.0, 200_001)
SMOOTHING = 0.05
CHAINS, SIGMAS = 40_000, 4.5


class Target(NamedTuple):
    """A penalty, its proximal map and its value, and the order of the bias of proximal steps."""

    penalty: st.Penalty
    prox: object
    value: object
    order: float


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t * STRENGTH, 0.0)


TARGETS = {
    "laplace": Target(st.Lasso(STRENGTH), soft, lambda x: STRENGTH * np.abs(x), 1.0),
    "interval": Target(
        st.Box(0.2, 1.0),
        lambda v, t: np.clip(v, 0.2, 1.0),
        lambda x: np.where((x >= 0.2) & (x <= 1.0), 0.0, np.inf),
        0.5,
    ),
    "half-line": Target(
        st.Box(lower=0.0),
        lambda v, t: np.maximum(v, 0.0),
        lambda x: np.where(x >= 0.0, 0.0, np.inf),
        0.5,
    ),
}


def moments(density, points, more=0.0):
    """Mean and variance; the latter with that of noise that is added to the points."""
    density = density / density.sum()
    mean = density @ points
    return np.array([mean, density @ (points - mean) ** 2 + more])


def posterior(target):
    """By integration of exp(-f - g)."""
    return moments(np.exp(-CURVATURE * (FINE - CENTRE) ** 2 / 2 - target.value(FINE)), FINE)


def smoothed_posterior(target, smoothing):
    """By integration of exp(-f - g^s), with g^s by its definition."""
    nearest = target.prox(FINE, smoothing)
    envelope = (FINE - nearest) ** 2 / (2 * smoothing)
    if target.order == 1:
        envelope += target.value(nearest)
    return moments(np.exp(-CURVATURE * (FINE - CENTRE) ** 2 / 2 - envelope), FINE)


def stationary(mean, variance):
    """The stationary density on the grid of x' = mean(x) + N(0, variance)."""
    density = np.exp(-((GRID[:, None] - mean) ** 2) / (2 * variance))
    density /= density.sum(axis=0)
    equations = density - np.eye(len(GRID))
    equations[-1] = 1.0  # which replaces one of them: probabilities sum to 1
    return np.linalg.solve(equations, np.eye(len(GRID))[-1])


def implicit(target, v, h):
    """argmin_z f(z) + g(z) + |z - v|^2 / 2h, with f of both agents."""
    shrunk = 1 + h * CURVATURE
    return target.prox((v + h * CURVATURE * CENTRE) / shrunk, h / shrunk)


def proximal_law(target, h):
    """P-ULA with delta = 2 h: noise after the map."""
    return moments(stationary(implicit(target, GRID, h), 2 * h), GRID)


def after_noise(target, h, output):
    """D-ADMMS of two agents with coherent noise: the same map after noise of the same size."""
    density = stationary(implicit(target, GRID, h), 2 * h)
    return moments(density, implicit(target, GRID, h), h / 2 if output == "half-noise" else 0.0)


def token_map(target, v, gamma):
    """SPLA: the maps of both agents, and that of the penalty."""
    for _ in range(2):
        v = (v + gamma * CURVATURE / 2 * CENTRE) / (1 + gamma * CURVATURE / 2)
    return target.prox(v, gamma)


def token_law(target, gamma):
    density = stationary(token_map(target, GRID, gamma), 2 * gamma)
    return moments(density, token_map(target, GRID, gamma))


def smoothed_law(target, gamma):
    """MYULA, and DE-PSGLD of two agents with coherent noise and gamma = eta / 2."""
    pull = CURVATURE * (GRID - CENTRE) + (GRID - target.prox(GRID, SMOOTHING)) / SMOOTHING
    return moments(stationary(GRID - gamma * pull, 2 * gamma), GRID)


LAWS = {
    "pula": proximal_law,
    "dadmms": lambda target, h: after_noise(target, h, "iterate"),
    "half-noise": lambda target, h: after_noise(target, h, "half-noise"),
    "spla": token_law,
    "myula": smoothed_law,
    "depsgld": smoothed_law,
}
STEP = 0.02


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["pula", "dadmms", "half-noise", "spla"])
def test_the_bias_of_proximal_steps_falls_as_the_step_or_as_its_root(name, target):
    """First order with kinks, and of the order 1/2 at the edge of a support, in the mean."""
    exact, order = posterior(TARGETS[target]), TARGETS[target].order
    errors = [LAWS[name](TARGETS[target], h) - exact for h in (2 * STEP, STEP, STEP / 2)]
    for larger, smaller in itertools.pairwise(errors):
        assert np.log2(larger[0] / smaller[0]) == pytest.approx(order, abs=0.05)


@pytest.mark.parametrize("target", TARGETS)
def test_the_bias_of_smoothing_falls_as_its_square_or_its_root(target):
    """And the Euler steps on the smoothed posterior add a bias of first order."""
    kind = TARGETS[target]
    exact, order = posterior(kind), 2.0 if kind.order == 1 else 0.5
    errors = [smoothed_posterior(kind, s) - exact for s in (0.02, 0.01)]
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), order, atol=0.1)
    smoothed = smoothed_posterior(kind, SMOOTHING)
    errors = [smoothed_law(kind, gamma) - smoothed for gamma in (0.01, 0.005)]
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 1.0, atol=0.1)


BOTH = st.models.gaussian([[[1.0]], [[1.0]]], [[CENTRE], [CENTRE]])
ALONE = st.models.gaussian([[[CURVATURE]]], [[CURVATURE * CENTRE]])
SAMPLERS = {
    "pula": lambda g, h: st.PULA(2 * h, g),
    "dadmms": lambda g, h: st.DADMMS(1 / (4 * h), output="iterate", penalty=g),
    "half-noise": lambda g, h: st.DADMMS(1 / (4 * h), penalty=g),
    "spla": lambda g, h: st.SPLA(h, hops=2, penalty=g),
    "myula": lambda g, h: st.MYULA(h, g, SMOOTHING),
    "depsgld": lambda g, h: st.DEPSGLD(2 * h, g, SMOOTHING, noise="coherent"),
}
RELAXATIONS = 12
"""Relaxation times 1 / (h curvature) before the draw: what is left of the start is e^-12."""


def long_run(sampler, problem, rounds):
    """The last draw of independent chains, (chain, agent)."""
    network = st.Network.path(problem.num_agents)
    how = {"chains": CHAINS, "draws": 1, "check": False, "initial": [0.5]}
    result = st.sample(problem, network, sampler, burn_in=rounds, thin=sampler.cycle, **how)
    return result.posterior["x"].values[:, 0, :, 0]


def assert_moments(draws, wanted):
    mean, variance = wanted
    assert abs(draws.mean() - mean) < SIGMAS * np.sqrt(variance / len(draws))
    spread = np.std((draws - mean) ** 2)
    assert abs(np.mean((draws - mean) ** 2) - variance) < SIGMAS * spread / np.sqrt(len(draws))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_long_runs_have_the_computed_law(name, target):
    """At a step and at half of it; the distance from the posterior is then the computed bias."""
    kind, problem = TARGETS[target], ALONE if name in ("pula", "myula") else BOTH
    for h in (STEP, STEP / 2):
        sampler = SAMPLERS[name](kind.penalty, h)
        rounds = sampler.cycle * int(RELAXATIONS / (h * CURVATURE))
        draws = long_run(sampler, problem, rounds)
        np.testing.assert_allclose(draws, draws[:, :1].repeat(draws.shape[1], 1), atol=1e-9)
        assert_moments(draws[:, 0], LAWS[name](kind, h))
        if name in ("dadmms", "spla"):
            assert_atoms(draws[:, 0], kind, name, h)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_long_runs_would_show_the_posterior(name, target):
    """Taken for the law of the draws it is outside of the Monte Carlo error.

    But not for half-noise output under a Laplace prior, which differs from the iterates, whose
    error is seen, by noise of a known variance.
    """
    kind = TARGETS[target]
    exact, law = posterior(kind), LAWS[name](kind, STEP)
    if (name, target) == ("half-noise", "laplace"):
        mean, variance = LAWS["dadmms"](kind, STEP)
        np.testing.assert_allclose(law, [mean, variance + STEP / 2], rtol=1e-12)
        return
    errors = np.sqrt([exact[1] / CHAINS, 3 * exact[1] ** 2 / CHAINS])
    assert np.max(np.abs(law - exact) / errors) > SIGMAS


def assert_atoms(draws, kind, name, h):
    """Draws are allowed, and are exactly at kinks and edges as often as computed."""
    step = implicit if name == "dadmms" else token_map
    density = stationary(step(kind, GRID, h), 2 * h)
    kink = 0.0 if kind.order == 1 else float(kind.penalty.lower)
    wanted = (density / density.sum()) @ (step(kind, GRID, h) == kink)
    error = np.sqrt(wanted * (1 - wanted) / CHAINS)
    assert abs(np.mean(draws == kink) - wanted) < SIGMAS * error + np.diff(GRID)[0]
    assert wanted > 0.02
    assert np.isfinite(kind.value(draws)).all()


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("delta", [0.1, 1.0])
def test_pmala_has_the_posterior_at_every_step(target, delta):
    kind = TARGETS[target]
    rounds = int(30 / min(1.0, delta * CURVATURE / 2))
    draws = long_run(st.PMALA(delta, kind.penalty), ALONE, rounds)[:, 0]
    assert_moments(draws, posterior(kind))
    assert np.isfinite(kind.value(draws)).all()
    density = np.exp(-CURVATURE * (FINE - CENTRE) ** 2 / 2 - kind.value(FINE))
    third = density @ (FINE - CENTRE) ** 3 / density.sum()
    cubes = (draws - CENTRE) ** 3
    assert abs(cubes.mean() - third) < SIGMAS * cubes.std() / np.sqrt(CHAINS)

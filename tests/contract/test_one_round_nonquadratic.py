"""Samplers with proximal steps against NumPy, where potentials are not quadratic and not convex.

Agent i has f_i(x) = x'A_i x / 2 - b_i'x + w_i cos(v_i'x), whose derivatives are written out below:
the transcriptions share nothing with the package but the noise. They run in the model's own
coordinates, and in others with tilts, where proximal steps learn the curvature from secants.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from tests.contract.test_one_round import (
    CHAINS,
    DEGREES,
    NEIGHBOURS,
    ROUNDS,
    SEED,
    admm_kicks,
    noises,
    spare_noises,
)
from tests.problems import flat, irregular_graph
from tests.quick import quick_cases

AGENTS, DIM, RHO = 6, 2, 1.7
PULLS = 2 * RHO * np.array(DEGREES)
ACCURACY = 1e-9
"""A proximal step is accurate to the square of 6e-6, times what a third derivative makes of it."""


def wave(p, row):
    x = p["x"]
    return -0.5 * x @ row["A"] @ x + row["b"] @ x - row["w"] * jnp.cos(row["v"] @ x)


def wavy_shards():
    random = np.random.default_rng(4)
    roots = random.normal(size=(AGENTS, DIM, DIM))
    values = {
        "A": 0.3 * roots @ roots.swapaxes(1, 2),
        "b": random.normal(size=(AGENTS, DIM)),
        "w": random.choice([-1.0, 1.0], size=AGENTS),
        "v": random.normal(size=(AGENTS, DIM)),
    }
    return [{name: column[i : i + 1] for name, column in values.items()} for i in range(AGENTS)]


class Potentials:
    """Gradients and Hessians of all agents in NumPy, in the coordinates x = centre + scale z."""

    def __init__(self, shards, centre, scale, linear, quadratic):
        self.rows = [{name: column[0] for name, column in rows.items()} for rows in shards]
        self.centre, self.scale, self.linear, self.quadratic = centre, scale, linear, quadratic

    def value(self, i, z):
        """In the model's own coordinates, and but for a constant."""
        r = self.rows[i]
        return z @ r["A"] @ z / 2 - r["b"] @ z + r["w"] * np.cos(r["v"] @ z)

    def gradient(self, i, z):
        r, x = self.rows[i], self.centre + self.scale @ z
        slope = r["A"] @ x - r["b"] - r["w"] * np.sin(r["v"] @ x) * r["v"]
        return self.scale.T @ slope - self.linear[i] - self.quadratic[i] @ z

    def hessian(self, i, z):
        r, x = self.rows[i], self.centre + self.scale @ z
        bend = r["A"] - r["w"] * np.cos(r["v"] @ x) * np.outer(r["v"], r["v"])
        return self.scale.T @ bend @ self.scale - self.quadratic[i]

    def proximal(self, i, linear, start):
        """argmin f_i(z) + rho d_i |z|^2 - l'z, by Newton's method down to rounding."""
        z, identity = start, np.eye(DIM)
        for _ in range(50):
            slope = self.gradient(i, z) + PULLS[i] * z - linear
            z = z - np.linalg.solve(self.hessian(i, z) + PULLS[i] * identity, slope)
        assert np.abs(slope).max() < 1e-12
        return z


def problem_in(coordinates):
    """The problem in its own coordinates, made convex there or not, or in tilted ones."""
    shards = wavy_shards()
    if coordinates == "convex":
        for rows in shards:
            rows["A"] = rows["A"] + rows["v"][:, :, None] * rows["v"][:, None]
    problem = st.Problem(wave, flat, {"x": (DIM,)}, shards)
    if coordinates != "tilted":
        nothing = (np.zeros((AGENTS, DIM)), np.zeros((AGENTS, DIM, DIM)))
        return problem, Potentials(shards, np.zeros(DIM), np.eye(DIM), *nothing)
    random = np.random.default_rng(5)
    centre, scale = random.normal(size=DIM), np.eye(DIM) + 0.3 * random.normal(size=(DIM, DIM))
    linear, quadratic = random.normal(size=(AGENTS, DIM)), random.normal(size=(AGENTS, DIM, DIM))
    linear, quadratic = (0.3 * (tilt - tilt.mean(axis=0)) for tilt in (linear, quadratic))
    quadratic = quadratic + quadratic.swapaxes(1, 2)
    frame = (centre, scale, linear, quadratic)
    return problem.affine(*frame), Potentials(shards, *frame)


def around(x, i):
    """d_i x_i + sum_j x_j."""
    return sum(x[i] + x[j] for j in NEIGHBOURS[i])


def apart(x, i):
    """d_i x_i - sum_j x_j."""
    return sum(x[i] - x[j] for j in NEIGHBOURS[i])


def transcribed_admm(potentials, x, kick):
    """Algorithm 1 with the noise kick(k, i, x_i); and all positions at which it was asked for."""
    p, met = np.zeros_like(x), []
    for k in range(ROUNDS):
        met += list(enumerate(x))
        right = [RHO * around(x, i) - p[i] - kick(k, i, x[i]) for i in range(AGENTS)]
        x = np.array([potentials.proximal(i, right[i], x[i]) for i in range(AGENTS)])
        p = p + RHO * np.array([apart(x, i) for i in range(AGENTS)])
    return x, met


def transcribed_midpoint(potentials, x, kicks):
    p, y = np.zeros_like(x), x
    for n in kicks / np.sqrt(2):
        right = [RHO * around(x, i) - p[i] - n[i] for i in range(AGENTS)]
        y = np.array([potentials.proximal(i, right[i], y[i]) for i in range(AGENTS)])
        p = p + RHO * np.array([apart(y, i) for i in range(AGENTS)])
        x = np.array([2 * y[i] - around(x, i) / (2 * DEGREES[i]) for i in range(AGENTS)])
    return x


def simulated(sampler, problem, start):
    network = st.Network(irregular_graph())
    with jax.enable_x64(True):
        positions, plan = jnp.asarray(start), Schedule(draws=ROUNDS)
        run = loop.run(sampler, problem.agents(network), network, positions, SEED, plan)
        return run.joined().position[-1, 1]


def starts():
    return np.random.default_rng(0).normal(size=(CHAINS, AGENTS, DIM))


def coherent_kicks():
    with jax.enable_x64(True):
        return admm_kicks(noises(False, (AGENTS, DIM)), RHO, "coherent")


def positive_root(hessian):
    values, vectors = np.linalg.eigh(hessian)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


in_both_coordinates = pytest.mark.parametrize(
    "coordinates", quick_cases(["own", "tilted"], ["tilted"])
)


@in_both_coordinates
def test_coherent_half_noise(coordinates):
    (problem, potentials), start = problem_in(coordinates), starts()
    kicks = coherent_kicks()
    wanted, _ = transcribed_admm(potentials, start[1], lambda k, i, x: kicks[k, i])
    wanted = wanted - kicks[ROUNDS] / (2 * PULLS[:, None])
    found = simulated(st.DADMMS(RHO), problem, start)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ACCURACY)


@pytest.mark.slow
@in_both_coordinates
def test_curvature_noise_has_the_positive_part_of_the_hessian_where_the_agent_is(coordinates):
    (problem, potentials), start, kicks = problem_in(coordinates), starts(), coherent_kicks()
    with jax.enable_x64(True):
        own = noises(True, (AGENTS, DIM))

    def kick(k, i, x):
        return kicks[k, i] + positive_root(potentials.hessian(i, x)) @ own[k, i]

    wanted, met = transcribed_admm(potentials, start[1], kick)
    found = simulated(st.DADMMS(RHO, noise="curvature", output="iterate"), problem, start)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ACCURACY)
    curvatures = np.array([np.linalg.eigvalsh(potentials.hessian(i, x)) for i, x in met])
    assert curvatures.min() < -0.1 < 0.1 < curvatures.max(), "there is more than a positive part"


@pytest.mark.slow
@in_both_coordinates
def test_coherent_curvature_noise_has_the_hessian_where_the_agent_is(coordinates):
    (problem, potentials), start, kicks = problem_in(coordinates), starts(), coherent_kicks()
    with jax.enable_x64(True):
        shared = spare_noises((AGENTS, DIM))

    def kick(k, i, x):
        return kicks[k, i] + potentials.hessian(i, x) @ shared[k]

    wanted, _ = transcribed_admm(potentials, start[1], kick)
    sampler = st.DADMMS(RHO, noise="coherent-curvature", output="iterate")
    np.testing.assert_allclose(simulated(sampler, problem, start), wanted, rtol=0, atol=ACCURACY)


@pytest.mark.slow
@in_both_coordinates
def test_midpoint(coordinates):
    (problem, potentials), start = problem_in(coordinates), starts()
    wanted = transcribed_midpoint(potentials, start[1], coherent_kicks()[:ROUNDS])
    found = simulated(st.MidpointADMMS(RHO), problem, start)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ACCURACY)


def test_cadmm():
    (problem, potentials), start = problem_in("own"), starts()
    wanted, _ = transcribed_admm(potentials, start[1], lambda k, i, x: 0.0)
    found = simulated(st.CADMM(RHO), problem, start)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ACCURACY)

"""Samplers that send one chain, or few bits, to a hub against NumPy transcriptions of their papers.

Sites have 1 to 40 rows, and the random numbers are those of the package, by their addresses.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers.qlsd import QLSD_FORMS
from tests.problems import unequal_linear_problem
from tests.quick import quick_cases

SITES, DIM, CHAINS, SEED, CYCLES = 6, 3, 2, 7, 8
ETA = 0.004
STEPS = (1, 4, 2, 3, 2, 1)
PRIOR = np.eye(DIM) / 5
PROBLEM = unequal_linear_problem()
ROWS = [PROBLEM.shards[site] for site in PROBLEM.sites]
DESIGNS = [np.asarray(rows["x"], float) for rows in ROWS]
OUTCOMES = [np.asarray(rows["y"], float) for rows in ROWS]
HESSIANS = [X.T @ X for X in DESIGNS]
LINEARS = [X.T @ y for X, y in zip(DESIGNS, OUTCOMES, strict=True)]


def round_of(index, site=None):
    """A round of chain 1 at the hub, or at a site."""
    private, shared = chain_keys(SEED, CHAINS, SITES + 1)
    return Round(index, private[1, 0 if site is None else site + 1], shared[1])


def normal(key):
    return np.asarray(jax.random.normal(key, (DIM,), np.float64))


def likelihood_slope(site, x, key=None, batch_size=None):
    """The gradient of minus the log-likelihood of a site, of all rows or of drawn ones."""
    X, y = DESIGNS[site], OUTCOMES[site]
    if batch_size is None:
        return X.T @ (X @ x - y)
    drawn = np.asarray(jax.random.randint(key, (batch_size,), 0, len(y)))
    return len(y) / batch_size * sum(X[r] * (X[r] @ x - y[r]) for r in drawn)


def compare(sampler, expected, cycles=CYCLES):
    """The last iterate of some cycles equals the transcription to 1e-12."""
    problem, network = st.with_hub(PROBLEM, prior=sampler.prior_at)
    start = np.random.default_rng(0).normal(size=(CHAINS, SITES + 1, DIM))
    with jax.enable_x64(True):
        agents = problem.agents(network)
        how = Schedule(draws=2 * cycles)
        run = loop.run(sampler, agents, network, jax.numpy.asarray(start), SEED, how)
        wanted = expected(start[1, 0].copy())
    found = run.joined().position[-1, 1, 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def visited(cycle, visits, first=1):
    if visits == "cyclic":
        return (cycle - first) % SITES
    return int(jax.random.randint(round_of(2 * cycle - 1).shared_key(), (), 0, SITES))


def walk(x, site, cycle, steps, slope):
    """The steps of a visit; `slope` takes the site, x, q_s, and the key of a minibatch."""
    keys = jax.random.split(round_of(2 * cycle - 1, site).batch_key(), max(steps))
    for key in keys[: steps[site]]:
        for_noise, for_batch = jax.random.split(key)
        share = steps[site] / sum(steps)
        x = x - ETA * slope(site, x, share, for_batch) + np.sqrt(2 * ETA) * normal(for_noise)
    return x


VARIANTS = [("random", STEPS, None), ("random", 3, 2), ("cyclic", STEPS, 2), ("cyclic", 2, None)]


@pytest.mark.parametrize("variant", quick_cases(VARIANTS, VARIANTS[:1]))
def test_distributed_sgld(variant):
    """A step of the length 2 eta of the paper: half of it times the gradient, and noise of it."""
    visits, steps, batch_size = variant
    counts = np.broadcast_to(steps, SITES)

    def slope(site, x, share, key):
        return PRIOR @ x + likelihood_slope(site, x, key, batch_size) / share

    def expected(x):
        for cycle in range(1, CYCLES + 1):
            x = walk(x, visited(cycle, visits), cycle, counts, slope)
        return x

    sampler = st.DistributedSGLD(ETA, steps, visits, batch_size)
    assert len({visited(c, visits) for c in range(1, CYCLES + 1)}) > 3
    compare(sampler, expected)


@pytest.mark.parametrize("variant", quick_cases(VARIANTS, VARIANTS[2:3]))
def test_fsgld(variant):
    """Surrogates are exact for Gaussian likelihoods; those of all sites are known in cycle 2."""
    visits, steps, batch_size = variant
    counts = np.broadcast_to(steps, SITES)
    A, a, c = sum(HESSIANS), sum(LINEARS), 0.7

    def slope(site, x, share, key):
        plain = PRIOR @ x + likelihood_slope(site, x, key, batch_size) / share
        return plain + c * ((A @ x - a) - (HESSIANS[site] @ x - LINEARS[site]) / share)

    def expected(x):
        for cycle in range(2, CYCLES + 1):
            x = walk(x, visited(cycle, visits, first=2), cycle, counts, slope)
        return x

    compare(st.FSGLD(ETA, steps, visits, batch_size, correction=c), expected)


def quantise(vector, levels, key):
    """Up with the probability by which a coordinate is above the level below it."""
    if levels is None:
        return vector
    uniform, norm = np.asarray(jax.random.uniform(key, (DIM,), np.float64)), np.linalg.norm(vector)
    found = np.zeros(DIM)
    for j in range(DIM):
        ratio = abs(vector[j]) / norm
        below = int(levels * ratio)
        goes_up = uniform[j] >= 1 - (levels * ratio - below)
        found[j] = norm * np.sign(vector[j]) * (below + goes_up) / levels
    return found


def taking_part(cycle, count):
    """Floyd's set of `count` sites."""
    if count is None:
        return set(range(SITES))
    chosen: set[int] = set()
    for key, last in zip(
        jax.random.split(round_of(2 * cycle - 1).shared_key(), count),
        range(SITES - count, SITES),
        strict=True,
    ):
        drawn = int(jax.random.randint(key, (), 0, last + 1))
        chosen.add(last if drawn in chosen else drawn)
    assert len(chosen) == count
    return chosen


def qlsd(x, form, levels, count, batch_size, mode, refresh):
    """The algorithms of the paper, with loops over sites; sites have a sixth of the prior each."""
    omega = 0 if levels is None else min(DIM / levels**2, np.sqrt(DIM) / levels)
    rate, memory, z = 1 / (omega + 1), np.zeros((SITES, DIM)), x

    def slope(i, x, key=None, size=None):
        return PRIOR @ x / SITES + likelihood_slope(i, x, key, size)

    for cycle in range(1, CYCLES + 1):
        chosen, total = taking_part(cycle, count), memory.sum(axis=0)
        z = x if (cycle - 1) % refresh == 0 else z
        for i in chosen:
            for_batch, for_levels = jax.random.split(round_of(2 * cycle - 1, i).batch_key())
            estimate = partial(slope, i, key=for_batch, size=batch_size)
            h = estimate(x)
            if form == "fixed-point":
                h = h - estimate(mode)
            if form == "variance-reduced":
                h = h - estimate(z) + slope(i, z)
            sent = quantise(h - memory[i], levels, for_levels)
            total = total + SITES / len(chosen) * sent
            if form == "variance-reduced":
                memory[i] += rate * sent
        w = np.asarray(round_of(2 * cycle).private_noise(jax.ShapeDtypeStruct((DIM,), np.float64)))
        x = x - ETA * total + np.sqrt(2 * ETA) * w
    return x


SETTINGS = [(3, 4, 2, 3), (1, None, None, 100), (None, 2, 3, 2)]
"""Levels, participants, rows of a minibatch, cycles between reference points."""
EVERY = [(form, *each) for form in QLSD_FORMS for each in SETTINGS]


@pytest.mark.parametrize("variant", quick_cases(EVERY, [("variance-reduced", *SETTINGS[0])]))
def test_qlsd(variant):
    form, levels, count, batch_size, refresh = variant
    mode = np.array([0.9, -1.8, 0.4]) if form == "fixed-point" else None
    settings = (form, levels, count, batch_size, mode, refresh)
    names = ("form", "levels", "count", "batch_size", "mode", "refresh")
    expected = partial(qlsd, **dict(zip(names, settings, strict=True)))
    compare(st.QLSD(ETA, *settings), expected)

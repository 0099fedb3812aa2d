"""Federated averaging Langevin dynamics against NumPy transcriptions of the papers' equations.

The six sites have 1 to 40 rows. Nothing is shared with the package but the random numbers.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from tests.problems import unequal_linear_problem
from tests.quick import quick_cases

CHAINS, SEED, SITES, DIM = 2, 7, 6, 3
BATCH = 4
PROBLEM = unequal_linear_problem()


def starts():
    return np.random.default_rng(0).normal(size=(CHAINS, SITES + 1, DIM))


def first():
    """Where the hub of chain 1 begins."""
    return starts()[1, 0]


def draws_of(sampler, rounds):
    """Draws of chain 1, (round, agent, dim)."""
    problem, network = st.with_hub(PROBLEM)
    with jax.enable_x64(True):
        agents, start = problem.agents(network), jax.numpy.asarray(starts())
        record = loop.run(sampler, agents, network, start, SEED, Schedule(draws=rounds)).joined()
    return record.position[:, 1]


def check(sampler, iterates, heard=None):
    """Iterates of the hub from round 0 on, and what all sites hear in odd rounds: the iterates."""
    found = draws_of(sampler, len(iterates) - 1)
    np.testing.assert_allclose(found[:, 0], iterates[1:], rtol=1e-12, atol=1e-12)
    heard = iterates if heard is None else heard
    heard = np.repeat(np.array(heard)[:-1:2], 2, axis=0)[: len(found)]
    np.testing.assert_allclose(found[:, 1:], np.repeat(heard[:, None], SITES, 1), 1e-12, 1e-12)


def each_round(iterates):
    """Iterates after each cycle as those after each round, from round 0 on."""
    return np.repeat(iterates, 2, axis=0)[:-1]


@functools.cache
def keys():
    agents, network = chain_keys(SEED, CHAINS, SITES + 1)
    return agents[1], network[1]


def round_of(index, site):
    agents, network = keys()
    return Round(index, agents[site], network)


def shared_keys(index, count=2):
    return jax.random.split(round_of(index, 0).shared_key(), count)


class Steps(NamedTuple):
    """What the sites draw in the steps of one round."""

    shared: np.ndarray
    """z, (step, dim)."""
    private: np.ndarray
    """z_c, (step, site, dim)."""
    batches: list
    """Row numbers, (step, site, row)."""


@jax.jit
def _drawn(shared, private, k):
    """z, z_c, and the key of the minibatch, of step k at a site."""
    batch, own = jax.random.split(jax.random.fold_in(private, k))
    common = jax.random.normal(jax.random.fold_in(shared, k), (DIM,), float)
    return common, jax.random.normal(own, (DIM,), float), batch


def steps_of(index, shared, count, batched=False):
    private = [round_of(index, site + 1).batch_key() for site in range(SITES)]
    with jax.enable_x64(True):
        drawn = [[_drawn(shared, key, k) for key in private] for k in range(count)]
        batches = [
            [
                np.asarray(jax.random.randint(key, (BATCH,), 0, number)) if batched else None
                for (*_, key), number in zip(step, map(int, PROBLEM.num_rows), strict=True)
            ]
            for step in drawn
        ]
        common = np.array([np.asarray(step[0][0]) for step in drawn])
        own = np.array([[np.asarray(z) for _, z, _ in step] for step in drawn])
    return Steps(common, own, batches)


def slope(site, y, batch=None):
    """The gradient of f_c, with its sixth of the prior N(0, 5 I), or an estimate of it."""
    if batch is None:
        return PROBLEM.quadratic.hessian[site] @ y - PROBLEM.quadratic.linear[site]
    rows = PROBLEM.shards[PROBLEM.sites[site]]
    X, outcome = rows["x"][batch], rows["y"][batch]
    return y / (5 * SITES) - PROBLEM.num_rows[site] / len(batch) * X.T @ (outcome - X @ y)


def federated(x, index, count, eta, part, p, shared, batched=False):
    """Where all sites are after K steps of FA-LD from x."""
    steps, places = steps_of(index, shared, count, batched), []
    for c in range(SITES):
        y = x
        for k in range(count):
            noise = np.sqrt(2 * eta * part) * steps.shared[k]
            noise = noise + np.sqrt(2 * eta * (1 - part) / p[c]) * steps.private[k, c]
            y = y - eta * slope(c, y, steps.batches[k][c]) / p[c] + noise
        places.append(y)
    return np.array(places)


def parts_of_rows():
    rows = np.array([1, 40, 3, 7, 20, 2])
    return rows / rows.sum()


@pytest.mark.parametrize("batched", quick_cases([False, True], [False]))
def test_fa_ld(batched):
    eta, count, part, p, cycles = 0.001, 3, 0.3, parts_of_rows(), 3
    size = BATCH if batched else None
    settings = {"local_steps": count, "shared_part": part, "batch_size": size}
    sampler = st.FedAvgLangevin.on(PROBLEM, eta, **settings)
    x = first()
    iterates = [x]
    for cycle in range(cycles):
        index = 2 * cycle + 1
        x = p @ federated(x, index, count, eta, part, p, shared_keys(index)[1], batched)
        iterates.append(x)
    check(sampler, each_round(iterates))


def drawn_with_replacement(key, count, p):
    uniforms = np.asarray(jax.random.uniform(key, (count,), float))
    return [next(c for c in range(SITES) if u <= p[: c + 1].sum()) for u in uniforms]


def drawn_without_replacement(key, count, p):
    left, found = count, []
    for site in range(1, SITES + 1):
        uniform = float(jax.random.uniform(jax.random.fold_in(key, site), dtype=float))
        if uniform < left / (SITES + 1 - site):
            left -= 1
            found.append(site - 1)
    return found


SCHEMES = {
    "with replacement": (parts_of_rows(), drawn_with_replacement),
    "equal, with replacement": (None, drawn_with_replacement),
    "without replacement": (None, drawn_without_replacement),
}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_fa_ld_of_some_sites(scheme):
    """The plain mean of those who take part, some of them more than once."""
    eta, count, part, participants, cycles = 0.001, 2, 0.3, 3, 4
    weights, drawn = SCHEMES[scheme]
    p = np.full(SITES, 1 / SITES) if weights is None else weights
    settings = {"local_steps": count, "shared_part": part, "participants": participants}
    replaces = scheme != "without replacement"
    sampler = st.FedAvgLangevin(eta, weights=weights, with_replacement=replaces, **settings)
    x = first()
    iterates, chosen = [x], []
    for cycle in range(cycles):
        index = 2 * cycle + 1
        whom, shared = shared_keys(index)
        with jax.enable_x64(True):
            chosen.append(drawn(whom, participants, p))
        x = federated(x, index, count, eta, part, p, shared)[chosen[-1]].mean(axis=0)
        iterates.append(x)
    assert all(len(sites) == participants for sites in chosen)
    assert len({tuple(sites) for sites in chosen}) > 1
    assert replaces == any(len(set(sites)) < participants for sites in chosen)
    check(sampler, each_round(iterates))


def geometric(key, probability):
    """Steps until an event: failures and one success, from an exponential time."""
    with jax.enable_x64(True):
        time = float(jax.random.exponential(key, dtype=float))
    return 1 + int(np.floor(time / -np.log(1 - probability)))


def fald_noise(steps, k, gamma, tau):
    shared = np.sqrt(tau / SITES) * steps.shared[k]
    return np.sqrt(2 * gamma) * (shared + np.sqrt(1 - tau) * steps.private[k])


@pytest.mark.parametrize("batched", quick_cases([False, True], [False]))
def test_fald(batched):
    gamma, p, tau, cycles = 0.004, 0.4, 0.3, 4
    sampler = st.FALD(gamma, p, tau, BATCH if batched else None)
    x = first()
    iterates, counts = [x], []
    for cycle in range(cycles):
        index = 2 * cycle + 1
        events, shared = shared_keys(index)
        counts.append(geometric(events, p))
        steps, y = steps_of(index, shared, counts[-1], batched), np.tile(x, (SITES, 1))
        for k in range(counts[-1]):
            batches = steps.batches[k]
            slopes = np.array([slope(i, y[i], batches[i]) for i in range(SITES)])
            y = y - gamma * slopes + fald_noise(steps, k, gamma, tau)
        x = y.mean(axis=0)
        iterates.append(x)
    assert len(set(counts)) > 1
    check(sampler, each_round(iterates))


@pytest.mark.slow
@pytest.mark.parametrize("batched", quick_cases([False, True], [False]))
def test_vr_fald(batched):
    """The published loop over steps, with what communication takes in rounds beside it."""
    gamma, p, q, tau, rounds = 0.004, 0.5, 0.4, 0.3, 36
    sampler = st.VRFALD(gamma, p, q, tau, BATCH if batched else None)
    x = first()
    y, Y = np.tile(x, (SITES, 1)), x
    C = np.mean([slope(i, Y) for i in range(SITES)], axis=0)
    iterates, happened, index = np.tile(x, (rounds + 1, 1)), set(), 3
    while index < rounds:
        waiting, kind, shared = shared_keys(index, 3)
        either = 1 - (1 - p) * (1 - q)
        count = geometric(waiting, either)
        with jax.enable_x64(True):
            place = either * float(jax.random.uniform(kind, dtype=float))
        averages, refreshes = place < p, place < p * q or place >= p
        happened.add((averages, refreshes))
        steps = steps_of(index, shared, count, batched)
        for k in range(count):
            before = y
            batches = steps.batches[k]
            G = [slope(i, y[i], batches[i]) - slope(i, Y, batches[i]) + C for i in range(SITES)]
            y = y - gamma * np.array(G) + fald_noise(steps, k, gamma, tau)
        if refreshes:
            Y = before.mean(axis=0)
            C = np.mean([slope(i, Y) for i in range(SITES)], axis=0)
        if averages:
            y = np.tile(y.mean(axis=0), (SITES, 1))
            iterates[index + 1 :] = y[0]
        index += 2 * (averages + 2 * refreshes)
    assert happened == {(True, False), (False, True), (True, True)}
    check(sampler, iterates)

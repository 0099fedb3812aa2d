"""Asynchronous D-ADMMS against its equations, agent by agent and link by link, in NumPy.

Which messages arrive is drawn here once more from the addresses of `runtime.unreliable`; nothing
else but the noise is shared with the package.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from tests.problems import irregular_graph, unequal_linear_problem
from tests.quick import quick_cases

ROUNDS, CHAINS, CHAIN, SEED, FAULT_SEED, RHO = 9, 2, 1, 7, 5, 1.7
GRAPH = irregular_graph()
NEIGHBOURS = [sorted(GRAPH.adj[i]) for i in range(6)]
MOST = max(map(len, NEIGHBOURS))
LOSS = np.random.default_rng(1).uniform(0, 0.7, (6, 6))
DELAY = np.random.default_rng(2).integers(0, 3, (6, 6))
ASLEEP = np.linspace(0.0, 0.5, 6)
FAULTS = {
    "reliable": {},
    "loss": {"loss": LOSS},
    "delay": {"delay": DELAY},
    "asleep": {"asleep": ASLEEP},
    "all of them": {"loss": LOSS, "delay": DELAY, "asleep": ASLEEP},
}


def uniforms(k, kind, shape):
    """The numbers that decide in round k of chain `CHAIN` on loss (0) and on who sleeps (1)."""
    key = jax.random.key(FAULT_SEED, impl="threefry2x32")
    for word in (CHAIN, k, kind):
        key = jax.random.fold_in(key, word)
    return np.asarray(jax.random.uniform(key, shape, np.float32))


def noise(t, dim):
    """w_t of the chain."""
    _, network_keys = chain_keys(SEED, CHAINS, 6)
    like = jax.ShapeDtypeStruct((dim,), np.float64)
    return np.asarray(Round(t, None, network_keys[CHAIN]).shared_noise(like))


def transcribed(H, b, x, loss=None, delay=None, asleep=None, pace=None):
    """What is recorded after `ROUNDS` rounds from x, (agent, dim)."""
    loss, delay = (np.zeros((6, 6)) if a is None else a for a in (loss, delay))
    asleep = np.zeros(6) if asleep is None else asleep
    dim = x.shape[1]
    d = [len(near) for near in NEIGHBOURS]
    r, eps = 2 * RHO, 1 / (2 * RHO * sum(d))
    kappa = np.sqrt(2 * eps * (1 if pace is None else pace))
    z = {(i, j): np.append(x[i], 0.0) for i in range(6) for j in NEIGHBOURS[i]}
    place, tick, x = [np.append(x[i], 0.0) for i in range(6)], [0] * 6, x.copy()
    sent, awake = [], []
    for k in range(1, ROUNDS + 1):
        sent.append({(i, j): 2 * place[i] - z[i, j] for i, j in z})
        awake.append(uniforms(k, 1, (6,)) >= asleep.astype(np.float32))
        drawn, old = uniforms(k, 0, (6, MOST)), dict(z)
        for i in np.flatnonzero(awake[-1]):
            for slot, j in enumerate(NEIGHBOURS[i]):
                when = k - 1 - int(delay[i, j])
                is_lost = drawn[i, slot] < np.float32(loss[i, j])
                if when >= 0 and not is_lost and awake[when][j]:
                    z[i, j] = (old[i, j] + sent[when][j, i]) / 2
            total = sum(z[i, j] for j in NEIGHBOURS[i])
            clock = total[-1] / d[i] + 1
            tick[i] = max(tick[i], int(np.floor(clock + 0.5))) if pace is None else k
            B = sum((noise(t, dim) for t in range(1, tick[i] + 1)), np.zeros(dim))
            K = H[i] + r * d[i] * np.eye(dim)
            x[i] = np.linalg.solve(K, b[i] + r * (total[:-1] - d[i] * kappa * B))
            place[i] = np.append(x[i] + kappa * B, clock)
    paces = [min(t / ROUNDS, 1.0) if pace is None else pace for t in tick]
    spreads = [np.sqrt(eps * (1 - each / 2)) for each in paces]
    return np.array([x[i] - spreads[i] * noise(tick[i] + 1, dim) for i in range(6)])


CASES = {**dict.fromkeys(FAULTS), "all of them": None, "noise in every round": 0.6}
"""The pace of every case: None for a clock."""


@pytest.mark.parametrize("case", quick_cases(CASES, ["all of them"]))
def test_rounds_are_those_of_the_equations(case):
    pace, faults = CASES[case], FAULTS.get(case, FAULTS["all of them"])
    problem, network = unequal_linear_problem(), st.Network(GRAPH)
    if faults:
        network = network.lossy(**faults, seed=FAULT_SEED)
    start = np.random.default_rng(0).normal(size=(CHAINS, 6, 3))
    found = drawn(st.AsyncDADMMS(RHO, pace=pace), problem, network, start)[-1, CHAIN]
    quadratic = problem.quadratic
    with jax.enable_x64(True):
        wanted = transcribed(quadratic.hessian, quadratic.linear, start[CHAIN], **faults, pace=pace)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_without_loss_it_is_coherent_dadmms():
    """Draw by draw, since both take the same noise."""
    problem, network = unequal_linear_problem(), st.Network(GRAPH)
    start = np.random.default_rng(0).normal(size=(CHAINS, 6, 3))
    waiting, going_on = (
        drawn(sampler, problem, network, start) for sampler in (st.DADMMS(RHO), st.AsyncDADMMS(RHO))
    )
    np.testing.assert_allclose(going_on, waiting, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_agents_send_in_rounds_in_which_they_are_awake():
    """Messages that are lost are counted, and those of agents that sleep are not."""
    problem, network = unequal_linear_problem(), st.Network(GRAPH)
    start = np.zeros((CHAINS, 6, 3))
    recorded = [
        record(st.AsyncDADMMS(RHO), problem, network.lossy(**faults, seed=FAULT_SEED), start)
        for faults in (FAULTS["all of them"], FAULTS["loss"])
    ]
    awake = [uniforms(k, 1, (6,)) >= ASLEEP.astype(np.float32) for k in range(1, ROUNDS + 1)]
    np.testing.assert_array_equal(recorded[0].broadcasts[:, CHAIN], np.cumsum(awake, axis=0))
    assert not np.all(awake)
    assert recorded[1].broadcasts is None  # there is one in every round


def drawn(sampler, problem, network, start):
    """What is recorded in all rounds, (round, chain, agent, dim)."""
    return record(sampler, problem, network, start).position


def record(sampler, problem, network, start):
    """The record of all rounds."""
    with jax.enable_x64(True):
        agents, schedule = problem.agents(network), Schedule(draws=ROUNDS)
        run = (sampler, agents, network, jax.numpy.asarray(start), SEED, schedule)
        return loop.run(*run).joined()

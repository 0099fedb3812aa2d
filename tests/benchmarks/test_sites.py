"""Figures of sites: processes that are killed, and the model of a thousand sites."""

from __future__ import annotations

import signal
import time

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.sites import kills
from benchmarks.sites.processes import running, waited
from benchmarks.sites.thousand import LATENCY, Load, round_rate
from starlings.network import Network

KILLS = 4
"""Moments of kills in each run."""


@pytest.mark.slow
def test_processes_that_are_killed_find_the_bits_of_a_calm_run():
    """Sites and a relay, with journals and TLS, at seeded random moments and within writes."""
    calm = [kills.run(0, seed) for seed in range(2)][-1]
    assert calm.results is not None
    assert len(set(calm.results)) == 3  # each site computes something else
    killed = []
    for seed in range(3):
        outcome = kills.run(KILLS, seed, calm.seconds)
        assert outcome.results == calm.results
        killed += outcome.killed
    assert len(killed) >= 6


def constant():
    return LATENCY


@pytest.mark.slow
def test_a_site_that_is_frozen_and_goes_on_changes_no_bit(tmp_path):
    """It is frozen for longer than its neighbours are patient, twice, as a laptop that sleeps."""
    calm, frozen = [kills.run(0, seed) for seed in range(2)][-1], []
    program, times = kills.program, iter([0.15, 0.4])
    with running(Network.ring(3), program, tmp_path, patience=0.4) as processes:
        due = next(times)

        def look(now):
            nonlocal due
            if now > due:
                processes.signal(1, signal.SIGSTOP)
                time.sleep(1.5)
                processes.signal(1, signal.SIGCONT)
                frozen.append(now)
                due = next(times, np.inf) + now

        assert waited(processes, 60, look) == calm.results
    assert frozen


@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(20), nx.star_graph(5), nx.complete_graph(4)], ids=str
)
def test_one_chain_takes_a_message_and_a_computation_for_each_round(graph):
    rate = round_rate(graph, 1, 0.001, constant, rounds=600)
    np.testing.assert_allclose(rate, 1 / (0.001 + LATENCY), rtol=0.01)


def test_chains_in_flight_hide_latency_until_the_processor_is_busy():
    ring = nx.cycle_graph(6)
    for chains in (4, 8, 64):
        rate = round_rate(ring, chains, 0.001, constant, rounds=300)
        np.testing.assert_allclose(rate, min(1000, chains / (0.001 + LATENCY)), rtol=0.02)


def test_unequal_latencies_cost_what_is_known_of_them():
    """One chain on a ring of 20 made 39 rounds a second in an independent simulation."""
    assert 37 < round_rate(nx.cycle_graph(20), rounds=200) < 42


def test_the_load_of_a_relay_is_that_of_all_links():
    load = Load("ring", 1000, 1000, 40.0, 10)
    assert load.messages == 80_000
    assert 80_000 * 80 / 1e6 < load.megabytes < 80_000 * 200 / 1e6


@pytest.mark.slow
def test_all_figures_are_measured():
    outcome = CliRunner().invoke(app, ["sites", "--quick"])
    assert outcome.exit_code == 0, outcome.output
    for text in ("rounds/s", "MB/s", "chain-rounds/s", "0 hung", "10 sites, ring"):
        assert text in outcome.output

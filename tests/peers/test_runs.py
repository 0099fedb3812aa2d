"""`sample` at sites that are killed, over links that lose messages: the draws of one process."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import starlings as st
from starlings.runtime import loop
from starlings.runtime.divergence import EXPLODED, NEVER, REASONS
from tests.peers.flock import Flock

SITES = ["Ashby", "Brook", "Cliff"]
LENGTHS = {"draws": 20, "chains": 2, "check": False, "progress": False}
RUNS = [
    pytest.param({"method": "weights"}, id="weights"),
    pytest.param({"method": "hmc", "chains": 8, "draws": 5}, id="hmc", marks=pytest.mark.slow),
]
"""Methods on masked sums. Sites in threads of one process cannot wait for each other from inside
compiled code, so samplers in rounds are tried with a process for each site (`test_joining`)."""


def problem_of(sites: list[str]) -> st.Problem:
    """A logistic regression with the rows of some of the sites."""
    seeds = [np.random.default_rng(SITES.index(site)) for site in sites]
    X = np.concatenate([random.normal(size=(40, 2)) for random in seeds])
    chance = np.concatenate([random.logistic(size=40) for random in seeds])
    y = (chance < X @ [1.0, -0.5]).astype(float)
    return st.models.logistic_regression(X, y, np.repeat(sites, 40)).part_of(SITES)


def sampled(how):
    """A program that samples, and returns the draws of its own site."""

    def program(communicator):
        site = SITES[communicator.rank]
        network = NETWORK.distributed([communicator.rank], communicator)
        result = st.sample(problem_of([site]), network, privacy="totals", **{**LENGTHS, **how})
        assert result.posterior.agent.values.tolist() == [site]
        return result.posterior.beta.values[:, :, 0]

    return program


NETWORK = st.Network.ring(3).matched_to(SITES)


@pytest.mark.parametrize("how", RUNS)
def test_draws_are_those_of_one_process_and_kills_change_no_bit(how, tmp_path):
    alone = st.sample(problem_of(SITES), NETWORK, privacy="totals", **{**LENGTHS, **how})
    program, found = sampled(how), []
    for name, faults in {"calm": {}, "hard": {"loss": 0.02, "kills": 4, "seed": 5}}.items():
        (tmp_path / name).mkdir()
        flock = Flock(NETWORK, program, tmp_path / name, **faults)
        found.append(flock.run())
    for site, (calm, hard) in enumerate(zip(*found, strict=True)):
        np.testing.assert_array_equal(calm, hard)
        wanted = alone.posterior.beta.values[:, :, site]
        np.testing.assert_allclose(calm, wanted, rtol=0, atol=1e-10)
    assert sum(site.restarts for site in flock.sites) > 0


def test_all_sites_say_where_a_run_diverged_first(tmp_path):
    codes = {0: [[NEVER]], 1: [[5 * REASONS + EXPLODED]], 2: [[8 * REASONS + EXPLODED]]}

    def diverged(communicator):
        site = communicator.rank
        network = SimpleNamespace(local_names=[SITES[site]], communicator=communicator)
        process = SimpleNamespace(network=network, sampler=st.DADMMS(rho=1.0))
        return loop._Process._divergence(process, SimpleNamespace(divergence=codes[site]))

    for text in Flock(NETWORK, diverged, tmp_path).run():
        assert text.startswith("agent 'Brook' diverged in round 5 of chain 0: its position")

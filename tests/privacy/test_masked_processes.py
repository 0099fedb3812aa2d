"""Masked runs on several processes: the same draws, and nothing in the clear between them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.privacy.guard_rails import VARIABLE
from tests.mpi import mpi, needs_mpi

SUMS = """
import starlings as st
from starlings.runtime.mpi.cluster import Cluster
from tests.mpi import placed
from tests.privacy.taps import Tap
from tests.privacy.test_private_runs import LENGTHS, RING, logistic
METHODS = {"hmc": {"chains": 32, "draws": 4}, "weights": {"draws": 60}}
with Cluster() as cluster, Tap() as tap:
    part, network = placed(cluster, logistic(), RING)
    for method, length in METHODS.items():
        how = {**LENGTHS, **length, "method": method}
        alone = st.sample(logistic(), RING, **how)
        result = st.sample(part, network, **how, privacy="totals")
        tap.check_nothing_in_the_clear(alone.posterior.beta.values)
        if cluster.is_first:
            distance = abs(result.posterior.beta - alone.posterior.beta.values).max()
            assert distance < 1e-9, (method, distance)
            added = result.attrs["network_rounds"] - alone.attrs["network_rounds"]
            assert added == 2 * 4, "keys and limits, each in the rounds of a sum"
    found = st.loo(part, network, result, privacy="totals")
    if cluster.is_first:
        assert abs(found.elpd - st.loo(logistic(), RING, alone).elpd) < 1e-6
        print("the same", result.attrs["privacy"])
"""


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("processes", [3, 2])
def test_processes_mask_their_sums(processes, tmp_path, monkeypatch):
    """Two are enough only where the sites say so in their own files."""
    if processes == 2:
        (tmp_path / "rails.toml").write_text("fewest_sites = 2")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "rails.toml"))
    done = mpi(processes, "-c", SUMS)
    assert done.stdout.count("the same totals") == 1, done.stderr


@needs_mpi
@pytest.mark.slow
def test_two_processes_are_refused():
    done = mpi(2, "-c", SUMS)
    assert "guard rail fewest_sites: 3 processes are needed, got 2" in done.stderr


ROUNDS = {
    "sums": (st.Network(nx.circulant_graph(6, [1, 2])), st.DADMMS(rho=4.0), "float64"),
    "mixes": (st.Network.complete(6), st.DSGLD(step_size=1e-3), "float64"),
    "float32": (st.Network.complete(6), st.DADMMS(rho=4.0), "float32"),
}
IN_ROUNDS = """
import sys
import starlings as st
from starlings.runtime.mpi.cluster import Cluster
from tests.mpi import placed
from tests.privacy.taps import Tap
from tests.privacy.test_masked_processes import ROUNDS, six_sites
from tests.privacy.test_private_runs import LENGTHS
with Cluster() as cluster, Tap() as tap:
    for name in sys.argv[1:]:
        network, sampler, precision = ROUNDS[name]
        how = {**LENGTHS, "burn_in": 0, "thin": 1, "precision": precision, "privacy": "totals"}
        alone = None
        if cluster.is_first:
            alone = st.sample(six_sites(), network, sampler, **how).posterior.beta.values
        alone = cluster.broadcast(alone)
        part, distributed = placed(cluster, six_sites(), network)
        result = st.sample(part, distributed, sampler, **how)
        tap.check_nothing_in_the_clear(alone)
        if cluster.is_first:
            distance = abs(result.posterior.beta - alone).max().item()
            assert distance == 0.0 if precision == "float64" else distance < 1e-6, distance
            print("the same", name)
        try:
            st.loo(part, distributed, result, privacy="totals")
        except st.PrivacyError:
            print("refused", name)
"""


def six_sites() -> st.Problem:
    random = np.random.default_rng(3)
    X = random.normal(size=(180, 2))
    y = (random.logistic(size=180) < X @ [1.0, -0.5]).astype(float)
    return st.models.logistic_regression(X, y, sites=np.arange(180) % 6)


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sums", "mixes", "float32"])
def test_processes_mask_the_messages_of_samplers(name):
    """Sites of one process have neighbours of their own and of other processes."""
    done = mpi(3, "-c", IN_ROUNDS, name)
    assert done.stdout.count(f"the same {name}") == 1, done.stderr
    assert done.stdout.count(f"refused {name}") == 3, done.stderr

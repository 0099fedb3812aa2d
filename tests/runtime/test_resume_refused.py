"""A run is resumed only by the same call: any other setting would mix two runs in one result."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.errors import CheckpointError
from tests.problems import unequal_linear_problem

RING = st.Network.ring(6)
SAVED_RUN = {
    "problem": unequal_linear_problem(),
    "network": RING,
    "sampler": st.DADMMS(rho=2.0),
    "draws": 6,
    "burn_in": 4,
    "thin": 2,
    "chains": 2,
    "seed": 4,
    "initial": np.zeros(3),
    "precision": "float64",
}
"""The run that the folder holds."""


def call(folder, **changes):
    settings = {**SAVED_RUN, "checkpoint": folder, "progress": False, "check": False, **changes}
    return st.sample(settings.pop("problem"), settings.pop("network"), **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    kept = tmp_path_factory.mktemp("kept") / "run"
    call(kept)
    return kept


def moved_rows(**sites):
    """The problem with other rows at some sites."""
    problem = unequal_linear_problem()
    shards = {**problem.shards, **sites}
    densities = (problem.log_likelihoods, problem.log_prior, problem.parameters)
    return st.Problem.from_flat(*densities, shards, quadratic=True)


def other_prior():
    """The problem with one thousandth less of a prior."""
    problem = unequal_linear_problem()

    def log_prior(z):
        return 0.999 * problem.log_prior(z)

    parts = (problem.log_likelihoods, log_prior, problem.parameters, problem.shards)
    return st.Problem.from_flat(*parts, quadratic=True)


def changed(rows, **columns):
    return {**rows, **columns}


ROWS = SAVED_RUN["problem"].shards["5"]
RENAMED = {site: f"site {site}" for site in SAVED_RUN["problem"].sites}
OTHER = {
    "sampler, rho": ("sampler", {"sampler": st.DADMMS(rho=2.1)}),
    "sampler, noise": ("sampler", {"sampler": st.DADMMS(rho=2.0, noise="private")}),
    "sampler, output": ("sampler", {"sampler": st.DADMMS(rho=2.0, output="iterate")}),
    "sampler, kind": ("sampler", {"sampler": st.CADMM(rho=2.0)}),
    "sampler, tuned": ("sampler", {"sampler": None}),
    "chains": ("chains", {"chains": 3}),
    "burn_in": ("burn_in", {"burn_in": 5}),
    "burn_in, default": ("burn_in", {"burn_in": None}),
    "thin": ("thin", {"thin": 3}),
    "thin, default": ("thin", {"thin": None}),
    "seed": ("seed", {"seed": 5}),
    "precision": ("precision", {"precision": "float32"}),
    "initial": ("initial", {"initial": np.full(3, 0.1)}),
    "initial, none": ("initial", {"initial": None}),
    "one edge more": ("edges", {"network": st.Network(nx.Graph([*RING.graph.edges, (0, 3)]))}),
    "as many other edges": (
        "edges",
        {"network": st.Network(nx.Graph([(0, 2), (2, 1), (1, 3), (3, 4), (4, 5), (5, 0)]))},
    ),
    "names": ("sites", {"problem": SAVED_RUN["problem"].renamed(list(RENAMED.values()))}),
    "a nearly equal prior": ("or the model, are not those", {"problem": other_prior()}),
    "columns of the other's shape": (
        "the rows of site '5'",
        {"problem": moved_rows(**{"5": changed(ROWS, y=ROWS["y"].astype(np.float32))})},
    ),
    "one row's outcome": (
        "the rows of site '5'",
        {"problem": moved_rows(**{"5": changed(ROWS, y=ROWS["y"] + [0.0, 1e-3])})},
    ),
    "order of the rows": (
        "the rows of site '5'",
        {"problem": moved_rows(**{"5": {name: column[::-1] for name, column in ROWS.items()}})},
    ),
}


@pytest.mark.parametrize(("what", "changes"), OTHER.values(), ids=OTHER)
def test_another_setting_is_refused_by_name(folder, what, changes):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    text = what if " " in what else f"another run: its `{what}` is "
    with pytest.raises(CheckpointError, match=text):
        call(folder, resume=True, **changes)
    assert before == {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(
    "changes",
    [{}, {"draws": 3}, {"checkpoint_every": 1}, {"network": st.Network(RING.graph.copy())}],
    ids=["same call", "fewer draws", "other checkpoints", "another object"],
)
def test_what_does_not_change_the_draws_is_accepted(folder, changes):
    whole = st.sample(**{**SAVED_RUN, "check": False})
    resumed = call(folder, resume=True, **changes)
    count = changes.get("draws", SAVED_RUN["draws"])
    np.testing.assert_array_equal(resumed.posterior["beta"], whole.posterior["beta"][:, :count])


def test_another_rung_of_the_ladder_is_refused(tmp_path):
    tuned = {"sampler": None, "initial": None, "thin": None}
    call(tmp_path / "run", **tuned)
    with pytest.raises(CheckpointError, match="its `exactness` is auto, not midpoint"):
        call(tmp_path / "run", **tuned, exactness="midpoint", resume=True)

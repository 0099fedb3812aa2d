"""Every wrong input ends in an error that names what is wrong, where, and what would be right."""

from __future__ import annotations

import dataclasses
import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import starlings as st

X = np.random.default_rng(0).normal(size=(12, 2))
Y = X @ [1.0, -1.0]
SITES = np.repeat(["a", "b", "c"], 4)
LABELS = (Y > 0).astype(float)
LINEAR = st.models.linear_regression(X, Y, SITES, noise_std=1.0, intercept=False)
RING = st.Network.ring(3)


def changed(values: np.ndarray, index, value: float) -> np.ndarray:
    copy = np.array(values, float)
    copy[index] = value
    return copy


def refuses(error, text: str, action) -> None:
    """The error's text contains `text` word for word."""
    with pytest.raises(error, match=re.escape(text)):
        action()


def draw(sampler=None, problem=LINEAR, network=RING, **settings):
    settings = {"draws": 2, "burn_in": 0, "chains": 1, **settings}
    return st.sample(problem, network, sampler or st.DADMMS(rho=5.0), **settings)


GRAPHS = {
    "directed": (nx.DiGraph([(0, 1), (1, 0)]), "`graph` is directed"),
    "self-loop": (nx.Graph([(0, 1), (1, 1)]), "`graph` has self-loops at [1]"),
    "isolated": (nx.Graph({"a": ["b"], "c": []}), "`graph` has isolated nodes [c]"),
    "in parts": (nx.Graph([(0, 1), (2, 3)]), "`graph` falls into 2 parts of sizes [2, 2]"),
    "multigraph": (nx.MultiGraph([(0, 1), (0, 1)]), "`graph` has parallel edges"),
    "empty": (nx.Graph(), "`graph` has no nodes"),
    "alike names": (
        nx.Graph([(1, "1")]),
        "`graph` has nodes that have the same name as text: ['1']",
    ),
}


@pytest.mark.parametrize(("graph", "text"), GRAPHS.values(), ids=GRAPHS)
def test_graphs(graph, text):
    refuses(ValueError, text, lambda: st.Network(graph))


@pytest.mark.parametrize("graph", [None, [(0, 1)], np.eye(3)], ids=["None", "edges", "matrix"])
def test_what_is_not_a_graph(graph):
    refuses(TypeError, "`graph` must be a networkx graph", lambda: st.Network(graph))


HELPERS = {
    "ring of 2": (lambda: st.Network.ring(2), "`size` must be a whole number of at least 3, got 2"),
    "ring of text": (lambda: st.Network.ring("five"), "`size` must be a whole number"),
    "grid": (lambda: st.Network.grid(0, 3), "`rows` must be a whole number of at least 1, got 0"),
    "neighbours": (lambda: st.Network.small_world(5, 5), "`neighbours` must be below `size` (5)"),
    "half a neighbour": (
        lambda: st.Network.small_world(5, 2.5),
        "`neighbours` must be a whole number of at least 2, got 2.5",
    ),
    "rewire": (
        lambda: st.Network.small_world(6, 2, rewire=2.0),
        "`rewire` must be a probability, got 2.0",
    ),
}


@pytest.mark.parametrize(("action", "text"), HELPERS.values(), ids=HELPERS)
def test_graph_helpers(action, text):
    refuses(ValueError, text, action)


def test_a_network_of_another_size():
    text = "`network` has 4 agents but the problem has 3 shards: agents [0, 1, 2, 3], shards [a, b"
    refuses(ValueError, text, lambda: draw(network=st.Network.ring(4)))


def test_a_network_of_other_names():
    network = st.Network(nx.Graph([("a", "b"), ("b", "z")]))
    text = "name different sites: [c] have data but no node, [z] are nodes without data"
    refuses(ValueError, text, lambda: draw(network=network))


def problem_of(shards, log_likelihood=lambda p, row: -(p["m"] ** 2), parameters=None):
    return st.Problem(log_likelihood, lambda p: 0.0, parameters or {"m": ()}, shards)


SHARDS = {
    "none": ({}, ValueError, "`shards` is empty"),
    "empty shard": (
        {"a": {"y": [1.0]}, "b": {"y": []}},
        ValueError,
        "site 'b' has no rows; leave it out",
    ),
    "nan": (
        {"a": {"y": [1.0, np.nan]}},
        ValueError,
        "missing or infinite values: column 'y' of site 'a' in 1 row (row 1); drop or impute",
    ),
    "inf": (
        {"a": {"x": [[1.0, 2.0], [3.0, np.inf]]}},
        ValueError,
        "column 'x[:, 1]' of site 'a' in 1 row (row 1)",
    ),
    "text": (
        {"a": {"y": ["one"]}},
        ValueError,
        "`shards` has entries that are not numbers: column 'y' of site 'a'",
    ),
    "lengths": (
        {"a": {"x": [1.0], "y": [1.0, 2.0]}},
        ValueError,
        "site 'a' has columns of different lengths: {'x': 1, 'y': 2}",
    ),
    "columns": (
        {"a": {"y": [1.0]}, "b": {"z": [1.0]}},
        ValueError,
        "site 'b' has columns (with the shape of a row) {'z': ()}, the first site {'y': ()}",
    ),
    "row shapes": (
        {"a": {"x": [[1.0]]}, "b": {"x": [[1.0, 2.0]]}},
        ValueError,
        "site 'b' has columns (with the shape of a row) {'x': (2,)}",
    ),
    "ragged": ({"a": {"x": [[1.0], [1.0, 2.0]]}}, ValueError, "whose rows differ in shape"),
    "alike names": (
        {1: {"y": [1.0]}, "1": {"y": [2.0]}},
        ValueError,
        "`shards` mixes labels of different kinds, such as 1 and '1'; make them all text",
    ),
    "bare array": (
        {"a": np.ones(3)},
        TypeError,
        "the shard of site 'a' must map column names to arrays, got ndarray",
    ),
    "a number": (3, TypeError, "`shards` must map sites to rows, got int"),
}


@pytest.mark.parametrize(("shards", "error", "text"), SHARDS.values(), ids=SHARDS)
def test_shards(shards, error, text):
    refuses(error, text, lambda: problem_of(shards))


def test_a_likelihood_of_several_numbers():
    def build():
        return problem_of([{"y": [[1.0, 2.0]]}] * 3, lambda p, row: -((row["y"] - p["m"]) ** 2))

    text = "`log_likelihood` must return one number for a row, got shape (2,)"
    refuses(ValueError, text, build)


PARAMETERS = {
    "not a mapping": (["m"], TypeError, "`parameters` must map names, such as 'beta', to shapes"),
    "constraint": (
        lambda: {"m": st.Parameter((), "postive")},
        ValueError,
        "got 'postive'. Did you mean 'positive'?",
    ),
    "shape": (lambda: {"m": st.Parameter((0,))}, ValueError, "`shape` must be positive whole"),
    "labels": (
        lambda: {"m": st.Parameter((2,), labels=("x",))},
        ValueError,
        "`labels` names 1 entries but the shape is (2,)",
    ),
}


@pytest.mark.parametrize(("parameters", "error", "text"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(parameters, error, text):
    def action():
        problem_of([{"y": [1.0]}], parameters=parameters() if callable(parameters) else parameters)

    refuses(error, text, action)


linear, logistic = st.models.linear_regression, st.models.logistic_regression
poisson, student = st.models.poisson_regression, st.models.student_t_regression
TABLE = pd.DataFrame(changed(X, (3, 1), np.nan), columns=["age", "dose"])

MODELS = {
    "nan in a matrix": (
        lambda: linear(changed(X, (3, 1), np.nan), Y, SITES),
        "values: column 'X[:, 1]' in 1 row (row 3); drop or impute",
    ),
    "nan in a table": (lambda: linear(TABLE, Y, SITES), "column 'dose' in 1 row (row 3)"),
    "inf outcome": (
        lambda: linear(X, changed(Y, 5, np.inf), SITES),
        "`y` has missing or infinite values: column 'y' in 1 row (row 5)",
    ),
    "text": (
        lambda: linear([["x"]], [1.0], ["a"]),
        "`X` has entries that are not numbers: column 'X[:, 0]'",
    ),
    "labels": (
        lambda: logistic(X, changed(LABELS, 2, 2.0), SITES),
        "`y` must be 0 or 1, got 2 in row 2",
    ),
    "negative count": (
        lambda: poisson(X, changed(LABELS, 7, -1.0), SITES),
        "`y` must be a count (0, 1, 2, ...), got -1 in row 7",
    ),
    "half a count": (lambda: poisson(X, changed(LABELS, 0, 0.5), SITES), "got 0.5 in row 0"),
    "flat X": (lambda: linear(Y, Y, SITES), "`X` must be a table of rows and columns, got shape"),
    "no columns": (lambda: linear(X[:, :0], Y, SITES, intercept=False), "`X` has no columns"),
    "short y": (lambda: linear(X, Y[:5], SITES), "`y` must have one outcome for each of the 12"),
    "short sites": (lambda: linear(X, Y, SITES[:5]), "`sites` has 5 labels but 'x' has 12 rows"),
    "square sites": (lambda: linear(X, Y, X), "`sites` must be one label per row"),
    "missing site": (
        lambda: linear(X, Y, np.array([*SITES[:11], None], dtype=object)),
        "`sites` has no label in row 11",
    ),
    "prior_std": (
        lambda: logistic(X, LABELS, SITES, prior_std=-1.0),
        "`prior_std` must be positive and finite, got -1.0",
    ),
    "noise_std": (lambda: linear(X, Y, SITES, noise_std=0), "`noise_std` must be positive"),
    "freedom": (
        lambda: student(X, Y, SITES, degrees_of_freedom=float("nan")),
        "`degrees_of_freedom` must be positive and finite, got nan",
    ),
    "hessians": (lambda: st.models.gaussian(np.eye(2)), "`hessians` must have shape"),
    "no such site": (lambda: LINEAR.of_site("d"), "`site` must be one of ['a', 'b', 'c'], got 'd'"),
}


@pytest.mark.parametrize("make", [linear, logistic, poisson, student])
def test_the_old_name_of_a_prior_is_refused_with_the_new_one(make):
    text = "`prior_var` is now `prior_std`, a standard deviation, the square root of the variance"
    refuses(TypeError, text, lambda: make(X, LABELS, SITES, prior_var=10.0))


@pytest.mark.parametrize(("action", "text"), MODELS.values(), ids=MODELS)
def test_models(action, text):
    refuses(ValueError, text, action)


SAMPLERS = {
    "rho": (lambda: st.DADMMS(rho=-1.0), ValueError, "`rho` must be positive and finite, got -1.0"),
    "rho of NumPy": (lambda: st.CADMM(rho=np.float32(0)), ValueError, "`rho` must be positive"),
    "rho of text": (lambda: st.DADMMS(rho="5"), TypeError, "`rho` must be a number, got '5'"),
    "rho of several": (
        lambda: st.DADMMS(rho=[1.0]),
        TypeError,
        "`rho` must be a number, got [1.0]",
    ),
    "rho schedule": (
        lambda: st.DADMMS(rho=st.Decay(1.0)),
        TypeError,
        "`rho` must be a number, got Decay",
    ),
    "step": (lambda: st.DSGLD(step_size=0.0), ValueError, "`step_size` must be positive"),
    "friction": (
        lambda: st.DSGHMC(step_size=0.1, friction=-2),
        ValueError,
        "`friction` must be positive and finite, got -2",
    ),
    "consensus": (
        lambda: st.DULA(step_size=0.1, consensus_step=float("inf")),
        ValueError,
        "`consensus_step` must be positive and finite, got inf",
    ),
    "exponent": (
        lambda: st.Decay(0.1, exponent=2),
        ValueError,
        "`exponent` must be between 0 and 1, got 2",
    ),
    "scale": (lambda: st.Decay(scale=0), ValueError, "`scale` must be positive and finite, got 0"),
    "noise": (
        lambda: st.DADMMS(rho=1.0, noise="coherant"),
        ValueError,
        "`noise` must be one of ['paper', 'private', 'coherent', 'curvature', "
        "'coherent-curvature'], got 'coherant'. "
        "Did you mean 'coherent'?",
    ),
    "output": (
        lambda: st.DADMMS(rho=1.0, output="halfnoise"),
        ValueError,
        "got 'halfnoise'. Did you mean 'half-noise'?",
    ),
    "gradient noise": (
        lambda: st.DSGLD(step_size=0.1, noise="privat"),
        ValueError,
        "got 'privat'. Did you mean 'private'?",
    ),
    "batch": (
        lambda: st.DSGLD(step_size=0.1, batch_size=0),
        ValueError,
        "`batch_size` must be a whole number of at least 1, got 0",
    ),
}


@pytest.mark.parametrize(("action", "error", "text"), SAMPLERS.values(), ids=SAMPLERS)
def test_samplers(action, error, text):
    refuses(error, text, action)


RUNS = {
    "draws": ({"draws": 0}, "`draws` must be a whole number of at least 1, got 0"),
    "half draws": ({"draws": 1.5}, "`draws` must be a whole number of at least 1, got 1.5"),
    "chains": ({"chains": -1}, "`chains` must be a whole number of at least 1, got -1"),
    "burn_in": ({"burn_in": -5}, "`burn_in` must be a whole number of at least 0, got -5"),
    "thin": ({"thin": 0}, "`thin` must be a whole number of at least 1, got 0"),
    "seed": ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
    "large seed": ({"seed": 2**70}, "`seed` must be below 2**63"),
    "precision": (
        {"precision": "float46"},
        "must be one of ['float64', 'float32'], got 'float46'. Did you mean 'float64'?",
    ),
    "exactness of a given sampler": (
        {"exactness": "midpoint"},
        "`sampler` and `exactness` both say how draws are made; got DADMMS(",
    ),
    "resume without a checkpoint": ({"resume": True}, "`resume=True` needs `output` or"),
    "checkpoint_every": ({"checkpoint_every": 0}, "`checkpoint_every` must be a whole number"),
    "initial shape": (
        {"initial": np.zeros((5, 2))},
        "broadcasts to (chains, agents, dim) = (1, 3, 2), got shape (5, 2)",
    ),
    "initial text": ({"initial": "mode"}, "`initial` must be named values or an array"),
    "initial nan": ({"initial": [np.nan, 0.0]}, "`initial` must be finite"),
    "initial names": ({"initial": {"bta": 1.0}}, "exactly the parameters ['beta'], got ['bta']"),
    "initial value": (
        {"initial": {"beta": [1.0, 2.0, 3.0]}},
        "the value of 'beta' must be of shape (2,)",
    ),
}


@pytest.mark.parametrize(("settings", "text"), RUNS.values(), ids=RUNS)
def test_run_settings(settings, text):
    refuses(ValueError, text, lambda: draw(**settings))


TYPES = {
    "problem": ({"problem": X}, "`problem` must be a starlings.Problem, got ndarray"),
    "network": ({"network": nx.cycle_graph(3)}, "wrap a networkx graph with `starlings.Network"),
    "sampler name": ({"sampler": "dadmms"}, "in Python give the class or an instance"),
    "sampler class": ({"sampler": st.DSGLD}, "give them, as in `DSGLD(...)`"),
}


@pytest.mark.parametrize(("settings", "text"), TYPES.values(), ids=TYPES)
def test_types_given_to_sample(settings, text):
    refuses(TypeError, text, lambda: draw(**settings))


UNSTABLE = {
    "dsgld": st.DSGLD(step_size=1.0),
    "dsghmc": st.DSGHMC(step_size=10.0, friction=1.0),
    "dula": st.DULA(step_size=1.0, consensus_step=0.1),
    "gextra": st.GEXTRA(step_size=1.0),
    "diging": st.DIGing(step_size=1.0),
    "mahmc": st.MAHMC(step_size=2.0),
    "depsgld": st.DEPSGLD(0.2, st.Box(0.0, 1.0), smoothing=0.001),
    "dula schedule": st.DULA(step_size=st.Decay(1.0), consensus_step=0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", UNSTABLE.values(), ids=UNSTABLE)
def test_unstable_steps_are_refused_with_the_limit(sampler):
    with pytest.raises(st.StabilityError, match=r"beyond the stability limit.*take less") as caught:
        draw(sampler)
    limit = float(re.search(r"less than ([\d.e+-]+)\.$", str(caught.value)).group(1))
    stable = dataclasses.replace(sampler, step_size=0.99 * limit)
    assert draw(stable).posterior.sizes["draw"] == 2


def test_a_consensus_step_with_which_nothing_is_stable():
    sampler = st.DULA(step_size=1e-3, consensus_step=10.0)
    refuses(st.StabilityError, "no step is stable in DULA(", lambda: draw(sampler))

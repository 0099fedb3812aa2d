"""The benchmark of speed does what it says; nothing here is timed."""

from __future__ import annotations

import importlib
import itertools

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import starlings as st
from benchmarks.speed import (
    device,
    figure,
    growth,
    limit,
    plain_numpy,
    problems,
    reference,
    report,
    results,
    start,
    timing,
)
from benchmarks.speed import run as bench
from starlings.random.addresses import Round, chain_keys

AGENTS, CHAINS, ROUNDS, SEED = 4, 3, 6, 7
KITE = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3)])


def library_noise(law, network, dim):
    """n_i of the library as the plain transcriptions want it, (agent, chain, dim)."""
    degrees = network.degrees[:, None, None]
    draw = Round.private_noise if law == "paper" else Round.shared_noise

    def noise(index):
        with jax.enable_x64(True):
            keys, like = chain_keys(SEED, CHAINS, network.size), jnp.zeros(dim)
            one = jax.vmap(lambda a, n: draw(Round(index, a, n), like), in_axes=(0, None))
            drawn = np.asarray(jax.vmap(one)(*keys)).swapaxes(0, 1)
        if law == "paper":
            return np.sqrt(2) * degrees * drawn
        return 2 * degrees * np.sqrt(problems.RHO / degrees.sum()) * drawn

    return noise


def library_iterates(regression, network, law, first):
    """(round, agent, chain, dim)."""
    sampler = st.DADMMS(problems.RHO, noise=law, output="iterate")
    run = {"draws": ROUNDS, "chains": CHAINS, "burn_in": 0, "thin": 1, "seed": SEED}
    initial = first.swapaxes(0, 1)
    result = st.sample(regression.problem, network, sampler, initial=initial, check=False, **run)
    return result.posterior["beta"].to_numpy().transpose(1, 2, 0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("law", reference.LAWS)
@pytest.mark.parametrize("family", ["linear", pytest.param("logistic", marks=pytest.mark.slow)])
def test_numpy_makes_the_iterates_of_the_library(family, law):
    regression, network = problems.Regression.of(family, AGENTS), st.Network(KITE)
    first = np.random.default_rng(1).normal(size=(AGENTS, CHAINS, regression.problem.dim))
    noise = library_noise(law, network, regression.problem.dim)
    run = plain_numpy.NumpyRun(regression, network, problems.RHO, noise, first)
    for expected in library_iterates(regression, network, law, first):
        run(1)
        np.testing.assert_allclose(run.position, expected, atol=1e-10)


@pytest.mark.parametrize("family", problems.FAMILIES)
def test_cvxpy_makes_the_iterates_of_numpy(family):
    pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    plain_cvxpy = importlib.import_module("benchmarks.speed.plain_cvxpy")
    regression, network = problems.Regression.of(family, AGENTS), st.Network(KITE)
    first = np.random.default_rng(1).normal(size=(AGENTS, 1, regression.problem.dim))
    shape = (regression, network, problems.RHO)
    noises = [plain_numpy.noise_of("paper", network, problems.RHO, first.shape) for _ in range(2)]
    slow = plain_cvxpy.CvxpyRun(*shape, noises[0], first[:, 0].copy())
    fast = plain_numpy.NumpyRun(*shape, noises[1], first)
    for run in (slow, fast):
        run(3)
    np.testing.assert_allclose(slow.position, fast.position[:, 0], atol=1e-5)


def test_a_dense_and_a_sparse_sum_over_neighbours_agree(monkeypatch):
    regression, network = problems.Regression.of("linear", AGENTS), st.Network(KITE)
    first = np.random.default_rng(1).normal(size=(AGENTS, 2, 2))
    found = []
    for size in (0, 100):
        monkeypatch.setattr(plain_numpy, "DENSE_SIZE", size)
        noise = plain_numpy.noise_of("coherent", network, problems.RHO, first.shape)
        run = plain_numpy.NumpyRun(regression, network, problems.RHO, noise, first)
        run(3)
        found.append(run.position)
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.slow
def test_what_is_timed_is_what_a_run_does():
    problem, network = problems.gaussian(AGENTS, 2), st.Network.ring(AGENTS)
    run = timing.LibraryRun(problem, network, st.DADMMS(5.0), CHAINS, seed=SEED)
    done = int(run.state.round)
    run(3)
    assert int(run.state.round) == done + 3
    size = {"draws": 1, "chains": CHAINS, "burn_in": done + 2, "seed": SEED, "check": False}
    drawn = st.sample(problem, network, st.DADMMS(5.0, output="iterate"), **size).posterior["x"]
    np.testing.assert_allclose(run.state.states.position, drawn.to_numpy()[:, 0], rtol=1e-12)
    assert run.bytes_per_agent >= 8 * (2 * CHAINS * 2 + 2 * 2)  # states, and a matrix at least


def test_competitors_take_turns():
    calls = []
    runs = {name: lambda rounds, name=name: calls.append(name) for name in "AB"}
    laps = timing.alternated(runs, timing.Settings(repeats=3, quick=True))
    assert calls[-6:] == list("ABABAB")
    assert {name: len(column) for name, column in laps.items()} == {"A": 3, "B": 3}


def test_ratios_are_medians_of_pairs():
    slow = [timing.Lap(wall, 0.0) for wall in (2.0, 30.0, 8.0)]
    fast = [timing.Lap(wall, 0.0) for wall in (1.0, 10.0, 2.0)]
    assert timing.median_ratio(slow, fast) == 3.0
    assert timing.typical(slow).wall == 8.0


def test_a_pass_reads_and_writes_every_byte():
    passes = timing.Passes(80)
    passes(3)
    np.testing.assert_array_equal(passes.array, np.full(10, 3.0))


def test_units_of_work():
    assert growth.ring(10).units == 10 + 2 * 10
    assert growth.replicas(7).units == 7 * (20 + 2 * 20)
    assert growth.complete(6).units == 10 * 6
    assert growth.dimension(3).units == 10 * 10 * 3**2
    hub = growth.hub(20, agents=50)
    assert hub.network.degrees[0] == 20
    assert hub.network.nodes == list(range(50))
    assert hub.units == 50 + hub.network.degrees.sum()


def test_the_rise_counts_from_where_the_machine_is_full():
    assert growth.rise([9.0, 2.0, 1.0, 1.2, 1.1]) == pytest.approx(1.2)
    assert growth.rise([3.0, 2.0, 1.0]) == 1.0
    assert growth.rise([1.0, 4.0, 2.0]) == 4.0


@pytest.mark.slow
def test_the_unavoidable_is_the_round_it_stands_for():
    random = np.random.default_rng(2)
    inverse, positions = random.normal(size=(5, 3, 3)), random.normal(size=(5, 3, 2))
    neighbours = np.array([[4, 1], [0, 2], [1, 3], [2, 4], [3, 0]])
    with jax.enable_x64(True):
        keys = chain_keys(SEED, 2, 5)
        noise = limit.noise("private", keys, 4, jnp.asarray(positions))
        arrays = (inverse, neighbours, keys, 4, (jnp.asarray(positions), noise))
        found = [
            limit.unavoidable_round("private", way, when, *arrays)
            for way, when in itertools.product(limit.PRODUCTS, limit.DRAWN)
        ]
        later = limit.noise("private", keys, 5, jnp.asarray(positions))
        shared = limit.noise("coherent", keys, 4, jnp.asarray(positions))
    assert noise.shape == positions.shape
    assert shared.shape == (1, 3, 2)
    received = positions[neighbours].sum(axis=1)
    pulled = problems.RHO * received - np.asarray(noise)
    expected = np.einsum("iab,ibc->iac", inverse, pulled)
    for moved, _ in found:
        np.testing.assert_allclose(moved, expected, rtol=1e-10)
    for _, ahead in found[1:3]:
        np.testing.assert_array_equal(ahead, later)


def test_evaluations_are_gradient_and_hessian():
    regression = problems.Regression.of("logistic", AGENTS)
    z = np.array([0.1, -0.2, 0.05])
    with jax.enable_x64(True):
        positions = jnp.broadcast_to(z[:, None], (AGENTS, 3, 2))
        arrays = (regression.x, regression.y, 1, positions)
        ways = [np.asarray(limit.evaluation(way, *arrays)) for way in limit.HESSIANS]
    prior = regression.prior_curvature
    hessian = regression.problem.hessians(z) - prior * np.eye(3)
    sigmoid = 1 / (1 + np.exp(-regression.x @ z))
    gradient = np.einsum("ir,ird->id", sigmoid - regression.y, regression.x)
    for found in ways:
        moved = (z - found[:, :, 0]) / limit.TINY
        np.testing.assert_allclose(moved, gradient + hessian.sum(axis=-1), rtol=1e-5)


@pytest.mark.slow
def test_newton_iterations_are_counted():
    regression, network = problems.Regression.of("logistic", AGENTS), st.Network.ring(AGENTS)
    run = timing.LibraryRun(regression.problem, network, st.DADMMS(problems.RHO), 2)
    mean, slowest = limit.newton_iterations(run, rounds=3)
    assert 0 < mean <= slowest < 50


def test_bytes_of_a_round():
    assert device.bytes_of_a_round(agents=10, chains=1, dim=2, itemsize=8) == 8 * (100 + 10 * 6)
    assert device.bytes_of_a_round(agents=1, chains=3, dim=1, itemsize=4) == 4 * (15 + 2)


def test_a_child_that_fails_is_told():
    with pytest.raises(RuntimeError, match="ValueError: no luck"):
        start.timed("raise ValueError('no luck')", {})
    assert start.timed("print('hello'); print([1.5, 2.5])", {}) == [1.5, 2.5]


# The results


def part(*rows, quick=False):
    return {"machine": "a processor, 2 cores", "repeats": 7, "quick": quick, "rows": list(rows)}


def start_row(cache, seconds, most):
    cells = {"sampler": "given", "cache": cache, "cpu_seconds": seconds, "wall_seconds": 1.0}
    return cells | {"targets": {"cpu_seconds": [None, most]}}


def growth_row(size, cost, **more):
    cells = {"range": "rings", "size": size, "agents": size, "edges": size, "chains": 1, "dim": 2}
    cells |= {"seconds_per_round": 1e-5, "nanoseconds_per_unit": cost, "bytes_per_agent": 240.0}
    return cells | {"pass_nanoseconds_per_unit": 1.0, "compile_seconds": 1.0} | more


STORED = {
    "growth": part(
        growth_row(100, 3.0),
        growth_row(1000, 2.0),
        growth_row(10_000, 4.0, rise=2.0, targets={"rise": [None, 1.5]}),
        quick=True,
    ),
    "start": part(start_row("cold", 4.0, 6.0), start_row("warm", 3.5, 3.0)),
}


def test_the_page_has_tables_stars_and_where_it_was_measured():
    text = report.page_text(STORED)
    assert "Targets met: 1 of 3." in text
    assert "| rings | 10,000 | 10,000 | 10,000 | 1 | 2 | 1.00e-05 | 4 | 1 | 2.00 * |" in text
    assert "| given | cold | 4.00 | 1.00 |" in text
    assert "| given | warm | 3.50 * | 1.00 |" in text
    assert "Measured on: a processor, 2 cores. Repeats: 7. A quick trial" in text
    assert "## On a GPU" not in text


def test_targets_have_two_ends():
    row = {"a": 1.0, "b": 2.0, "c": float("nan")}
    row["targets"] = {"a": [1.0, None], "b": [None, 1.5], "c": [0.0, None]}
    assert report.missed_targets(row) == ["b", "c"]
    assert report.missed_targets({"a": 1.0}) == []


def test_the_figure_has_a_panel_for_each_part():
    titles = [axes.get_title(loc="left") for axes in figure.overview(STORED).axes]
    assert titles == ["Growth", "Start"]


@pytest.fixture
def measured(monkeypatch):
    """Parts that measure nothing; the second of a run stops it once."""
    made, stop = [], [True]

    def measure(name, row):
        def of(settings):
            made.append(name)
            if len(made) == 2 and stop:
                stop.pop()
                raise KeyboardInterrupt
            return [row]

        return of

    for name, row in (("growth", growth_row(100, 3.0)), ("start", start_row("cold", 4.0, 6.0))):
        monkeypatch.setattr(report.PARTS[name], "measure", measure(name, row))
    return made


def test_a_stopped_run_keeps_what_it_has(measured, tmp_path):
    page = tmp_path / "speed.md"
    with pytest.raises(KeyboardInterrupt):
        bench.run(tmp_path, parts="growth,start")
    assert list(results.SpeedFile(tmp_path / "speed.json").parts) == ["growth"]
    bench.run(tmp_path, parts="start", repeats=3, page=page)
    parts = results.SpeedFile(tmp_path / "speed.json").parts
    assert {name: each["repeats"] for name, each in parts.items()} == {"growth": 7, "start": 3}
    assert measured == ["growth", "start", "start"]
    assert (tmp_path / "images" / "speed.png").exists()
    assert (tmp_path / "speed.svg").exists()
    assert "## Growth" in page.read_text()


def test_the_page_shows_what_was_measured_on_a_gpu(tmp_path):
    row = dict.fromkeys(device.COLUMNS, 1.0)
    row |= {"case": "many agents", "dtype": "float32", "agents": 10, "chains": 1, "share": 0.5}
    row["targets"] = {"share": [0.75, None]}
    settings = timing.Settings()
    results.SpeedFile(tmp_path / "speed-gpu.json").put("device", [row], settings)
    bench.run(tmp_path, parts="none", page=tmp_path / "speed.md")
    text = (tmp_path / "speed.md").read_text()
    assert "## On a GPU" in text
    assert "0.50 *" in text


def test_a_file_of_something_else_is_named(tmp_path):
    path = tmp_path / "speed.json"
    path.write_text('{"growth": 3}')
    with pytest.raises(ValueError, match=r"speed.json is not a results file"):
        results.SpeedFile(path).parts  # noqa: B018

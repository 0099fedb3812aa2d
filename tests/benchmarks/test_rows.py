"""What the benchmark `rows` compares with, how it keeps time, and its page."""

from __future__ import annotations

import time

import jax
import numpy as np
import pytest

from benchmarks.rows import data, product, report, study
from benchmarks.rows import run as bench
from benchmarks.speed.results import SpeedFile
from benchmarks.speed.timing import Settings
from starlings.solvers.pooled.mode import local_mode

ROWS = 500


@pytest.fixture(scope="module")
def table():
    return data.Table.simulated(ROWS)


def test_the_approximation_has_the_mode_and_the_curvature_there(table):
    mode = local_mode(table.problem)
    mean, covariance = data.approximated(table)
    hessian = table.problem.hessians(mode.point).sum(axis=0)
    np.testing.assert_allclose(covariance, np.linalg.inv(hessian), rtol=1e-6)
    shift = (mean - mode.point) / np.sqrt(np.diag(covariance))
    assert 0.01 < np.abs(shift).max() < 10 * ROWS**-0.5


def test_z_counts_standard_errors():
    draws = np.random.default_rng(0).normal(size=(10_000, 2))
    draws = (draws - draws.mean(axis=0)) / draws.std(axis=0, ddof=1)
    of_means, of_sds = data.largest_z(draws, np.array([0.0, -0.02]), np.eye(2))
    assert of_means == pytest.approx(2.0)
    assert of_sds == pytest.approx(0.0, abs=1e-9)
    _, of_sds = data.largest_z(draws, np.zeros(2), np.diag([1.0, np.exp(0.02)]))
    assert of_sds == pytest.approx(0.01 * np.sqrt(20_000))


def test_a_stopwatch_adds_up_what_a_phase_takes():
    kept = study.Stopwatch()
    slow = kept.timed(lambda seconds: time.sleep(seconds), "slow")
    slow(0.01), slow(seconds=0.02)
    assert 0.03 <= kept.seconds["slow"] < 1.0


@pytest.mark.slow
def test_a_run_is_timed_by_phases_and_its_draws_are_right():
    """At so few rows the means would be 6 standard errors off without the third derivatives."""
    found = study.run(ROWS, seed=0)
    phases = [found[f"{name}_seconds"] for name in ("mode", "candidates", "draws")]
    assert min(phases) > 0
    assert sum(phases) == pytest.approx(found["sample_seconds"])
    assert 0 < found["cpu_seconds"] < 100 * found["sample_seconds"]
    assert 0.1 < found["gigabytes"] < 100
    assert found["device_gigabytes"] is None
    assert found["candidates"] >= found["effective"] > study.DRAWS
    assert found["network_rounds"] > 0
    assert found["z_of_means"] < study.LARGEST_Z
    assert found["z_of_sds"] < study.LARGEST_Z


def test_runs_are_summed_up_with_their_targets():
    run = {"rows": study.JUDGED_ROWS, "sample_seconds": 1.0, "gigabytes": 2.0}
    run |= {"device_gigabytes": None, "z_of_means": 1.0, "z_of_sds": 0.5, "network_rounds": 65}
    others = [run | {"sample_seconds": 200.0, "gigabytes": 4.0}, run | {"sample_seconds": 3.0}]
    row = study.summary([run, *others])
    assert (row["sample_seconds"], row["gigabytes"]) == (3.0, 4.0)
    assert row["targets"]["gigabytes"] == [None, 3.0]
    assert row["targets"]["sample_seconds"] == [None, 180.0]
    on_gpu = study.summary([one | {"device_gigabytes": 5.0} for one in (run, *others)])
    assert set(on_gpu["targets"]) == {"z_of_means", "z_of_sds"}


@pytest.mark.slow
def test_a_child_that_fails_is_told():
    with pytest.raises(RuntimeError, match=r"`device` is 'abacus', but JAX finds none"):
        study.launched(ROWS, 0, "abacus")


@pytest.mark.slow
def test_products_and_potentials_are_what_they_stand_for(table):
    points = np.random.default_rng(1).normal(size=(300, data.DIM))
    with jax.enable_x64(True):
        plain = product.Products(table.X, points, block_bytes=2**16).found()
        np.testing.assert_allclose(plain, np.abs(table.X @ points.T).sum(axis=0), rtol=1e-12)
        ours = product.Potentials(table, points, "float64").found()
        single = product.Potentials(table, points, "float32").found()
    scale = 2 * ROWS**-0.5
    expected = [table.problem.potential(data.COEFFICIENTS + scale * z) for z in points[:3]]
    np.testing.assert_allclose(ours[:3], expected, rtol=1e-12)
    np.testing.assert_allclose(single, ours, rtol=1e-5)


@pytest.mark.slow
def test_a_quick_run_measures_and_writes_the_page(tmp_path):
    page = tmp_path / "rows.md"
    bench.run(tmp_path, parts="product", repeats=2, quick=True, page=page)
    rows = SpeedFile(tmp_path / "rows.json").parts["product"]["rows"]
    assert [row["dtype"] for row in rows] == ["float64", "float32"]
    assert rows[0]["error"] == 0 < rows[1]["error"]
    assert "A quick trial" in page.read_text()


def test_the_page_shows_both_kinds_of_devices(tmp_path):
    row = dict.fromkeys(product.COLUMNS, 1.0)
    row |= {"dtype": "float64", "rows": 10, "candidates": 5, "ratio": 4.0}
    settings = Settings()
    SpeedFile(tmp_path / "rows.json").put("product", [row], settings)
    on_gpu = row | {"rows": 1000, "targets": {"ratio": [None, product.LARGEST_RATIO]}}
    SpeedFile(tmp_path / "rows-gpu.json").put("product", [on_gpu], settings)
    bench.run(tmp_path, parts="none", page=tmp_path / "rows.md")
    text = (tmp_path / "rows.md").read_text()
    assert text.count(report.PARTS["product"].TITLE) == 1
    assert "| float64 | 10 | 5 | 1.000 | 1.000 | 4.00 |" in text
    assert "| float64 | 1,000 | 5 | 1.000 | 1.000 | 4.00 * |" in text
    assert "Targets met: 0 of 1." in text

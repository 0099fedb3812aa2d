"""A result as a table and as JSON: right numbers, readable on any terminal, for any program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.results.summary import Summary
from starlings.results.text_table import with_meaningful_digits

LONG = "days since the last admission to any of the hospitals of this study"
LABELS = ["age", LONG, "体重"]
FILE = Path("draws.nc")


def made(values: np.ndarray, **more: np.ndarray) -> st.Result:
    """A result with the draws `beta` (chain, draw, agent, label) and more parameters."""
    chains, draws, agents = values.shape[:3]
    coordinates = {"chain": range(chains), "draw": range(draws), "beta_dim_0": LABELS}
    coordinates["agent"] = [f"site {i}" for i in range(agents)]
    dims = ["chain", "draw", "agent"]
    posterior = xr.Dataset({"beta": ([*dims, "beta_dim_0"], values)}, coords=coordinates)
    for name, other in more.items():
        posterior[name] = (dims, other)
    sent = np.broadcast_to(np.arange(1, agents + 1) * 100, (chains, draws, agents))
    stats = {"disagreement": (dims[:2], np.full((chains, draws), 0.25))}
    stats |= {"messages_sent": (dims, sent), "bytes_sent": (dims, 24 * sent)}
    attributes = {
        "inference_library": "starlings",
        "inference_library_version": "1.2.3",
        "sampler": "DADMMS",
        "sampler_settings": '{"rho": 5.0}',
        "seed": 7,
        "precision": "float64",
        "burn_in": 50,
        "thin": 2,
    }
    groups = {"posterior": posterior, "sample_stats": xr.Dataset(stats)}
    return st.Result(
        xr.DataTree.from_dict({n: group.assign_attrs(attributes) for n, group in groups.items()})
    )


@pytest.fixture
def result() -> st.Result:
    random = np.random.default_rng(0)
    noise = random.normal(size=(4, 200, 3, 3))
    return made(noise * [0.1, 0.0123, 2000.0] + [1.0, 1234.5678, 50_000.0])


def cells_of(text: str, name: str) -> list[str]:
    """The numbers beside a name, or below it."""
    lines = text.splitlines()
    (row,) = (i for i, line in enumerate(lines) if line.startswith(name))
    return lines[row].removeprefix(name).split() or lines[row + 1].split()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_and_has_every_name_and_number(result, width):
    text = Summary(result, FILE).table(width)
    assert all(len(line) <= width for line in text.splitlines() if LONG not in line)
    for k, label in enumerate(LABELS):
        name = f"beta[{label}]"
        cells = cells_of(text, name)
        draws = result.posterior.beta.values[..., k]
        numbers = [draws.mean(), draws.std(), *np.quantile(draws, (0.05, 0.95))]
        np.testing.assert_allclose(
            [float(cell) for cell in cells[:4]], numbers, atol=0.01 * draws.std()
        )
        assert len(cells) == (8 if width < 80 else 9)
    is_beside = cells_of(text, "beta[age]")[0] in text.splitlines()[2]
    assert is_beside == (width >= 80)


def test_digits_are_those_that_the_spread_leaves_meaningful():
    assert [with_meaningful_digits(x, 0.0123) for x in (1234.5678, -0.5, 0.0)] == [
        "1234.5678",
        "-0.5000",
        "0.0000",
    ]
    assert with_meaningful_digits(51_234.6, 2000.0) == "51235"
    assert with_meaningful_digits(1.5e-9, 3.1e-10) == "1.5e-09"
    assert with_meaningful_digits(0.99999987, 7.6e-8) == "0.9999998700"
    assert with_meaningful_digits(2.5e12, 3.1e10) == "2.5e+12"
    assert with_meaningful_digits(2.5, 0.0) == "2.5"
    assert with_meaningful_digits(np.nan, np.nan) == "-"


def test_the_worst_agent_is_shown(result):
    """One agent's chains are apart, another's means: the table tells of both."""
    values = result.posterior.beta.values.copy()
    values[0, :, 1, 0] += 1.0  # ten sd
    text = Summary(made(values), FILE).table(120)
    rhat, bulk, _, apart = (float(cell) for cell in cells_of(text, "beta[age]")[5:])
    assert rhat > 1.5
    assert bulk < 10
    means = values[..., 0].mean(axis=(0, 1))
    assert apart == pytest.approx(np.ptp(means) / values[..., 0].std(), abs=5e-4)


def test_derived_quantities_are_listed(result):
    extra = made(result.posterior.beta.values, odds=result.posterior.beta.values[..., 0])
    shown = Summary(extra, FILE)
    assert cells_of(shown.table(100), "odds") == cells_of(shown.table(100), "beta[age]")


def test_the_run_and_the_verdict_are_told(result):
    text = Summary(result, FILE).as_text(200)
    assert "DADMMS: 4 chains of 200 draws at 3 agents, seed 7, starlings 1.2.3" in text
    assert "450 network rounds in all, and 57.6 kB sent by all agents together" in text
    assert "Disagreement 0.25" in text
    assert "Draws saved to draws.nc" in text
    assert text.endswith(str(result.check()))


def test_of_many_agents_the_most_suspicious_is_examined(result):
    values = result.posterior.beta.values.copy()
    values[0, :, 1, 0] += 1.0
    whole = Summary(made(values), FILE).parameters
    quick = Summary(made(values), FILE, max_series=8).parameters  # of 9
    assert quick["rhat"].iloc[0] == whole["rhat"].iloc[0]
    assert quick["rhat_agent"].iloc[0] == "site 1"
    assert np.all(quick["ess_bulk"] >= whole["ess_bulk"])


def test_a_result_summarises_itself(result):
    """Pooled moments, and beside them the diagnostics of the worst agent."""
    values = result.posterior.beta.values.copy()
    values[:, :, 1, 0] = values[:, ::20, 1, 0].repeat(20, axis=1)  # 40 different draws of 800
    table = made(values).summary()
    assert list(table.index) == [f"beta[{label}]" for label in LABELS]
    assert list(table.columns) == [
        *("mean", "sd", "5%", "50%", "95%"),
        *("mcse", "rhat", "ess_bulk", "ess_tail", "mean_range"),
    ]
    pooled = values.reshape(-1, 3)
    np.testing.assert_allclose(table["mean"], pooled.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(table["sd"], pooled.std(axis=0), rtol=1e-12)
    quantiles = np.quantile(pooled, (0.05, 0.5, 0.95), axis=0).T
    np.testing.assert_allclose(table[["5%", "50%", "95%"]], quantiles, rtol=1e-12)
    exact = ["rhat", "ess_bulk", "ess_tail", "mcse", "mean_range"]
    pd.testing.assert_frame_equal(table[exact], made(values).check().table[exact])
    # the error of a mean of n independent draws is sd / sqrt(n); sds and n are known to some 20 %
    sd = values[:, :, 1].std(axis=(0, 1))
    np.testing.assert_allclose(table["mcse"], sd / np.sqrt([40, 800, 800]), rtol=0.4)


def test_a_summary_prints_as_show_does(result, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    table = result.summary()
    assert str(table) == repr(table) == Summary(result, FILE).table(90)
    assert type(table[["mean", "sd"]]) is type(table.round(2)) is pd.DataFrame


def test_a_summary_of_many_series_is_quick(result):
    values = np.tile(result.posterior.beta.values[:, :100], (1, 1, 300, 1))  # 2,700 series
    values[0, :, 7, 0] += 1.0
    table = made(values).summary()
    assert table.loc["beta[age]", "rhat"] > 1.5
    assert table["rhat"].iloc[1:].max() < 1.1


def strictly(text: str) -> dict:
    """JSON as other programs read it: without NaN and infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_json_has_all_numbers(result):
    record = strictly(Summary(result, FILE).as_json())
    first, draws = record["parameters"][0], result.posterior.beta.values[..., 0]
    assert [p["name"] for p in record["parameters"]] == [f"beta[{label}]" for label in LABELS]
    assert first["mean"] == pytest.approx(draws.mean(), rel=1e-12)
    assert first["sd"] == pytest.approx(draws.std(), rel=1e-12)
    levels = {float(level): value for level, value in first["quantiles"].items()}
    np.testing.assert_allclose(list(levels.values()), np.quantile(draws, list(levels)))
    table = result.check().table.iloc[0]
    for name, column in (("rhat", "rhat"), ("ess_bulk", "ess_bulk"), ("mean_range", "mean_range")):
        assert first[name] == table[column]
    assert record["run"] == {
        "version": "1.2.3",
        "method": None,
        "sampler": "DADMMS",
        "sampler_settings": {"rho": 5.0},
        "tuned": False,
        "agents": 3,
        "chains": 4,
        "draws": 200,
        "network_rounds": 450,
        "bytes_sent": 57600,
        "burn_in": 50,
        "thin": 2,
        "seed": 7,
        "precision": "float64",
        "privacy": None,
        "disclosed": None,
        "data_of": None,
        "absent": None,
        "disagreement": 0.25,
        "messages": {"least": 100, "most": 300},
        "bytes": {"least": 2400, "most": 7200},
        "output": "draws.nc",
    }
    check = result.check()
    verdict = {"ok": check.ok, "problems": check.problems, "verdict": str(check)}
    assert record["check"] == verdict


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (4, 3)])
def test_json_of_a_trial_has_null_for_what_is_unknown(size, result, capsys):
    few = made(result.posterior.beta.values[: size[0], : size[1]])
    record = strictly(Summary(few, FILE).as_json())
    assert record["parameters"][0]["rhat"] is None
    assert not record["check"]["ok"]
    assert cells_of(Summary(few, FILE).table(120), "beta[age]")[5] == "-"
    assert capsys.readouterr() == ("", "")


def test_show_prints_a_saved_result_again(result, tmp_path):
    saved = result.save(tmp_path / "draws.nc")
    plain = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["show", str(saved)])
    assert plain.exit_code == 0
    assert plain.stdout == Summary(result, saved).as_text(100) + "\n"
    assert plain.stderr.startswith("examining the draws")
    as_json = CliRunner().invoke(app, ["show", "-q", "--json", str(saved)])
    assert (as_json.exit_code, as_json.stderr) == (0, "")
    assert strictly(as_json.stdout) == Summary(result, saved).record()


def test_an_output_without_the_letters_has_question_marks(result, tmp_path):
    saved = result.save(tmp_path / "draws.nc")
    outcome = CliRunner(charset="latin-1").invoke(app, ["show", str(saved)])
    assert outcome.exit_code == 0, outcome.stderr
    assert "beta[??]" in outcome.stdout


def test_a_file_of_another_program_is_refused(result, tmp_path):
    foreign = tmp_path / "foreign.nc"
    xr.DataTree.from_dict({"posterior": result.posterior.drop_attrs()}).to_netcdf(foreign)
    outcome = CliRunner().invoke(app, ["show", str(foreign)])
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("Error: ")
    assert "starlings did not write it" in outcome.stderr

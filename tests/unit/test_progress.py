"""What a run tells of itself: lines in a log, a bar on a terminal, nothing where it is unwanted."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest

import starlings as st
from starlings.system import progress
from tests.quick import quick_cases


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when it is told to."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of so many columns in the place of stderr."""

    def made(columns: int, encoding: str = "utf-8") -> io.TextIOWrapper:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        stream.isatty = lambda: True
        for name, value in (("COLUMNS", str(columns)), ("TERM", "xterm"), ("LINES", "25")):
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return made


def seen_on(stream: io.TextIOWrapper) -> list[str]:
    """What was on the last lines of a terminal, one after the other, without colours."""
    stream.flush()
    text = stream.buffer.getvalue().decode(stream.encoding)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


def test_a_log_has_a_line_at_once_then_every_ten_seconds_and_one_at_the_end(clock, capsys):
    with progress.progress_bar("sampling", 1000, True) as report:
        assert capsys.readouterr().err == "sampling: 1,000 rounds\n"
        clock(4)
        report(100, 0.5)  # rounds are compiled before the first report
        clock(5.9)
        report(250, 0.5)
        assert capsys.readouterr().err == ""
        clock(0.1)
        report(280, 0.25)
        line = capsys.readouterr().err
        assert line == "sampling: 280 of 1,000 rounds, 30/s, 24 s left, disagreement 0.25\n"
        clock(9.9)
        report(580, 0.25)
        assert capsys.readouterr().err == ""
        clock(70.1)
        report(1000, 0.125)
    last = capsys.readouterr().err
    assert last == "sampling: 1,000 of 1,000 rounds in 1:30, disagreement 0.125\n"


def test_the_speed_of_a_resumed_run_is_that_of_its_new_rounds(clock, capsys):
    with progress.progress_bar("sampling", 10_000, True) as report:
        report(9000, 1.0)
        clock(20)
        report(9040, 1.0)
    assert "9,040 of 10,000 rounds, 2/s, 8:00 left" in capsys.readouterr().err


def test_what_was_done_before_is_said(capsys):
    with progress.progress_bar("calibrating", 9, True, "replications", done=4):
        pass
    assert "calibrating: 9 replications, of which 4 are done" in capsys.readouterr().err


@pytest.mark.parametrize("wanted", [False, None])
def test_nothing_is_said_off_a_terminal_unless_wanted(wanted, capsys):
    progress.print_status("words", wanted)
    with progress.spinner("stage", wanted), progress.progress_bar("count", 3, wanted) as report:
        assert report is None
    assert capsys.readouterr() == ("", "")


def test_nothing_is_said_where_stderr_is_closed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    for wanted in (True, None):
        progress.print_status("words", wanted)
        with progress.spinner("stage", wanted), progress.progress_bar("count", 3, wanted) as report:
            assert report is None
    assert capsys.readouterr().out == ""


def test_a_stage_says_when_it_begins_and_how_long_it_took(clock, capsys):
    with progress.spinner("tuning", True):
        assert capsys.readouterr().err == "tuning ...\n"
        clock(3.25)
    assert capsys.readouterr().err == "tuning: done in 3.2 s.\n"


@pytest.mark.parametrize(("columns", "has_bar"), [(120, True), (80, True), (60, False)])
def test_a_bar_shows_whole_numbers_on_any_terminal(columns, has_bar, terminal, clock):
    stream = terminal(columns)
    with progress.progress_bar("sampling", 32_500) as report:
        report(100, 0.00123)
        clock(2)
        report(20_180, 0.00123)
    last = seen_on(stream)[-1]
    assert last.startswith("sampling")
    assert "20,180/32,500 rounds, 10,040/s, 1.2 s left" in last
    assert "…" not in last
    assert ("━" in last, "apart 0.00123" in last) == (has_bar, has_bar)
    assert max(map(len, seen_on(stream))) <= columns


def test_a_terminal_without_unicode_has_a_bar_and_a_spinner(terminal):
    stream = terminal(80, "ascii")
    with progress.spinner("tuning"):
        pass
    with progress.progress_bar("sampling", 10) as report:
        report(5, 1.0)
    words = " ".join(seen_on(stream))
    assert "tuning" in words
    assert "5/10 rounds" in words


def problem() -> st.Problem:
    shards = {"a": {"y": [1.0, 2.0]}, "b": {"y": [3.0]}, "c": {"y": [0.0, 1.5]}}
    return st.Problem(
        lambda p, row: -0.5 * (row["y"] - p["mean"]) ** 2,
        lambda p: -0.5 * p["mean"] ** 2,
        {"mean": ()},
        shards,
    )


LENGTHS = {"draws": 5, "chains": 2, "burn_in": 3, "thin": 2, "check": False}


@pytest.mark.slow
def test_a_tuned_run_says_what_it_does_in_order(capsys):
    st.sample(problem(), st.Network.path(3), **LENGTHS, progress=True)
    out, err = capsys.readouterr()
    lines = [re.sub(r" in [\d.]+ s", " in T", line) for line in err.splitlines()]
    assert out == ""
    assert lines[0] == (
        "5 rows at 3 sites, 1 parameter, 2 links; the agents tune their sampler; "
        "2 chains of 5 draws"
    )
    assert lines[1:3] == [
        "tuning: mode and scale of the posterior ...",
        "tuning: mode and scale of the posterior: done in T.",
    ]
    assert lines[3] == "tuning, pilot run 1: 200 rounds"
    assert lines[4].startswith("tuning, pilot run 1: 200 of 200 rounds in T, disagreement ")
    assert lines[-3].startswith("tuned in ")
    assert lines[-2] == "sampling: 13 rounds"
    assert lines[-1].startswith("sampling: 13 of 13 rounds in T, disagreement ")


def test_a_run_that_chooses_its_method_says_which_and_why(capsys):
    st.sample(problem(), st.Network.path(3), draws=50, check=False, progress=True)
    out, err = capsys.readouterr()
    lines = [re.sub(r" in [\d.]+ s", " in T", line) for line in err.splitlines()]
    assert out == ""
    assert lines[0] == (
        "5 rows at 3 sites, 1 parameter, 2 links; the agents choose the method; 200 effective draws"
    )
    mode, weights = (
        "tuning: mode and scale of the posterior",
        "weights: potentials of all sites at shared candidates",
    )
    assert lines[1:3] == [f"{mode} ...", f"{mode}: done in T."]
    assert lines[3:-1] == [f"{weights} ...", f"{weights}: done in T."]
    pattern = (
        r"method 'weights': Pareto k-hat -?\d\.\d\d, \d+ of 512 candidates are effective; "
        r"further rounds that are predicted: weights 0, hmc [\d,]+, dadmms [\d,]+; "
        r"\d+ network rounds so far"
    )
    assert re.fullmatch(pattern, lines[-1])


@pytest.mark.slow
def test_a_run_with_a_given_sampler_names_it(capsys):
    st.sample(problem(), st.Network.path(3), st.DADMMS(5.0), **LENGTHS, progress=True)
    assert "2 links; D-ADMMS; 2 chains" in capsys.readouterr().err.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", quick_cases([False, None], [None]))
def test_python_is_silent_off_a_terminal(wanted, capsys):
    st.sample(problem(), st.Network.path(3), **LENGTHS, progress=wanted)
    assert capsys.readouterr() == ("", "")


class Heard:
    """An observer that keeps what it hears."""

    def __init__(self):
        self.tasks, self.done, self.draws, self.apart = [], [], [], []

    def began(self, task, total, unit):
        self.tasks.append((task, total, unit))

    def reached(self, done):
        self.done.append(done)

    def drew(self, names, values, disagreement):
        assert names == ["x[0]", "x[1]"]
        self.draws.append(np.asarray(values))
        self.apart.append(disagreement)


def quadratic() -> st.Problem:
    hessians = np.array([[[2.0, 0.3], [0.3, 1.0]]] * 3)
    return st.models.gaussian(hessians, np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 2.0]]))


def observed(*sampler, **how) -> tuple[Heard, st.Result]:
    """What an observer hears of a run, and its result."""
    heard, fixed = Heard(), {"check": False, "progress": False, **how}
    with progress.observed_by(heard):
        result = st.sample(quadratic(), st.Network.ring(3), *sampler, **fixed)
    return heard, result


def test_an_observer_hears_of_rounds_and_draws_though_nothing_is_shown(capsys):
    heard, result = observed(st.DADMMS(rho=1.0), draws=3, chains=2, burn_in=4, thin=2)
    last = result.posterior.x.values[:, -1]
    distances = ((last - last.mean(axis=1, keepdims=True)) ** 2).sum(axis=-1).mean(axis=-1)
    assert heard.tasks == [("sampling", 10, "rounds")]
    assert heard.done[-1] == 10
    np.testing.assert_array_equal(heard.draws[-1], last[0, 0])
    np.testing.assert_allclose(heard.apart[-1], np.sqrt(distances).mean(), rtol=1e-12)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_an_observer_hears_of_draws_that_agents_have_in_common():
    heard, result = observed(method="hmc", draws=3, chains=4)
    assert heard.tasks[0] == ("tuning: mode and scale of the posterior", None, "")
    assert heard.tasks[-1] == ("sampling by HMC", 3, "draws of each chain")
    assert len(heard.draws) == heard.done[-1] == 3
    np.testing.assert_allclose(heard.draws, result.posterior.x.values[0, :, 0], rtol=1e-12)
    assert set(heard.apart) == {0.0}


def test_nothing_is_heard_outside_of_the_context():
    heard = Heard()
    with progress.observed_by(heard):
        pass
    with progress.progress_bar("sampling", 3, False) as report:
        assert report is None
    progress.report_draw(["x"], pytest.fail)
    assert heard.tasks == heard.draws == []

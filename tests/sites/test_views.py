"""What a site shows of itself, in words and on a terminal."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from starlings.cli import app
from starlings.sites import status_lines
from starlings.sites.status_reader import read_status
from starlings.sites.status_view import WARNING_DAYS, View, how_long, how_much, snapshot
from tests.sites.statuses import neighbour, status, write


@pytest.fixture
def folder(tmp_path) -> Path:
    return write(tmp_path)


def starlings(*arguments):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(one) for one in arguments])


# The file


def test_the_newest_run_is_shown(tmp_path):
    for number, rounds in enumerate([3, 1, 2]):
        run = tmp_path / f"run-{number}"
        run.mkdir()
        (run / "status.json").write_text(json.dumps(status(rounds=rounds)), "utf-8")
        os.utime(run / "status.json", (rounds, rounds))
    assert read_status(tmp_path)["rounds"] == 3
    assert read_status(tmp_path / "run-1")["rounds"] == 1


def test_a_half_written_file_is_read_again(folder):
    path = folder / "run-3f3f" / "status.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    timer = threading.Timer(0.03, lambda: write(folder))
    timer.start()
    assert read_status(folder)["rounds"] == 4210
    timer.join()


def test_a_snapshot_has_the_file_and_the_view(folder):
    found = snapshot(folder)
    assert found["rounds"] == 4210
    assert found["view"]["level"] == "advancing"


def test_a_status_without_traces_and_tasks_is_shown():
    found = view(task=None, traced=None, traces=None, disagreement=None)
    assert (found.phase, found.progress, found.traces) == ("not reported", "", [])
    assert found.disagreement == "not known"
    assert view(traces=[[1.0, 2.0], [None, 3.0]]).traces[0].values == [1.0]


def test_what_a_site_writes_can_be_shown(tmp_path):
    from starlings.sites.status import StatusFile

    ends = SimpleNamespace(timestamp=lambda: time.time() + 61.5 * 86400)
    manifest = SimpleNamespace(
        trial="rand-hie", hash="3f" * 32, sites=["Ashby", "Brook"], content={"edges": []}
    )
    certificate = SimpleNamespace(not_valid_after_utc=ends)
    kit = SimpleNamespace(site="Ashby", manifest=manifest, certificate=certificate)
    stream = SimpleNamespace(
        neighbour="Brook", waiting_since=None, num_arrived=7, made=9, durable=4
    )
    communicator = SimpleNamespace(calls=5, rounds=7, streams={1: stream})
    link = SimpleNamespace(**neighbour("Brook"))
    links = SimpleNamespace(state=lambda: {"Brook": link})
    file = StatusFile(tmp_path, kit, communicator, links)
    file.began("tuning, pilot run 1", 300, "rounds")
    file.reached(120)
    for draw in range(400):
        file.drew(["a", "b", "c", "d", "e"], [draw, -draw, 0.0, 0.5, 9.0], 0.5)
    file._try("done")
    assert (tmp_path / "status.json").stat().st_mode & 0o777 == 0o600
    found = View.of(read_status(tmp_path))
    assert (found.level, found.rounds, found.certificate) == ("done", "7", "61 days")
    assert (found.phase, found.progress) == ("tuning, pilot run 1", "120 of 300 rounds")
    assert found.disagreement == "0.5"
    assert [(trace.name, trace.newest) for trace in found.traces] == [
        ("a", "399"),
        ("b", "-399"),
        ("c", "0"),
        ("d", "0.5"),
    ]
    assert found.traces[0].values == list(range(100, 400))
    with file:
        pass
    assert View.of(read_status(tmp_path)).phase == "done"
    assert (found.neighbours[0].received, found.neighbours[0].unconfirmed) == ("7", "5")


# Words


def view(**changes) -> View:
    return View.of(status(**changes))


def test_a_run_that_advances():
    found = view()
    assert (found.level, found.title) == ("advancing", "The run is advancing")
    assert [each.link for each in found.neighbours] == ["up", "up", "up"]
    assert (found.rate, found.rounds, found.certificate) == ("44.1", "4,210", "61 days")
    assert found.neighbours[0].round_trip == "31.2 ms"
    assert found.neighbours[0].bytes_sent == "1.23 MB"
    assert found.neighbours[0].unconfirmed == "10"
    assert len(found.rates) == 239


def test_a_neighbour_that_is_awaited():
    rows = [neighbour("Brook", waiting_seconds=75.0), neighbour("Dale", waiting_seconds=3.0)]
    found = view(neighbours=rows, advanced=time.time() - 75)
    assert (found.level, found.title) == ("waiting", "Waiting for Brook")
    assert "awaited for 1 min 15 s. The link to Brook is up." in found.detail
    assert found.neighbours[0].words == "up, awaited for 1 min 15 s"


def test_a_link_that_is_down():
    down = {"is_connected": False, "doing": "connects by relay.example.org", "waiting_seconds": 9.0}
    found = view(neighbours=[neighbour("Brook", **down)], advanced=time.time() - 9)
    assert "No link to Brook." in found.detail
    assert found.neighbours[0].link == "down"
    assert found.neighbours[0].words.startswith("down, awaited for 9 s, connects by")
    refused = neighbour("Brook", is_connected=False, is_refused=True, waiting_seconds=None)
    assert view(neighbours=[refused]).neighbours[0].words == "down, refused, see the error"


def test_a_site_that_computes():
    assert view(advanced=time.time() - 60).title == "This site is computing"
    assert view(rounds=0).level == "computing"


def test_a_neighbour_without_any_connection_yet():
    new = {"name": "Brook", "waiting_seconds": None, "received": 0, "made": 0, "confirmed": 0}
    row = view(neighbours=[new]).neighbours[0]
    assert (row.link, row.words, row.round_trip) == ("down", "down, not connected", "")


def test_a_site_that_is_not_running_any_more():
    found = view(time=time.time() - 40)
    assert (found.level, found.title) == ("stopped", "This site is not running any more")
    assert "last seen 40 s ago. Start it again with the same command" in found.detail
    assert {each.link for each in found.neighbours} == {"unknown"}
    assert found.rate == "0.0"


def test_a_site_that_has_stopped_says_why():
    found = view(state="stopped: the disk is full.")
    assert (found.level, found.title) == ("stopped", "This site has stopped")
    assert "the disk is full. Start it again" in found.detail


def test_a_run_that_is_done_stays_done():
    assert view(state="done", time=time.time() - 1e6).level == "done"


def test_a_clock_that_was_set_back():
    assert view(time=time.time() + 3600, advanced=time.time() + 3600).level == "advancing"
    assert view(history=[[5.0, 1], [3.0, 2], [4.0, 3]]).rates == [0.0, 1.0]


@pytest.mark.parametrize(
    ("days", "words"), [(-1.0, "expired"), (0.5, "0 days"), (1.2, "1 day"), (None, "not known")]
)
def test_certificates(days, words):
    assert view(certificate_days=days).certificate == words


def test_a_certificate_is_warned_of():
    assert view(certificate_days=WARNING_DAYS - 0.1).is_expiring
    assert not view(certificate_days=WARNING_DAYS).is_expiring


def test_units():
    assert [how_long(s) for s in (0, 59, 61, 7384, 864_000)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "2 h 3 min",
        "10 days",
    ]
    assert [how_much(b) for b in (0, 999, 1000, 1e6, 999_999, 2.5e12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1 MB",
        "1 MB",
        "2.5 TB",
    ]


# The terminal


def test_lines(folder):
    lines = status_lines.status_lines(read_status(folder))
    assert lines[0].startswith("Ashby in rand-hie: The run is advancing.")
    assert lines[1].startswith("sampling: 4,210 of 19,000 rounds; round 4,210, 44.1 a second;")
    assert lines[2].startswith("- Brook: link up, round trip 31.2 ms, 4,209 messages received")
    assert lines[5].startswith("beta[0]   ▇")
    assert lines[5].endswith(" -0.99")
    assert set(lines[6].split()[2]) == set("▁▂▃▅▆▇█")  # seven values, evenly spaced


def test_the_command_status(folder):
    result = starlings("status", folder)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 7)
    assert json.loads(starlings("status", folder, "--json").stdout)["view"]["level"] == "advancing"


def test_the_command_status_of_a_site_that_has_stopped(folder):
    write(folder, state="stopped: the disk is full")
    result = starlings("status", folder)
    assert (result.exit_code, "the disk is full" in result.stdout) == (1, True)


def test_the_command_status_without_a_run(tmp_path):
    for arguments in ([tmp_path / "none"], [tmp_path / "none", "--watch"], [tmp_path]):
        result = starlings("status", *arguments)
        assert result.exit_code == 1
        assert "no folder" in result.stderr or "no run has been started" in result.stderr
    assert starlings("status", tmp_path, "--watch", "--json").exit_code == 1


def test_watching_without_a_terminal_prints_lines(folder):
    write(folder, state="done")
    result = starlings("status", folder, "--watch")
    assert result.exit_code == 0
    assert result.stdout.startswith("Ashby in rand-hie: The run is done.")


def test_watching_on_a_terminal_until_the_run_is_done(folder, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=110, highlight=False)
    monkeypatch.setattr(status_lines, "EVERY", 0.05)
    write(folder, neighbours=[neighbour("[red]Brook", last_error="no \x1b[2J route")])
    timers = [
        threading.Timer(0.3, (folder / "run-3f3f" / "status.json").unlink),
        threading.Timer(0.8, lambda: write(folder, state="done")),
    ]
    for timer in timers:
        timer.start()
    status_lines.watch(folder, console)
    shown = console.file.getvalue()
    for text in ("The run is advancing", "[red]Brook", "no ?[2J route", "no run", "is done"):
        assert text in shown


def test_a_terminal_obeys_nothing_in_a_status(folder):
    write(folder, site="A\x1b]0;owned\x07", neighbours=[neighbour("B\nC\x9b2J")])
    text = "".join(status_lines.status_lines(read_status(folder)))
    assert text.isprintable()

"""What a site refuses before it sends anything, and what ends its run."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
import time
import types
import warnings

import pytest

from starlings.errors import SiteError, UnfinishedNeighbourWarning
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.journal import Journal
from starlings.sites import joining, same_run
from starlings.sites import site as site_module
from starlings.sites.endings import ended_by_signals, ended_by_time, first_start
from starlings.sites.same_run import OwnOutput, check_unchanged
from starlings.sites.site import Site, address
from starlings.sites.status import StatusFile
from tests.sites.rehearsals import provisioned


class Waiting:
    """What waits for a neighbour, until it is ended."""

    def __init__(self):
        self.error, self.has_ended = None, threading.Event()

    def failed(self, error):
        self.error = error
        self.has_ended.set()


@contextlib.contextmanager
def interrupts_handled_by(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def terminated(stream):
    """Have this process terminated while it waits."""
    with ended_by_signals([stream]):
        os.kill(os.getpid(), signal.SIGTERM)
        stream.has_ended.wait(10)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler])
def test_sigterm_ends_a_site_also_where_a_shell_ignores_ctrl_c(handler):
    stream = Waiting()
    before = signal.getsignal(signal.SIGTERM)
    with interrupts_handled_by(handler), pytest.raises(KeyboardInterrupt):
        terminated(stream)
    assert isinstance(stream.error, KeyboardInterrupt)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not [t for t in threading.enumerate() if t.name == "signals"]


def test_the_hours_of_the_manifest_end_a_run():
    stream = Waiting()
    with ended_by_time([stream], 1e-9, time.time()):
        assert stream.has_ended.wait(10)
    assert "1e-09 hours have passed since this site first started" in str(stream.error)


def test_hours_count_from_the_first_start_of_a_run_and_not_of_a_process(tmp_path):
    note = tmp_path / "began"
    began = first_start(note)
    assert abs(began - time.time()) < 60
    note.write_text(str(began - 7200))
    stream = Waiting()
    with ended_by_time([stream], 3, first_start(note)):
        assert not stream.has_ended.wait(0.1)
    with ended_by_time([stream], 2, first_start(note)):
        assert stream.has_ended.wait(10)
    note.write_text("yesterday")
    with pytest.raises(SiteError, match="began should have the time at which the run was first"):
        first_start(note)


@pytest.mark.parametrize("text", ["8443", "host:", "host:port", "host:-1", "host:99999", ":1"])
def test_an_address_that_is_none_is_refused_in_words(text):
    with pytest.raises(ValueError, match=r"must be host:port, such as 0\.0\.0\.0:8443"):
        address(text)


def test_addresses():
    assert address("ashby.example.org:8443") == ("ashby.example.org", 8443)
    assert address("[::1]:1") == ("::1", 1)


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    return provisioned(tmp_path_factory.mktemp("trial"))


def started(rehearsal, journal):
    """The first thing that a site does in a run."""
    folder = rehearsal.folder / "Ashby-site"
    site = Site.prepare(rehearsal.kits["Ashby"], rehearsal.data["Ashby"], folder)
    with contextlib.closing(Journal(journal, site.run)) as opened:
        check_unchanged(site.problem, PeersCommunicator(site.network, 0, {}, opened))
        return opened.synced


def test_a_site_does_not_go_on_with_other_rows_or_packages(rehearsal, tmp_path, monkeypatch):
    """Also if nothing that it sent is in its journal, as after a power cut."""
    journal, data = tmp_path / "journal", rehearsal.data["Ashby"]
    assert started(rehearsal, journal) == journal.stat().st_size
    started(rehearsal, journal)
    rows = data.read_text()
    data.write_text(rows.replace(",1.0\n", ",0.0\n", 1))
    with pytest.raises(SiteError, match="the rows or a package have changed"):
        started(rehearsal, journal)
    data.write_text(rows)
    with monkeypatch.context() as patch:
        patch.setattr(same_run, "versions", lambda: {"JAX": "0.0"})
        with pytest.raises(SiteError, match="the rows or a package have changed"):
            started(rehearsal, journal)
    started(rehearsal, journal)


def test_an_approval_with_a_key_of_before_is_refused(rehearsal, monkeypatch):
    monkeypatch.setattr(site_module, "key_hash", lambda key: "another key")
    with pytest.raises(SiteError, match="another key now than when it approved manifest 1"):
        started(rehearsal, rehearsal.folder / "none")


@pytest.mark.parametrize(("is_delivered", "found"), [(True, 0), (False, 1)])
def test_a_neighbour_that_may_need_more_is_named(is_delivered, found, monkeypatch, tmp_path):
    monkeypatch.setattr(joining, "LINGERING", -1.0)
    journal = types.SimpleNamespace(sync=lambda: None)
    stream = types.SimpleNamespace(is_delivered=is_delivered, neighbour="Brook")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        joining._linger(journal, [stream], tmp_path / "delivered")
    assert [w.category for w in caught] == [UnfinishedNeighbourWarning] * found
    assert all("Brook may still need messages" in str(w.message) for w in caught)
    assert (tmp_path / "delivered").exists() == is_delivered


def test_who_has_everything_is_not_waited_for_again(monkeypatch, tmp_path):
    (tmp_path / "delivered").touch()
    journal = types.SimpleNamespace(sync=lambda: None)
    stream = types.SimpleNamespace(is_delivered=False, neighbour="Brook")
    began = time.monotonic()
    joining._linger(journal, [stream], tmp_path / "delivered")
    assert time.monotonic() - began < 5


def test_a_run_may_write_its_own_output_again_and_no_other_file(tmp_path):
    (tmp_path / "run").mkdir()
    own = OwnOutput(tmp_path / "run" / "output", tmp_path / "Ashby é.nc")
    assert not own.is_of_this_run
    own.claim()
    assert own.is_of_this_run
    assert not OwnOutput(own.note, tmp_path / "other.nc").is_of_this_run
    assert not OwnOutput(tmp_path / "another run", own.output).is_of_this_run


def test_no_run_ends_because_its_status_cannot_be_written(tmp_path, caplog):
    status = StatusFile(tmp_path, None, types.SimpleNamespace(rounds=0), None)

    def full(state):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    status._write = full
    with status:
        pass
    assert "status.json cannot be written: No space left on device" in caplog.text

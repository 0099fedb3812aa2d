"""A rehearsal: all sites and a relay on one machine, with real certificates, delay, and kills.

Everything is as between organisations, but for the distance: each site is a process of its own that
knows its own kit and its own rows, links have TLS at both ends, and every message is late. With
`kills`, that many processes, sites and the relay, are ended by SIGKILL somewhere on the way, and
started again with the same command.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from starlings.errors import SiteError
from starlings.results.result import Result, open_result
from starlings.sites.approvals import make_approval
from starlings.sites.audit import audit
from starlings.sites.authority import Authority
from starlings.sites.identity import SiteHome, make_request
from starlings.sites.keys import write_private
from starlings.sites.kit import Kit
from starlings.sites.provisioning import Provisioning
from starlings.sites.status_reader import read_status
from starlings.sites.transcript import SENT, Lines
from starlings.sites.trial import Trial
from starlings.system.progress import Progress

RELAY = "the relay"
LONGEST = 900.0
"""Seconds after which a rehearsal has failed."""
LOOK_EVERY = 0.1
"""Seconds from one look at the processes to the next."""


@dataclass
class Rehearsal:
    """The processes of a rehearsal, and what became of them.

    Args:
        trial: the trial file; the addresses of relays in it are not used.
        data: by site, its rows.
        folder: an empty folder for keys, kits, journals and results.
        delay: seconds by which every message is late, in each direction.
    """

    trial: Path
    data: Mapping[str, Path]
    folder: Path
    delay: float = 0.015
    kits: dict[str, Path] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: list[str] = field(default_factory=list)
    """Who was killed, in order."""
    port: int = 0
    seconds: float = 0.0
    """From the moment when the last site had joined to the last result."""

    def provision(self) -> None:
        """Make authority, keys, kits and approvals, as coordinator and sites would."""
        passphrase = secrets.token_hex(16)
        Authority.make(self.trial, passphrase)
        steps = Provisioning.open(self.trial, passphrase)
        requests = []
        for site in steps.trial.contacts:
            home = SiteHome(self.folder / f"{site}-site")
            request = self.folder / f"{site}.request"
            request.write_bytes(make_request(home, site)[0])
            requests.append(request)
        steps.issue(steps.read_requests(requests))
        steps.publish()
        for site in steps.trial.contacts:
            self.kits[site] = steps.folder / f"{site}.zip"
            kit = Kit.open(self.kits[site], self.folder / f"{site}-site")
            kit.install()
            write_private(kit.home.approval_path(site), make_approval(kit))

    def run(self, kills: int = 0, seed: int = 0) -> dict[str, Result]:
        """Run all sites until each of them has its result; kill some of them on the way."""
        try:
            self._start_relay()
            for site in self.kits:
                self._start_site(site)
            self._watch(kills, np.random.default_rng(seed))
        finally:
            self.stop()
        return {site: open_result(self._output(site)) for site in self.kits}

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def lost(self) -> list[str]:
        """What the transcripts of two neighbours do not agree on; empty if nothing was lost."""
        logs = {site: self._run_folder(site) / "transcript.log" for site in self.kits}
        edges = read_status(self.folder / f"{next(iter(self.kits))}-site")["edges"]
        return [fault for a, b in edges for fault in audit(logs[a], logs[b]).faults]

    def bytes_sent(self) -> int:
        """Bytes of all messages that sites have made for each other, however often they were sent.

        They are those of the transcripts, which go on where a process was killed.
        """
        logs = [Lines(self._run_folder(site) / "transcript.log") for site in self.kits]
        return sum(line.entry["bytes"] for log in logs for line in log if line.what == SENT)

    def faults(self, kills: int) -> list[str]:
        """Why the rehearsal has failed: messages were lost, or it ended before all kills."""
        few = f"{len(self.kills)} of {kills} processes were killed before the run was over."
        return [*self.lost(), *([few] if len(self.kills) < kills else [])]

    def _watch(self, kills: int, random: np.random.Generator) -> None:
        """Wait for all sites, and kill some processes when a run is under way."""
        began = time.monotonic()
        joined: float | None = None
        while waiting := [site for site in self.kits if self.processes[site].poll() is None]:
            for site in self.kits:
                self._check(site)
            rounds = self._rounds()
            if joined is None and min(rounds.values()) > 0:
                joined = time.monotonic()
            if len(self.kills) < kills and min(rounds.values()) > 2 + 4 * len(self.kills):
                self._kill(str(random.choice([*waiting, RELAY])))
            if time.monotonic() - began > LONGEST:
                raise SiteError(f"more than {LONGEST:.0f} s have passed; see {self.folder}.")
            time.sleep(LOOK_EVERY)
        for site in self.kits:
            self._check(site)
        self.seconds = time.monotonic() - (joined or began)

    def _rounds(self) -> dict[str, int]:
        return {site: _rounds_of(self.folder / f"{site}-site") for site in self.kits}

    def _kill(self, name: str) -> None:
        self.kills.append(name)
        self.processes[name].kill()
        self.processes[name].wait()
        if name == RELAY:
            self._start_relay()
        else:
            self._start_site(name)

    def _check(self, site: str) -> None:
        """Refuse to go on after a site that ended with an error."""
        if self.processes[site].poll() not in (None, 0):
            said = (self.folder / f"{site}.log").read_text(errors="replace").splitlines()
            raise SiteError(f"{site} has stopped: {said[-1] if said else 'it said nothing'}")

    def _start_relay(self) -> None:
        log = self.folder / "relay.log"
        size = log.stat().st_size if log.exists() else 0
        self.processes[RELAY] = self._start(
            log, "relay", "--host", "127.0.0.1", "--port", str(self.port)
        )
        while not self.port:
            if "listens on" in (text := log.read_text()[size:]):
                self.port = int(text.rsplit(":", 1)[1])
            elif self.processes[RELAY].poll() is not None:
                raise SiteError(f"the relay has stopped: {text}")
            time.sleep(LOOK_EVERY)

    def _start_site(self, site: str) -> None:
        self.processes[site] = self._start(
            self.folder / f"{site}.log",
            *("join", self.kits[site], "--data", self.data[site], "--output", self._output(site)),
            *("--folder", self.folder / f"{site}-site", "--overwrite", "--delay", self.delay),
            *("--relay", f"ws://127.0.0.1:{self.port}"),
        )

    def _start(self, log: Path, *arguments: Any) -> subprocess.Popen[bytes]:
        stream: IO[bytes]
        with log.open("ab") as stream:
            command = [sys.executable, "-m", "starlings", *map(str, arguments)]
            return subprocess.Popen(command, stdout=stream, stderr=stream, env=_environment())

    def _output(self, site: str) -> Path:
        return self.folder / f"{site}.nc"

    def _run_folder(self, site: str) -> Path:
        return next((self.folder / f"{site}-site").glob("run-*"))


def rehearsed(
    trial: Path, data: Path, folder: Path, kills: int, delay: float, progress: Progress
) -> list[str]:
    """Rehearse a trial, and say what it took.

    Args:
        trial: the trial file.
        data: a folder with SITE.csv for every site.
        folder: a folder that does not exist, or is empty.
        kills: how many processes are killed on the way.
        delay: seconds by which every message is late, in each direction.
        progress: what is being done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SiteError(f"{folder} is not empty: name another folder, or remove it.")
    copy = folder / trial.name
    given = Trial.read(trial)
    copy.write_bytes(trial.read_bytes())
    for name, text in given.code.items():
        (folder / name).write_bytes(text.encode())
    rows = {site: data / f"{site}.csv" for site in given.sites}
    if missing := [str(path) for path in rows.values() if not path.is_file()]:
        raise SiteError(f"the rows of some sites are not there: {', '.join(missing)}.")
    rehearsal = Rehearsal(copy, rows, folder, delay)
    with progress.spinner("authority, keys, kits and approvals"):
        rehearsal.provision()
    with progress.spinner(f"{len(rows)} sites and a relay, {1000 * delay:.0f} ms each way"):
        results = rehearsal.run(kills)
    if faults := rehearsal.faults(kills):
        raise SiteError(f"the rehearsal has failed: {' '.join(faults)} See {folder}.")
    return [*summary(rehearsal, results), f"Results, keys and logs: {folder}"]


def summary(rehearsal: Rehearsal, results: Mapping[str, Result]) -> list[str]:
    """What a rehearsal took, and what was lost, in lines."""
    attrs = next(iter(results.values())).attrs
    return [
        f"{attrs['network_rounds']:,} network rounds by method {attrs['method']!r}, "
        f"{rehearsal.bytes_sent() / 1e6:.1f} MB of messages, {rehearsal.seconds:.1f} s after the "
        "last site had joined.",
        f"Killed on the way: {', '.join(rehearsal.kills) or 'nobody'}.",
        f"Lost: {'; '.join(rehearsal.lost()) or 'nothing'}.",
    ]


def _rounds_of(home: Path) -> int:
    try:
        return int(read_status(home)["rounds"])
    except SiteError:
        return 0


def _environment() -> dict[str, str]:
    """The environment of this process, without a proxy for what stays on this machine."""
    return {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONUNBUFFERED": "1"}

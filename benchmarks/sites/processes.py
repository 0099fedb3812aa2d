"""Sites and a relay as processes of this machine, which can be killed at any moment.

Every site has a certificate, a journal, a transcript and links by TLS through the relay, as with
`starlings join`.
In place of a model it runs a small program, so that a run takes about a second. Processes are
forked from one that has imported everything and started nothing.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from starlings.network import Network
from starlings.runtime.peers import relay
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.links import Links
from starlings.runtime.peers.stream import Stream
from starlings.runtime.peers.tls import Identity
from starlings.runtime.peers.ways import RelayWay
from starlings.sites.certificates import (
    Request,
    as_pem,
    authority_certificate,
    site_certificate,
)
from starlings.sites.keys import new_key, save_key
from starlings.sites.transcript import Transcript

RUN = b"a run of figures"
SECRET = bytes(range(32))
RELAY = "relay"
LOOK_EVERY = 0.002
"""Seconds from one look for results to the next."""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__, "benchmarks.sites.kills", "benchmarks.sites.speed"])

Program = Callable[[PeersCommunicator], str]
"""What a site runs; it returns its result as a text."""


@dataclass(frozen=True)
class Harm:
    """A write to the journal in which a site kills itself: half of it is on disk then."""

    write: int
    """The number of the write, counted from 0 since the process was started."""

    def do(self) -> None:
        """Have that write of this process be its last."""
        whole, numbers = os.pwrite, iter(range(self.write + 1))

        def torn(file: int, data: Any, offset: int) -> int:
            if next(numbers) < self.write:
                return whole(file, data, offset)
            whole(file, bytes(data)[: len(data) // 2], offset)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("a process that was killed goes on.")

        os.pwrite = torn


@dataclass(frozen=True)
class Place:
    """Where a site is, and what it needs to know."""

    network: Network
    number: int
    folder: Path
    port: int
    delay: float = 0.0
    patience: float = 20.0
    """Seconds without a sign of life after which a connection is opened again."""

    @property
    def result(self) -> Path:
        """Where its result will be."""
        return self.folder / f"{self.number}.result"

    def run(self, program: Program, harm: Harm | None) -> None:
        """Run a program as this site, write its result, and stay for the others until killed."""
        logging.disable()  # links that are lost are what is wanted here
        if harm is not None:
            harm.do()
        names = self.network.names
        journal = Journal(self.folder / f"{self.number}.journal", RUN)
        streams = {
            int(j): Stream(RUN, self.number, int(j), names[j], journal)
            for j in self.network.adjacency[[self.number]].indices
        }
        transcript = Transcript(self.folder / f"{self.number}.log", names[self.number], RUN.hex())
        for stream in streams.values():
            transcript.follow(stream)
        way = RelayWay(f"ws://127.0.0.1:{self.port}", SECRET)
        named = {names[j]: stream for j, stream in streams.items()}
        me = identity(self.folder, names[self.number])
        timing = {"heartbeat": self.patience / 4, "patience": self.patience, "delay": self.delay}
        Links(me, dict.fromkeys(named, way), named, **timing).start()
        found = program(PeersCommunicator(self.network, self.number, streams, journal))
        partial = self.result.with_suffix(".new")
        partial.write_text(found)
        partial.replace(self.result)
        while True:
            time.sleep(60)


@dataclass
class Processes:
    """The processes of one run."""

    network: Network
    program: Program
    folder: Path
    delay: float = 0.0
    patience: float = 20.0
    port: int = 0
    processes: dict[str | int, BaseProcess] = field(default_factory=dict)

    @property
    def places(self) -> list[Place]:
        """All sites."""
        rest = (self.folder, self.port, self.delay, self.patience)
        return [Place(self.network, number, *rest) for number in range(self.network.size)]

    def start(self, who: str | int, harm: Harm | None = None) -> None:
        """Start the relay, or the site with a number."""
        target, arguments = (
            (relay.run, ("127.0.0.1", self.port))
            if isinstance(who, str)
            else (self.places[who].run, (self.program, harm))
        )
        self.processes[who] = CONTEXT.Process(target=target, args=arguments, daemon=True)
        self.processes[who].start()

    def kill(self, who: str | int) -> bool:
        """End one of them by SIGKILL; whether it was still running."""
        process = self.processes[who]
        was_running = process.is_alive()
        process.kill()
        process.join()
        return was_running

    def signal(self, who: str | int, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP, to one of them."""
        process = self.processes[who]
        assert process.pid is not None
        os.kill(process.pid, number)

    def is_running(self, who: str | int) -> bool:
        """Whether one of them has not ended."""
        return self.processes[who].is_alive()

    def results(self) -> list[str] | None:
        """What the sites have found; None before all of them have."""
        files = [place.result for place in self.places]
        return [file.read_text() for file in files] if all(f.exists() for f in files) else None


@contextmanager
def running(
    network: Network, program: Program, folder: Path, delay: float = 0.0, patience: float = 20.0
) -> Iterator[Processes]:
    """A context in which a relay and all sites run, and after which none of them does."""
    make_identities(folder, network.names)
    found = Processes(network, program, folder, delay, patience, free_port())
    try:
        for who in (RELAY, *range(network.size)):
            found.start(who)
        yield found
    finally:
        for who in found.processes:
            found.kill(who)


def waited(
    processes: Processes, patience: float, look: Callable[[float], None]
) -> list[str] | None:
    """The results of all sites, or None if they take too long; meanwhile `look` is called.

    Args:
        processes: the processes of a run.
        patience: seconds.
        look: called every few milliseconds with the seconds since this was called.
    """
    began = time.monotonic()
    while (results := processes.results()) is None:
        if (passed := time.monotonic() - began) > patience:
            return None
        look(passed)
        time.sleep(LOOK_EVERY)
    return results


def make_identities(folder: Path, names: list[str]) -> None:
    """The keys and certificates of an authority and of all sites, as files."""
    authority_key, trial = new_key(), "figures"
    authority = authority_certificate(authority_key, trial)
    (folder / "authority.pem").write_bytes(as_pem(authority))
    for name in names:
        key = new_key()
        request = Request(name, key.public_key())
        certificate = site_certificate(request, authority_key, authority)
        save_key(folder / f"{name}.key", key)
        (folder / f"{name}.pem").write_bytes(as_pem(certificate))


def identity(folder: Path, name: str) -> Identity:
    """Who a site is, by its files."""
    return Identity(name, folder / f"{name}.pem", folder / f"{name}.key", folder / "authority.pem")


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

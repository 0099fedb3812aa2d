"""Sites in one process, with links between them that lose, repeat and delay, and sites that die.

Every site has a thread of its own for its program. One more thread carries frames, and does to them
what a seeded generator says.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import starlings as st
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.stream import Stream

RUN = b"the name of run!"
Program = Callable[[PeersCommunicator], Any]


class KilledError(Exception):
    """The end of a site that is killed in the middle of something."""


class Site:
    """One site: its journal, its streams, and the thread of its program."""

    def __init__(self, flock: Flock, number: int) -> None:
        self.flock, self.number = flock, number
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self.restarts = -1
        self.start()

    def start(self) -> None:
        """Start the site, for the first time or after it was killed."""
        network = self.flock.network
        self.restarts += 1
        self.journal = Journal(self.flock.folder / f"{self.number}.journal", RUN)
        neighbours = network.adjacency[[self.number]].indices.tolist()
        self.streams = {
            j: Stream(RUN, self.number, j, network.names[j], self.journal) for j in neighbours
        }
        communicator = PeersCommunicator(network, self.number, self.streams, self.journal)
        self.thread = threading.Thread(target=self._run, args=(communicator,), daemon=True)
        self.thread.start()

    def _run(self, communicator: PeersCommunicator) -> None:
        try:
            self.result = self.flock.program(communicator)
            self.is_done = True
        except KilledError:
            pass
        except BaseException as error:
            if not isinstance(communicator.failure, KilledError):
                traceback.print_exc()
                self.error = error

    def kill(self) -> None:
        """End the program wherever it is; what was not written to disk may be lost."""
        for stream in self.streams.values():
            stream.failed(KilledError())
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.journal.close()


class Flock:
    """All sites of a network, and the links between them."""

    def __init__(
        self,
        network: st.Network,
        program: Program,
        folder: Path,
        seed: int = 0,
        loss: float = 0.0,
        kills: int = 0,
        disorder: float = 0.0,
    ) -> None:
        self.network, self.program, self.folder = network, program, folder
        self.random = np.random.default_rng(seed)
        self.loss, self.kills, self.disorder = loss, kills, disorder
        self.frames = self.disordered = 0
        self.sites = [Site(self, number) for number in range(network.size)]

    def run(self) -> list[Any]:
        """Carry frames until all sites are done; return what their programs returned."""
        links = [tuple(edge) for edge in np.argwhere(np.triu(self.network.adjacency.todense()))]
        opened: set[tuple[int, int]] = set()
        idle = threading.Event()
        while not all(site.is_done for site in self.sites):
            busy = False
            for link in links:
                if link not in opened:
                    self._open(*link)
                    opened.add(link)
                carried = self._carry(*link)
                busy |= bool(carried)
                if carried is None:
                    opened.discard(link)
            if self.kills and self.random.random() < 0.05:
                self._kill(opened)
            if failed := [site.error for site in self.sites if site.error is not None]:
                self._end(failed[0])
                raise failed[0]
            if not busy:
                idle.wait(0.0005)
        for site in self.sites:
            site.thread.join()
            site.journal.close()
        return [site.result for site in self.sites]

    def _end(self, error: BaseException) -> None:
        for site in self.sites:
            for stream in site.streams.values():
                stream.failed(error)
            site.thread.join(60)
            site.journal.close()

    def _open(self, a: int, b: int) -> None:
        one, other = self.sites[a].streams[b], self.sites[b].streams[a]
        first, second = one.opening(), other.opening()
        one.arrived(second)
        other.arrived(first)

    def _carry(self, a: int, b: int) -> bool | None:
        """Whether something was carried over a link; None if the link broke."""
        one, other = self.sites[a].streams[b], self.sites[b].streams[a]
        carried = False
        for sender, receiver in ((one, other), (other, one)):
            for frame in self._in_disorder(sender.due()):
                self.frames += 1
                carried = True
                chance = self.random.random()
                if chance < self.loss:  # this frame is lost, and the next one shows it
                    continue
                try:
                    receiver.arrived(frame)
                    if chance > 1 - self.loss:
                        receiver.arrived(frame)
                except ProtocolError:
                    sender.disconnected()
                    receiver.disconnected()
                    return None
                except SiteError as error:
                    receiver.failed(error)
        if self.loss and self.random.random() < self.loss / 5:
            one.disconnected()
            other.disconnected()
            return None
        return carried

    def _in_disorder(self, frames: list[bytes]) -> list[bytes]:
        """Frames in the order in which they were sent, or, now and then, in another one."""
        if len(frames) > 1 and self.random.random() < self.disorder:
            self.disordered += 1
            return [frames[k] for k in self.random.permutation(len(frames))]
        return frames

    def _kill(self, opened: set[tuple[int, int]]) -> None:
        """Kill a site, which starts again at once, or all of them."""
        self.kills -= 1
        everybody = range(self.network.size)
        chosen = everybody if self.random.random() < 0.2 else [self.random.choice(everybody)]
        for number in map(int, chosen):
            site = self.sites[number]
            if site.is_done:
                continue
            site.kill()
            for link in list(opened):
                if number in link:
                    opened.discard(link)
                    other = self.sites[sum(link) - number]
                    other.streams[number].disconnected()
            site.start()

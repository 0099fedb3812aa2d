"""Sites in threads of one process, a hub that serves them, and what the hub sees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import starlings as st
from starlings.errors import SiteError
from starlings.runtime.hub.communicator import HubCommunicator, num_replies
from starlings.runtime.hub.hub import serve
from starlings.runtime.hub.mailbox import Mailbox, State, Visit
from starlings.runtime.peers.journal import Journal

RUN = b"the name of run!"
Program = Callable[[HubCommunicator], Any]


@dataclass
class Sites:
    """All sites of a network behind one hub.

    Args:
        network: the sites; each has one agent.
        folder: where their journals are.
        program: what every site runs.
    """

    network: st.Network
    folder: Path
    program: Program
    seen: list[tuple[str, bytes]] = field(default_factory=list)
    """What the hub has seen: the site and its message, each once."""
    errors: dict[str, BaseException] = field(default_factory=dict)
    stop_after: dict[str, int] = field(default_factory=dict)
    """By site, after how many messages it is lost, as if its process had been killed."""

    def run(self, patience: float = 0.5) -> dict[str, Any]:
        """Run until all are done; what each program returned."""
        names = self.network.names
        self.results: dict[str, Any] = {}
        self.boxes = {name: Mailbox() for name in names}
        journals = {
            name: Journal(self.folder / f"{number}.journal", RUN)
            for number, name in enumerate(names)
        }
        known = min(num_replies(journal) for journal in journals.values())
        threads = [
            threading.Thread(target=self._run_site, args=(number, journals[name], known))
            for number, name in enumerate(names)
        ]
        for thread in threads:
            thread.start()
        try:
            serve(names, self._visit, patience)
        finally:
            for box in self.boxes.values():
                box.close("the hub has ended the run.")
            for thread in threads:
                thread.join(60)
            for journal in journals.values():
                journal.close()
        return self.results

    def _run_site(self, number: int, journal: Journal, known: int) -> None:
        name = self.network.names[number]
        box = self.boxes[name]
        communicator = HubCommunicator(self.network, number, box.ask, journal, known)
        try:
            self.results[name] = self.program(communicator)
            box.end(State.DONE)
        except BaseException as error:
            self.errors[name] = communicator.failure or error
            box.end(State.STOPPED)

    def _visit(self, visits: Mapping[str, Visit]) -> dict[str, tuple[State, bytes]]:
        found = {}
        for name, visit in visits.items():
            if visit.number >= self.stop_after.get(name, visit.number + 1):
                continue
            found[name] = self.boxes[name].visited(visit, moment=0.005)
            if found[name][0] == State.WAITS:
                self.seen.append((name, found[name][1]))
        return found


def killed_and_resumed(sites: Sites, kills: Mapping[str, int]) -> dict[str, Any]:
    """Run with one site after another lost somewhere, and at last to the end."""
    for name, after in kills.items():
        sites.stop_after = {name: after}
        with pytest.raises(SiteError, match=name):
            sites.run()
    sites.stop_after = {}
    return sites.run()

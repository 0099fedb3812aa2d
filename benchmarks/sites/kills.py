"""Runs in which processes are killed at random moments: are the bits those of a calm run?

Each run has at least one kill: of a site or of the relay at a random moment, or of a site in the
middle of a write to its journal. What was killed starts again at once. The bits of a run are those
of everything that a site computes and of every total; its messages are numbers in all of them.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.sites.processes import RELAY, Harm, Processes, running, waited
from starlings.network import Network
from starlings.runtime.peers.communicator import PeersCommunicator

CALLS = 300
"""Calls of the program, of all kinds."""
PATIENCE = 60.0
"""Seconds after which a run hangs."""
MOST_WRITES = 400
"""The write to a journal in which a site kills itself, at most."""
TORN_SHARE, RELAY_SHARE = 0.3, 0.2
"""Shares of kills in the middle of a write, and of the relay; all others are of sites."""
IN_A_WRITE = "a site in a write"


def program(communicator: PeersCommunicator) -> str:
    """Calls of all kinds, each with numbers that follow from all before, and a digest of them."""
    state = np.array([1.0 + communicator.rank, 0.3])
    digest = hashlib.sha256()
    for number in range(CALLS):
        state = np.sin(communicator.sum(state)) + 0.1 * communicator.rank
        messages = np.repeat(state[None], len(communicator.outgoing), axis=0)
        state = state + 0.01 * communicator.exchanged(messages).sum(axis=0)
        if number % 7 == 0:
            state = state + communicator.broadcast(float(state[0]))
        if number % 13 == 0:
            communicator.barrier()
        digest.update(state.tobytes())
    return digest.hexdigest()


@dataclass
class Chaos:
    """Who is killed when in one run, as a seeded generator says."""

    processes: Processes
    random: np.random.Generator
    duration: float
    """Seconds that a calm run takes, about."""
    kills: int
    moments: list[float] = field(default_factory=list)
    armed: set[int] = field(default_factory=set)
    """Sites that will kill themselves."""
    killed: list[str] = field(default_factory=list)
    """What was killed, in order."""

    def __post_init__(self) -> None:
        moments = self.random.uniform(0.0, self.duration, self.kills)
        self.moments = sorted(moments.tolist())

    def look(self, now: float) -> None:
        """Kill what is due, and start again what has killed itself."""
        for site in sorted(self.armed):
            if not self.processes.is_running(site):
                self.armed.discard(site)
                self.killed.append(IN_A_WRITE)
                self.processes.start(site)
        while self.moments and self.moments[0] <= now:
            self.moments.pop(0)
            self._strike()

    def _strike(self) -> None:
        """Kill a process; a site may start again with a write in which it will end once more."""
        who: str | int = int(self.random.integers(self.processes.network.size))
        if self.random.random() < RELAY_SHARE:
            who = RELAY
        if self.processes.kill(who):
            self.killed.append(f"site {who}" if isinstance(who, int) else who)
        harm = None
        if isinstance(who, int) and self.random.random() < TORN_SHARE:
            harm = Harm(int(self.random.integers(MOST_WRITES)))
            self.armed.add(who)
        self.processes.start(who, harm)


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    results: list[str] | None
    """What every site has found; None if the run hung."""
    killed: list[str]
    seconds: float


def run(kills: int, seed: int, duration: float = 0.0) -> Outcome:
    """One run of three sites, with so many kills at random moments of its duration."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Network.ring(3), program, Path(folder)) as processes,
    ):
        chaos = Chaos(processes, np.random.default_rng(seed), duration, kills)
        results = waited(processes, PATIENCE, chaos.look)
    return Outcome(results, chaos.killed, time.monotonic() - began)


def in_a_row(runs: int, kills: int = 1, seconds: float = float("inf")) -> list[str]:
    """Runs in each of which something was killed, one after the other, in lines.

    Args:
        runs: how many; those that end before anything is killed do not count.
        kills: moments of kills in each of them, at most.
        seconds: after which no further run begins.
    """
    began, calm = time.monotonic(), [run(0, 0) for _ in range(2)][-1]  # the first one imports
    found: list[Outcome] = []
    for seed in itertools.count():
        outcome = run(kills, seed, calm.seconds)
        found += [outcome] if outcome.killed else []
        if len(found) == runs or time.monotonic() - began > seconds:
            break
    return _summary(found, calm)


def _summary(found: list[Outcome], calm: Outcome) -> list[str]:
    equal = sum(outcome.results == calm.results for outcome in found)
    hung = sum(outcome.results is None for outcome in found)
    killed = [who for outcome in found for who in outcome.killed]
    torn, relays = killed.count(IN_A_WRITE), killed.count(RELAY)
    sites = len(killed) - torn - relays
    return [
        f"{len(found)} runs with kills in a row, {len(killed)} kills: {sites} of sites at random "
        f"moments, {torn} of sites within a write, {relays} of the relay.",
        f"{equal} runs have the bits of the calm run; {hung} hung.",
    ]

"""Rounds per second and bytes per second of sites that are connected through a relay."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.sites.processes import Program, running, waited
from starlings.network import Network
from starlings.runtime.peers.communicator import PeersCommunicator

FLOATS = 10
"""Numbers in a message of a round."""
BULK = 2**20
"""Bytes of a message in bulk."""
WARMING = 20
"""Calls before the clock starts."""
PATIENCE = 300.0
"""Seconds after which a measurement has failed."""


def rounds(number: int, chains: int, compute: float, communicator: PeersCommunicator) -> str:
    """Rounds in which neighbours exchange numbers of all chains; returns rounds per second.

    Args:
        number: how many rounds.
        chains: how many chains have their numbers in one message.
        compute: seconds that a round of one chain takes at a site, besides messages.
        communicator: the communicator of the site.
    """
    messages = np.ones((len(communicator.outgoing), chains * FLOATS))
    for turn in range(WARMING + number):
        if turn == WARMING:
            began = time.perf_counter()
        time.sleep(compute * chains)
        messages = np.cos(communicator.exchanged(messages))
    return str(number / (time.perf_counter() - began))


def bulk(number: int, communicator: PeersCommunicator) -> str:
    """Messages of a megabyte from site 0 to site 1; returns megabytes per second there."""
    (stream,) = communicator.streams.values()
    message = bytes(BULK)
    if communicator.rank == 0:
        for _ in range(WARMING + number):
            stream.send(message)
        return "nan"
    for turn in range(WARMING + number):
        if turn == WARMING:
            began = time.perf_counter()
        stream.receive()
    return str(number * BULK / 1e6 / (time.perf_counter() - began))


def measured(network: Network, program: Program, delay: float = 0.0) -> float:
    """The rate that the slowest site has found."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(network, program, Path(folder), delay) as processes,
    ):
        found = waited(processes, PATIENCE, lambda _: None)
    if found is None:
        raise TimeoutError(f"no result after {PATIENCE:.0f} s.")
    return float(np.nanmin(list(map(float, found))))


def rounds_per_second(number: int = 2000, delay: float = 0.0) -> float:
    """Rounds per second of three sites, of which each has two neighbours."""
    return measured(Network.complete(3), partial(rounds, number, 1, 0.0), delay)


def megabytes_per_second(number: int = 500) -> float:
    """Megabytes per second from one site to another."""
    return measured(Network.complete(2), partial(bulk, number))

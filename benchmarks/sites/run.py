"""All figures of sites, in lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.sites import kills, speed, thousand
from starlings.errors import check_choice
from starlings.network import Network

DELAY = 0.015
"""Seconds by which every message is late in the parts with a delay, in each direction."""
CHAINS = ((1, 0.001), (16, 0.001), (64, 0.001), (16, 0.00002), (64, 0.00002))
"""Numbers of chains, with the seconds that a round of one chain takes at a site."""


def rounds(quick: bool) -> Iterator[str]:
    """Rounds and bytes per second through the relay."""
    rate = speed.rounds_per_second(100 if quick else 3000)
    yield f"3 sites, {speed.FLOATS} numbers in a message, no delay: {rate:,.0f} rounds/s"
    late = speed.rounds_per_second(20 if quick else 300, DELAY)
    yield f"the same, {1000 * DELAY:.0f} ms each way: {late:,.1f} rounds/s"
    bulk = speed.megabytes_per_second(20 if quick else 1000)
    yield f"messages of 1 MB from one site to another: {bulk:,.0f} MB/s"


def chains(quick: bool) -> Iterator[str]:
    """Chain-rounds per second of chains whose numbers are in one message, at `DELAY`."""
    number = 10 if quick else 100
    for count, compute in CHAINS[:2] if quick else CHAINS:
        network = Network.complete(3)
        one = speed.measured(network, partial(speed.rounds, number, 1, compute), DELAY)
        batch = speed.measured(network, partial(speed.rounds, number, count, compute), DELAY)
        ideal = min(1 / compute, count * one)
        yield (
            f"{count} chains, {1000 * compute:g} ms each a round, {1000 * DELAY:.0f} ms each way: "
            f"{count * batch:,.0f} chain-rounds/s, {count * batch / ideal:.0%} of what chains in "
            "flight could reach"
        )


def row_of_kills(quick: bool, number: int) -> Iterator[str]:
    """Runs with kills, one after the other."""
    yield from kills.in_a_row(2 if quick else number)


def model(quick: bool) -> Iterator[str]:
    """The model of discrete events."""
    yield from thousand.table((10,) if quick else (10, 100, 1000))


def run(parts: str | None, number_of_kills: int, quick: bool, say: Callable[[str], None]) -> None:
    """Measure, and say every figure as soon as it is there.

    Args:
        parts: names of parts, separated by commas; None for all.
        number_of_kills: runs with kills.
        quick: whether to try the benchmark itself.
        say: called with every line.
    """
    every = {
        "speed": rounds,
        "chains": chains,
        "kills": partial(row_of_kills, number=number_of_kills),
        "model": model,
    }
    names = list(every) if parts is None else parts.split(",")
    for name in names:
        check_choice(tuple(every), parts=name)
    for name in names:
        for line in every[name](quick):
            say(line)

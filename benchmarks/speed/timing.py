"""What is timed and how: a run is called with a number of rounds, and blocks until they are done.

Competitors take turns inside the repeats (A, B, A, B, ...), so that a disturbance of the machine
hits both of them, and a ratio is the median of the ratios of such pairs. Compiling comes before all
repeats and is reported apart:

    compile = (first call, one round) - (second call, one round)                               (1)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import starlings as st
from starlings.random.addresses import chain_keys
from starlings.runtime import loop
from starlings.sampling import start_positions

Run = Callable[[int], None]
"""Do so many rounds, and wait for them."""
MOST_ROUNDS = 2**20
LIMIT = 1e9
"""Of a coordinate, as in `loop.run`."""


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    repeats: int = 7
    quick: bool = False
    """Smaller sizes, to try the benchmark itself."""

    @property
    def seconds(self) -> float:
        """That one repeat should last."""
        return 0.01 if self.quick else 0.25


class Lap(NamedTuple):
    """Seconds of one round."""

    wall: float
    cpu: float
    """Of all threads together."""


class LibraryRun:
    """A run of the library as `loop.run` makes it, advanced by hand."""

    def __init__(
        self,
        problem: st.Problem,
        network: st.Network,
        sampler: Any,
        chains: int,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.double = dtype == "float64"
        with jax.enable_x64(self.double):
            self.sampler = sampler
            agents = problem.agents(network, np.dtype(dtype))
            self.agents = loop.prepared(sampler, agents)
            self.keys = chain_keys(seed, chains, network.size)
            self.wiring = loop.Wiring.of(network, np.dtype(dtype))
            start = start_positions(problem, sampler, None, chains, seed, np.dtype(dtype))
            self.flock = loop.start(sampler, self.agents, start, self.keys)
        first, second = lap(self, 1), lap(self, 1)
        self.compile_seconds = max(0.0, first.wall - second.wall)  # (1)

    def __call__(self, rounds: int) -> None:
        """Go on from where the last call ended."""
        fixed = (self.sampler, self.agents, self.wiring, self.keys, LIMIT)
        with jax.enable_x64(self.double):
            self.flock, record = loop.advance(*fixed, self.flock, 1, rounds, capacity=1)
            jax.block_until_ready((self.flock, record))

    @property
    def bytes_per_agent(self) -> float:
        """Of the agents' arrays and of the states of all chains."""
        states = self.flock.states
        arrays = jax.tree.leaves((self.agents, states))
        return sum(array.nbytes for array in arrays) / states.position.shape[1]


def lap(run: Run, rounds: int) -> Lap:
    """One call."""
    wall, cpu = time.perf_counter(), time.process_time()
    run(rounds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Lap(wall / rounds, cpu / rounds)


def enough_rounds(run: Run, seconds: float) -> int:
    """How many rounds last about so long; they are done on the way, and warm the run up."""
    run(1)  # may compile
    rounds = 1
    while (took := rounds * lap(run, rounds).wall) < seconds / 4 and rounds < MOST_ROUNDS:
        rounds *= 4
    return max(1, min(MOST_ROUNDS, round(rounds * seconds / took)))


def alternated(runs: Mapping[str, Run], settings: Settings) -> dict[str, list[Lap]]:
    """The laps of all competitors, who take turns."""
    rounds = {name: enough_rounds(run, settings.seconds) for name, run in runs.items()}
    laps: dict[str, list[Lap]] = {name: [] for name in runs}
    for _ in range(settings.repeats):
        for name, run in runs.items():
            laps[name].append(lap(run, rounds[name]))
    return laps


def typical(laps: list[Lap]) -> Lap:
    """Medians."""
    return Lap(*(median(column) for column in zip(*laps, strict=True)))


def median_ratio(slower: list[Lap], faster: list[Lap]) -> float:
    """Of the wall times of laps that were neighbours in time."""
    return median(slow.wall / fast.wall for slow, fast in zip(slower, faster, strict=True))


class Passes:
    """Some bytes read and written, again and again."""

    def __init__(self, size: float) -> None:
        with jax.enable_x64(True):
            self.array = jnp.zeros(max(1, round(size / 8)))

    def __call__(self, rounds: int) -> None:
        """So many passes."""
        with jax.enable_x64(True):
            self.array = jax.block_until_ready(_passed(self.array, rounds))


@partial(jax.jit, donate_argnums=0)
def _passed(array: jax.Array, rounds: Any) -> jax.Array:
    return jax.lax.fori_loop(0, rounds, lambda _, entries: entries + 1.0, array)

"""How rounds are timed: a run is called with a number of rounds, and returns when they are done.

Competitors take turns inside the repeats (A, B, A, B, ...), so that a disturbance of the machine
hits both of them, and a ratio is the median of the ratios of such pairs. Compiling comes before all
repeats and is reported in a column of its own:

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
"""Does so many rounds, and returns when they are done."""
MOST_ROUNDS = 2**20
"""The most rounds of one repeat."""
LIMIT = 1e9
"""The absolute value of a coordinate above which a chain has diverged, as in `loop.run`."""


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    repeats: int = 7
    quick: bool = False
    """Smaller sizes, to try the benchmark itself."""

    @property
    def seconds(self) -> float:
        """How many seconds one repeat should last."""
        return 0.01 if self.quick else 0.25


class Lap(NamedTuple):
    """Seconds of one round, averaged over one repeat."""

    wall: float
    cpu: float
    """CPU time of all threads together."""


class LibraryRun:
    """A run of the library as in `loop.run`, advanced by so many rounds at a call."""

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
            self.state = loop.start(sampler, self.agents, start, self.keys)
        first, second = lap(self, 1), lap(self, 1)
        self.compile_seconds = max(0.0, first.wall - second.wall)  # (1)

    def __call__(self, rounds: int) -> None:
        """Go on for so many rounds from where the last call ended."""
        fixed = (self.sampler, self.agents, self.wiring, self.keys, LIMIT)
        with jax.enable_x64(self.double):
            self.state, record = loop.advance(*fixed, self.state, 1, rounds, capacity=1)
            jax.block_until_ready((self.state, record))

    @property
    def bytes_per_agent(self) -> float:
        """Bytes of the agents' arrays and of the states of all chains, for each agent."""
        states = self.state.states
        arrays = jax.tree.leaves((self.agents, states))
        return sum(array.nbytes for array in arrays) / states.position.shape[1]


def lap(run: Run, rounds: int) -> Lap:
    """Time one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    run(rounds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Lap(wall / rounds, cpu / rounds)


def enough_rounds(run: Run, seconds: float) -> int:
    """How many rounds last about so many seconds; trying it out also warms the run up."""
    run(1)  # may compile
    rounds = 1
    while (took := rounds * lap(run, rounds).wall) < seconds / 4 and rounds < MOST_ROUNDS:
        rounds *= 4
    return max(1, min(MOST_ROUNDS, round(rounds * seconds / took)))


def alternated(runs: Mapping[str, Run], settings: Settings) -> dict[str, list[Lap]]:
    """The laps of all runs, which take turns."""
    rounds = {name: enough_rounds(run, settings.seconds) for name, run in runs.items()}
    laps: dict[str, list[Lap]] = {name: [] for name in runs}
    for _ in range(settings.repeats):
        for name, run in runs.items():
            laps[name].append(lap(run, rounds[name]))
    return laps


def typical(laps: list[Lap]) -> Lap:
    """The medians of wall and CPU time."""
    return Lap(*(median(column) for column in zip(*laps, strict=True)))


def median_ratio(slower: list[Lap], faster: list[Lap]) -> float:
    """The median ratio of the wall times of laps that followed one another."""
    return median(slow.wall / fast.wall for slow, fast in zip(slower, faster, strict=True))


class Passes:
    """An array of some bytes that is read and written again and again."""

    def __init__(self, size: float) -> None:
        with jax.enable_x64(True):
            self.array = jnp.zeros(max(1, round(size / 8)))

    def __call__(self, rounds: int) -> None:
        """Do so many passes over the array."""
        with jax.enable_x64(True):
            self.array = jax.block_until_ready(_passed(self.array, rounds))


@partial(jax.jit, donate_argnums=0)
def _passed(array: jax.Array, rounds: Any) -> jax.Array:
    return jax.lax.fori_loop(0, rounds, lambda _, entries: entries + 1.0, array)

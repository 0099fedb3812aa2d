"""How long a chunk of rounds is: about half a second, and no longer than to the next checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from starlings.runtime.recording import Schedule

CHUNK_SECONDS = 0.5
"""Seconds that a chunk should take."""
FIRST_CHUNK_ROUNDS = 8
"""Rounds of the first two chunks: one to compile, one to measure the pace."""
CHUNK_BYTES = 8 * 2**20
"""Bytes of draws, of all agents and chains, that a chunk may record on the device."""
FEW_DRAWS = 8
"""Draws that a chunk may record even if they have more than `CHUNK_BYTES`."""
MOST_CHUNK_BYTES = 64 * 2**20
"""Bytes of draws above which a chunk records a single draw."""


class Chunk(NamedTuple):
    """Rounds that are made by one call of the compiled loop: `draws` times `thin`."""

    draws: int
    thin: int
    is_recorded: bool
    """Whether its draws are recorded, which those of the burn-in are not."""
    is_checkpoint: bool
    """Whether the run is saved where it ends."""
    is_scheduled: bool = True
    """Whether the schedule says where it ends (at a draw, or with the burn-in), not the clock."""

    @property
    def rounds(self) -> int:
        """The number of its rounds."""
        return self.draws * self.thin


def draws_per_chunk(draws: int, draw_bytes: int) -> int:
    """The largest number of draws in a chunk.

    Args:
        draws: draws of the whole run.
        draw_bytes: bytes of one draw of all agents and chains.
    """
    few = min(FEW_DRAWS, MOST_CHUNK_BYTES // draw_bytes)
    return max(1, min(draws, max(few, CHUNK_BYTES // draw_bytes)))


def next_chunk(
    schedule: Schedule, done: int, rounds: int, capacity: int, every: int | None
) -> Chunk:
    """The chunk after `done` rounds of a run.

    Checkpoints are where the burn-in or a draw ends, `every` rounds apart or, after a draw, the
    least number of draws that makes as many: for a given schedule always at the same rounds.

    Args:
        schedule: the rounds of the run.
        done: rounds done so far.
        rounds: rounds that the chunk should have.
        capacity: the largest number of draws in a chunk.
        every: rounds from one checkpoint to the next; None for a run without checkpoints.
    """
    left = schedule.burn_in - done
    if left > 0:
        to_checkpoint = left if every is None else min(left, every - done % every)
        length = min(max(1, rounds), to_checkpoint)
        return Chunk(1, length, False, length == to_checkpoint, length == left)
    made = -left // schedule.thin
    spacing = schedule.draws if every is None else -(-every // schedule.thin)
    to_checkpoint = min(schedule.draws - made, spacing - made % spacing)
    draws = min(max(1, rounds // schedule.thin), capacity, to_checkpoint)
    return Chunk(draws, schedule.thin, True, draws == to_checkpoint)


class Pace:
    """How many rounds make a chunk of about `CHUNK_SECONDS`, measured while the run goes on."""

    def __init__(self) -> None:
        self.rounds = FIRST_CHUNK_ROUNDS
        self.is_compiled = False

    def timed(self, rounds: int, loop: Callable[..., Any], *arguments: Any) -> Any:
        """Run a chunk of `rounds` rounds, wait for it, and set the length of the next."""
        began = time.perf_counter()
        result = jax.block_until_ready(loop(*arguments))
        took = time.perf_counter() - began
        if self.is_compiled:
            ideal = rounds * CHUNK_SECONDS / max(took, 1e-6)
            self.rounds = int(min(max(1, ideal), 10 * self.rounds))
        self.is_compiled = True
        return result

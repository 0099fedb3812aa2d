"""How long a chunk of rounds is: about half a second, and no longer than to the next checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from starlings.runtime.recording import Schedule

CHUNK_SECONDS = 0.5
FIRST_CHUNK_ROUNDS = 8


class Chunk(NamedTuple):
    """Rounds that are made in one go: `draws` times `thin`."""

    draws: int
    thin: int
    is_kept: bool
    """Whether its draws are, which those of a burn-in are not."""
    is_checkpoint: bool
    """Whether it ends where a checkpoint belongs."""
    is_scheduled: bool = True
    """Whether it ends where the schedule says, at a draw or with the burn-in, not the clock."""

    @property
    def rounds(self) -> int:
        """All of them."""
        return self.draws * self.thin


def next_chunk(
    schedule: Schedule, done: int, rounds: int, capacity: int, every: int | None
) -> Chunk:
    """What to do after `done` rounds of a run: about `rounds` more, and `capacity` draws at most.

    Checkpoints are where the burn-in or a draw ends, `every` rounds apart or, after a draw, the
    least number of draws that makes as many: for a given schedule always at the same rounds.
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
    """How many rounds make a chunk of about `CHUNK_SECONDS`, learnt as the run goes."""

    def __init__(self) -> None:
        self.rounds = FIRST_CHUNK_ROUNDS
        self.compiled = False

    def timed(self, rounds: int, loop: Callable[..., Any], *arguments: Any) -> Any:
        """Run a chunk of `rounds`, wait for it, and set the length of the next."""
        began = time.perf_counter()
        result = jax.block_until_ready(loop(*arguments))
        took = time.perf_counter() - began
        if self.compiled:
            ideal = rounds * CHUNK_SECONDS / max(took, 1e-6)
            self.rounds = int(min(max(1, ideal), 10 * self.rounds))
        self.compiled = True
        return result

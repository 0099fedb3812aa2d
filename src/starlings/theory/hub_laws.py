"""The exact laws of samplers with a hub, from the law of the hub's iterate.

With the iterate x of the hub, and whatever else it remembers, in one vector s, one cycle is

    s' = T s + c + B w,    w ~ N(0, I)                                                      (1)

in its even round, and in its odd round the position of every site becomes x. Where cycles take
turns, each of them has matrices of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.theory.laws import Stacked
from starlings.theory.recursions import Law, Recursion


def law_of_iterates(s: Stacked, *steps: Recursion, idle: int = 0, **fields: Any) -> Law:
    """The law of the draws of all agents, in rounds that are odd and even in turn.

    Args:
        s: the problem with its hub, on a star.
        steps: eq. (1), with x in the first entries of the state; of several, one in each cycle, in
            turn.
        idle: the number of cycles at the start in which the state stays as it is.
        fields: further fields of the law.
    """
    rest = len(steps[0].offset) - s.shape[1]
    down, *ups = _down(s, rest), *(_up(s, step) for step in steps)
    stays = Recursion(np.eye(len(down.offset)), 0 * down.offset, 0 * down.noise)

    def recursion(k: int) -> Recursion:
        turn = k // 2 - 1 - idle
        return down if k % 2 else ups[turn % len(ups)] if turn >= 0 else stays

    return Law(s.shape, recursion, cycle=2 * len(steps), **fields)


def _hub(s: Stacked) -> np.ndarray:
    """The places of the hub's position in the state."""
    return int(np.argmax(s.degrees)) * s.shape[1] + np.arange(s.shape[1])


def _down(s: Stacked, rest: int) -> Recursion:
    """An odd round: the sites have x, and the hub and the rest of the state stay."""
    count = s.shape[0] * s.shape[1]
    positions = np.arange(count)
    transition = np.eye(count + rest)
    transition[positions] = 0.0
    transition[positions, _hub(s)[positions % s.shape[1]]] = 1.0
    return Recursion(transition, np.zeros(count + rest), np.zeros((count + rest, 1)))


def _up(s: Stacked, step: Recursion) -> Recursion:
    """An even round: eq. (1) for the hub, and the positions of the sites stay."""
    count = s.shape[0] * s.shape[1]
    rest = len(step.offset) - s.shape[1]
    own = np.concatenate([_hub(s), count + np.arange(rest)])  # where s of (1) stands in the state
    transition, shift = np.eye(count + rest), np.zeros(count + rest)
    noise = np.zeros((count + rest, step.noise.shape[1]))
    transition[np.ix_(own, own)], shift[own], noise[own] = step
    return Recursion(transition, shift, noise)

"""The exact laws of samplers with a hub, from the law of the hub's iterate.

With the iterate x of the hub, and whatever else it remembers, in one vector s, one cycle is

    s' = T s + c + B w,    w ~ N(0, I)                                                      (1)

in its even round, and in its odd round the position of every site becomes x.
"""

from __future__ import annotations

import numpy as np

from starlings.theory.laws import Stacked
from starlings.theory.recursions import Law, Recursion


def law_of_iterates(s: Stacked, step: Recursion) -> Law:
    """The law of the draws of all agents, in rounds that are odd and even in turn.

    Args:
        s: the problem with its hub, on a star.
        step: eq. (1), with x in the first entries of the state.
    """
    (agents, dim), hub = s.shape, int(np.argmax(s.degrees))
    count = agents * dim
    positions, rest = np.arange(count), np.arange(len(step.offset) - dim)
    own = np.concatenate([hub * dim + np.arange(dim), count + rest])  # where s stands in the state
    down = np.eye(count + len(rest))
    down[positions] = 0.0
    down[positions, hub * dim + positions % dim] = 1.0
    up, shift = np.eye(len(down)), np.zeros(len(down))
    noise = np.zeros((len(down), step.noise.shape[1]))
    up[np.ix_(own, own)], shift[own], noise[own] = step
    rounds = Recursion(up, shift, noise), Recursion(down, 0 * shift, 0 * noise)
    return Law(s.shape, lambda k: rounds[k % 2], cycle=2)

"""Moments of linear recursions whose matrices are drawn anew in each step, exactly.

In one step, with the probability of one of several cases,

    s' = T s + c + B w,     w ~ N(0, I)                                                     (1)

so that the law is a mixture of Gaussians, whose first two moments follow a linear recursion:

    E s' = E[T s + c],      E s's'' = E[(T s + c)(T s + c)' + B B']                         (2)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from starlings.theory import Recursion


class Case(NamedTuple):
    """Eq. (1) with a probability."""

    probability: float
    step: Recursion


def stationary(cases):
    """The fixed point of (2): mean and covariance."""
    size = len(cases[0].step.offset)
    T = sum(p * step.transition for p, step in cases)
    mean = np.linalg.solve(np.eye(size) - T, sum(p * step.offset for p, step in cases))
    square, rest = np.zeros((size**2, size**2)), np.zeros((size, size))
    for p, (A, c, B) in cases:
        square += p * np.kron(A, A)
        cross = np.outer(A @ mean, c)
        rest += p * (cross + cross.T + np.outer(c, c) + B @ B.T)
    assert np.abs(np.linalg.eigvals(square)).max() < 1
    second = np.linalg.solve(np.eye(size**2) - square, rest.ravel()).reshape(size, size)
    return mean, second - np.outer(mean, mean)

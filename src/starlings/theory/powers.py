"""Exact laws at rounds that are far apart, by squaring: log2(k) products of matrices, not k.

The law of s after several rounds of s' = T s + c + B w is that of one round with other matrices,
and two such stretches of rounds make a third one, with Q the covariance of the noise,

    T = T2 T1,     c = T2 c1 + c2,     Q = T2 Q1 T2' + Q2                                     (1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from starlings.theory.recursions import Law, Moments, Recursion

UNCHANGED = 1e-13
"""Relative change of the matrices and of the law at which neither changes any more, in float64."""
QUIET_ROUNDS = 20
"""Rounds without a change after which a law that varies is taken to stay as it is."""


class Stretch(NamedTuple):
    """Consecutive rounds as one, eq. (1)."""

    transition: np.ndarray
    """T, (state, state)."""
    offset: np.ndarray
    """c, (state,)."""
    covariance: np.ndarray
    """Q, (state, state)."""

    @classmethod
    def of(cls, step: Recursion) -> Stretch:
        """A single round."""
        return cls(step.transition, step.offset, step.noise @ step.noise.T)

    def then(self, later: Stretch) -> Stretch:
        """These rounds and then others, eq. (1)."""
        T, c, Q = later
        return Stretch(
            T @ self.transition, T @ self.offset + c, T @ self.covariance @ T.T + Q
        )  # (1)

    def after(self, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean and covariance of the state after these rounds, from those before."""
        T, c, Q = self
        return T @ mean + c, T @ covariance @ T.T + Q


def moments_at(
    law: Law, rounds: Sequence[int], initial_mean: Any = 0.0, initial_covariance: Any = 1.0
) -> Iterator[Moments]:
    """Mean and covariance of the draws after some rounds, as `Law.moments` for all rounds.

    Args:
        law: the law of a sampler. One whose rounds vary is followed round by round, until nothing
            changes any more.
        rounds: the rounds, in ascending order.
        initial_mean: as in `Law.moments`.
        initial_covariance: as in `Law.moments`.

    >>> import starlings as st
    >>> from starlings.theory import law
    >>> problem = st.models.gaussian([[[1.0]], [[1.0]]])
    >>> exact = law(problem, st.Network.path(2), st.DSGLD(0.1))
    >>> far, = moments_at(exact, [10_000])
    >>> bool(abs(far.covariance - exact.stationary().covariance).max() < 1e-12)
    True
    """
    begun = law.begun(initial_mean, initial_covariance)
    walk = _round_by_round if law.varies else _by_squaring
    return (law.read(*moments) for moments in walk(law, rounds, *begun))


def _round_by_round(
    law: Law, rounds: Sequence[int], mean: np.ndarray, covariance: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The law of the state at some rounds; rounds after the last change are passed over."""
    now, quiet = 0, 0
    before: tuple[np.ndarray, ...] = ()
    for wanted in rounds:
        while now < wanted and quiet < QUIET_ROUNDS:
            now += 1
            step = law.recursion(now)
            mean, covariance = Stretch.of(step).after(mean, covariance)
            this = (*step, mean, covariance)
            quiet = quiet + 1 if _is_same(before, this) else 0
            before = this
        yield mean, covariance


def _is_same(before: tuple[np.ndarray, ...], this: tuple[np.ndarray, ...]) -> bool:
    """Whether all of these arrays are those of the round before, but for rounding."""
    return bool(before) and all(
        np.max(np.abs(b - a), initial=0.0) <= UNCHANGED * np.max(np.abs(a), initial=0.0)
        for b, a in zip(before, this, strict=True)
    )


def _by_squaring(
    law: Law, rounds: Sequence[int], mean: np.ndarray, covariance: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The law of the state at some rounds, where cycles are alike from the second one on."""
    now, doubled = 0, _Doubled(law)
    for wanted in rounds:
        while now < wanted:
            cycles = int(wanted - now) // law.cycle
            if cycles == 0 or now < law.cycle or now % law.cycle:
                step = Stretch.of(law.recursion(now + 1))
                mean, covariance = step.after(mean, covariance)
                now += 1
            else:
                for stretch in doubled.making(cycles):
                    mean, covariance = stretch.after(mean, covariance)
                now += cycles * law.cycle
        yield mean, covariance


class _Doubled:
    """1, 2, 4, ... cycles of a law, each made from the one before when it is first needed."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._stretches: list[Stretch] = []

    def making(self, cycles: int) -> Iterator[Stretch]:
        """Stretches that are together so many cycles."""
        for power in range(cycles.bit_length()):
            if power == len(self._stretches):
                self._stretches.append(self._next())
            if cycles >> power & 1:
                yield self._stretches[power]

    def _next(self) -> Stretch:
        if not self._stretches:
            return Stretch.of(self._law.whole_cycle())
        return self._stretches[-1].then(self._stretches[-1])

"""Numbers as integers modulo 2^128, so that sums are exact, in any order, and can be masked.

A number v is the integer

    n(v) = v 2^64, cut off towards zero,   modulo 2^128                                     (1)

which is exact to 2^-64, about 5e-20, and holds numbers up to 2^63. An integer is two words of 64
bits (high, low). It travels as four numbers of 32 bits, the limbs, in floating point: sums of up to
2^21 limbs are exact there, and carries are settled when the sum is read.

A number that is not finite, such as a potential outside of its support, is sent as `INFINITE`. A
sum in which one of them is contained is so large that it is read as infinite again. All other
numbers have to be smaller, by a factor that leaves room for all sites:

    |v| < LARGEST / (number of sites)                                                       (2)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from starlings.errors import FixedPointError

FRACTION_BITS = 64
"""Binary places after the point, eq. (1)."""
LARGEST = 2.0**52
"""The total of all sites has to be smaller than this, eq. (2)."""
INFINITE = 2.0**53
"""What a number that is not finite is sent as."""
MOST_SITES = 2**9
"""Number of sites for which a sum of `INFINITE` still fits into the integers."""
LIMBS = 4
"""Limbs of one number."""
BYTES = 16
"""Bytes of one number."""
LIMB_BITS = np.uint64(32)
LIMB = np.uint64(2**32 - 1)
"""The largest limb."""


class Words(NamedTuple):
    """Integers modulo 2^128, as two arrays of 64-bit words."""

    high: np.ndarray
    low: np.ndarray

    def plus(self, other: Words) -> Words:
        """The sum, modulo 2^128."""
        low = self.low + other.low
        return Words(self.high + other.high + (low < self.low), low)

    def add(self, other: Words) -> None:
        """Add another array of integers to this one, in place."""
        np.add(self.low, other.low, out=self.low)
        np.add(self.high, other.high, out=self.high)
        np.add(self.high, self.low < other.low, out=self.high)

    def subtract(self, other: Words) -> None:
        """Subtract another array of integers from this one, in place."""
        np.subtract(self.high, self.low < other.low, out=self.high)
        np.subtract(self.low, other.low, out=self.low)
        np.subtract(self.high, other.high, out=self.high)

    def negated(self) -> Words:
        """The negative, modulo 2^128."""
        return Words(~self.high + (self.low == 0), ~self.low + np.uint64(1))

    def limbs(self) -> np.ndarray:
        """The limbs, the lowest first, as signed integers (..., 4)."""
        words = np.stack([self.low, self.high], axis=-1).astype("<u8", copy=False)
        return words.view("<u4").astype(np.int64)

    @classmethod
    def zeros(cls, shape: int | tuple[int, ...]) -> Words:
        """Integers that are 0."""
        return cls(np.zeros(shape, np.uint64), np.zeros(shape, np.uint64))

    @classmethod
    def from_bytes(cls, data: bytes) -> Words:
        """The integers of these bytes: 8 for the low word of each, and then 8 for each high one."""
        low, high = np.frombuffer(data, "<u8").reshape(2, -1)
        return cls(high, low)

    @classmethod
    def from_limbs(cls, limbs: np.ndarray) -> Words:
        """The integers of sums of limbs (..., 4)."""
        first, second, third, fourth = np.moveaxis(settled(limbs), -1, 0).astype(np.uint64)
        return cls((fourth << LIMB_BITS) | third, (second << LIMB_BITS) | first)


def settled(limbs: np.ndarray) -> np.ndarray:
    """Sums of limbs (..., 4), of either sign, as the limbs of the same integer modulo 2^128."""
    found = np.empty(limbs.shape, np.int64)
    carry: Any = 0
    for place in range(LIMBS):
        total = limbs[..., place].astype(np.int64) + carry
        found[..., place] = total & 0xFFFFFFFF
        carry = total >> 32
    return found


def encoded(values: np.ndarray, sites: int) -> Words:
    """The integers of eq. (1).

    Args:
        values: the numbers of one site.
        sites: the number of sites whose numbers will be added.
    """
    values = np.asarray(values, float)
    if sites > MOST_SITES or not np.abs(values).max(initial=0.0) < LARGEST / sites:
        is_finite = np.isfinite(values)
        _check_range(np.where(is_finite, values, 0.0), sites)
        values = np.where(is_finite, values, INFINITE)
    return _encoded(values)


def _encoded(values: np.ndarray) -> Words:
    """The integers of finite numbers within the range."""
    size, is_negative = np.abs(values), values < 0
    high = size.astype(np.uint64)
    size -= high
    low = (size * 2.0**FRACTION_BITS).astype(np.uint64)  # (1)
    if is_negative.any():  # by the rule of two's complement: all bits turned, and 1 more
        one = is_negative.astype(np.uint64)
        turned = np.uint64(0) - one
        high ^= turned
        low ^= turned
        low += one
        high += is_negative & (low == 0)
    return Words(high, low)


def decoded(words: Words) -> np.ndarray:
    """The numbers of a sum; infinite where some site had a number that is not finite."""
    is_negative = words.high >> np.uint64(63) == 1
    positive = _chosen(is_negative, words.negated(), words)
    size = positive.high.astype(float) + positive.low.astype(float) * 2.0**-FRACTION_BITS
    size = np.where(size >= LARGEST, np.inf, size)
    return np.where(is_negative, -size, size)


def _chosen(condition: np.ndarray, one: Words, other: Words) -> Words:
    """The words of one where a condition holds, and of the other elsewhere."""
    return Words(*(np.where(condition, *pair) for pair in zip(one, other, strict=True)))


def _check_range(values: np.ndarray, sites: int) -> None:
    if sites > MOST_SITES:
        raise FixedPointError(
            f"masked sums are for {MOST_SITES} sites at most, got {sites}: let several sites share "
            "one agent."
        )
    largest = float(np.abs(values).max(initial=0.0))
    if largest >= LARGEST / sites:  # (2)
        raise FixedPointError(
            f"a number of {largest:.3g} is too large for a masked sum of {sites} sites, in which "
            f"numbers have to be below {LARGEST / sites:.3g}. Give the columns other units, or "
            "standardise them."
        )

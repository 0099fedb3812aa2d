"""Masks: what sites add to their numbers so that nobody learns anything but the total.

For the sum number t every pair of sites i < j derives the same random integers m_ij(t), a stream of
ChaCha20 under the key of the pair; i adds them and j subtracts them, modulo 2^128:

    y_i = n(v_i) + sum_{j > i} m_ij(t) - sum_{j < i} m_ji(t)                                (1)

In sum_i y_i all masks cancel, exactly. Any set of y_i that lacks two sites' is uniformly random: it
says nothing about the numbers of these two but their total.

No stream is used twice: t counts the sums of one purpose, each purpose has keys of its own, and
every start of a run is a new session (see `keys`). One further number, 1 at every site, tells
whether all masks have cancelled: where a site is missing, or a key is wrong, the total is random,
and is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from starlings.errors import MaskError
from starlings.privacy.fixed_point import BYTES, LIMBS, Words, decoded, encoded
from starlings.privacy.keys import SiteKeys
from starlings.system.extras import import_extra

Streams = dict[bytes, Words]
"""Streams of one sum by the key of their pair."""
NONCE_BYTES = 12
"""Bytes of the number of a sum in the stream's address; the block counter has 4 more."""


@dataclass
class SiteMasks:
    """The masks of one site."""

    keys: SiteKeys
    sites: Sequence[str]
    """The names of all sites, in an order that all of them know."""
    purpose: str
    """What the sums are for, by which their keys differ from others."""
    pair_keys: dict[str, bytes] = field(default_factory=dict)
    pairs: list[tuple[bytes, bool]] = field(default_factory=list)
    """The key of each pair, and whether this site is the first one of it."""

    def __post_init__(self) -> None:
        others = (site for site in self.sites if site != self.keys.site)
        self.pair_keys = {site: self.keys.pair_key(site, self.purpose) for site in others}
        place = {site: number for number, site in enumerate(self.sites)}
        own = place[self.keys.site]
        self.pairs = [(key, own < place[site]) for site, key in self.pair_keys.items()]

    def of_sum(self, number: int, count: int) -> Words:
        """What this site adds to its `count` numbers in the sum of that number, eq. (1)."""
        total = Words.zeros(count)
        self.add(total, number, count, Streams())
        return total

    def add(self, total: Words, number: int, count: int, seen: Streams) -> None:
        """Add these masks to the numbers of this site, in place.

        `seen` has streams that another local site has made already, each of which is needed by the
        two sites of a pair only.
        """
        for key, is_first in self.pairs:
            stream = seen.pop(key, None)
            if stream is None:
                stream = seen[key] = _stream(key, number, count)
            if is_first:
                total.add(stream)
            else:
                total.subtract(stream)


@dataclass
class Masks:
    """The masks of the local sites, and the number of the next sum."""

    sites: Sequence[str]
    """The names of all sites, in order."""
    local: Mapping[str, SiteMasks]
    next_sum: int = 0

    @classmethod
    def of(cls, sites: Sequence[str], keys: Mapping[str, SiteKeys], purpose: str) -> Masks:
        """The masks of the sites that have these keys."""
        return cls(sites, {site: SiteMasks(own, sites, purpose) for site, own in keys.items()})

    def masked(self, parts: np.ndarray) -> np.ndarray:
        """What the local sites send for one sum, (site, limbs), from their numbers (site, k)."""
        number, self.next_sum = self.next_sum, self.next_sum + 1
        count, seen = parts.shape[1] + 1, Streams()
        own = encoded(np.column_stack([parts, np.ones(len(parts))]), len(self.sites))
        for high, low, masks in zip(*own, self.local.values(), strict=True):
            masks.add(Words(high, low), number, count, seen)  # (1)
        return own.limbs().reshape(len(parts), LIMBS * count).astype(float)

    def opened(self, total: np.ndarray) -> np.ndarray:
        """The total (k,) of all sites' numbers, from the sum of what they sent (limbs,)."""
        numbers = decoded(Words.from_limbs(total.reshape(-1, LIMBS)))
        if numbers[-1] != len(self.sites):
            raise MaskError(
                "a masked sum cannot be read: the masks of the sites do not cancel. Either a site "
                "is missing, or two sites do not have each other's public key, or they count sums "
                "differently. Start all sites anew."
            )
        return numbers[:-1]


def _stream(key: bytes, number: int, count: int) -> Words:
    """Random integers of a pair of sites for the sum of that number."""
    nonce = bytes(4) + number.to_bytes(NONCE_BYTES, "little")
    cipher = _ciphers().Cipher(_ciphers().algorithms.ChaCha20(key, nonce), mode=None)
    return Words.from_bytes(cipher.encryptor().update(_zeros(BYTES * count)))


@functools.lru_cache(maxsize=8)
def _zeros(count: int) -> bytes:
    """So many bytes of zero, which a cipher turns into its stream."""
    return bytes(count)


@functools.cache
def _ciphers() -> Any:
    """The module for ciphers of the package `cryptography`."""
    return import_extra("cryptography.hazmat.primitives.ciphers", "a masked sum", "privacy")

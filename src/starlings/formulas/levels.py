"""Levels of categories that no site knows alone, found by sums.

A label l of a column c has the key k = c, l and, in attempt t, the bucket h_t(k) of B, where h_t is
a hash. Every site adds for each bucket, over its own keys,

    n = the number of keys,   m = the sum of their lengths in bytes                           (1)

and then, for each bucket with n > 0, the sums S of the bytes of its keys, three in a number. Where
all keys of a bucket are the same one, of length m / n, its bytes are those of

    S / n                                                                                     (2)

and they end with a checksum. Where different keys have met, they are not whole numbers, or no key
of this bucket, and the sites repeat (1) with the keys of such buckets only, in a next attempt. The
total says that a level occurs, and at how many sites; not at which.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from starlings.errors import FormulaError
from starlings.formulas.sums import Agreement, Parts
from starlings.problem.shards import in_order

NAMES = "names of categories"
"""What is sent, in the account of what leaves a site."""
BUCKETS_PER_KEY = 8
"""Buckets for each key of all sites together: of so many, few hold two."""
BYTES_IN_NUMBER = 3
"""Bytes in a number: sums over a million sites are exact."""
CHECK_BYTES = 4
"""Bytes of a checksum at the end of a key, by which a mixture of keys is recognised."""
MOST_ATTEMPTS = 50
MOST_KEYS = 100_000
"""Levels of all columns, added up over all sites, at most."""

Labels = Mapping[str, Sequence[str]]
"""The labels that a site has, by column."""


def agreed_levels(columns: Sequence[str], sites: Sequence[Labels]) -> Agreement:
    """The levels of columns, sorted, that occur at some site.

    Args:
        columns: the columns of categories whose levels are not declared.
        sites: the labels of each local site.
    """
    own = [{_key(name, label) for name in columns for label in labels[name]} for labels in sites]
    count = yield Parts(NAMES, np.array([[len(keys)] for keys in own], float))
    found: set[bytes] = set()
    attempt, missing = 0, round(float(count[0]))
    if missing > MOST_KEYS:
        raise FormulaError(
            f"the columns {list(columns)} have {missing:,} levels, added up over all sites, and "
            f"{MOST_KEYS:,} are allowed: is one of them the name of a row? Merge levels."
        )
    while missing:
        if attempt == MOST_ATTEMPTS:
            raise FormulaError("the sites do not agree on levels of categories: declare `levels`.")
        buckets = BUCKETS_PER_KEY * missing
        keys, left = yield from _attempt(own, attempt, buckets)
        found |= keys
        own = [{key for key in each if _bucket(key, attempt, buckets) in left} for each in own]
        missing, attempt = round(sum(left.values())), attempt + 1
    return _levels(columns, found)


def _attempt(own: Sequence[set[bytes]], attempt: int, buckets: int) -> Agreement:
    """The keys of all buckets with one key, and the number of keys in each other bucket."""
    counts = np.zeros((len(own), 2, buckets))
    for site, keys in enumerate(own):
        for key in keys:
            counts[site, :, _bucket(key, attempt, buckets)] += 1, len(key)  # (1)
    total = yield Parts(NAMES, counts.reshape(len(own), -1))
    n, m = np.round(total.reshape(2, buckets)).astype(int).tolist()
    lengths = {b: -(-m[b] // n[b]) for b in range(buckets) if n[b]}
    sizes = [-(-length // BYTES_IN_NUMBER) for length in lengths.values()]
    ends = np.cumsum(sizes).tolist()
    places = {b: slice(end - k, end) for b, end, k in zip(lengths, ends, sizes, strict=True)}
    sums = np.zeros((len(own), ends[-1]))
    for site, keys in enumerate(own):
        for key in keys:
            part = sums[site, places[_bucket(key, attempt, buckets)]]
            numbers = _numbers(key)[: len(part)]
            part[: len(numbers)] += numbers
    total = yield Parts(NAMES, sums)
    found: set[bytes] = set()
    left: dict[int, int] = {}
    for bucket, length in lengths.items():
        read = _read(np.round(total[places[bucket]]) / n[bucket], length)  # (2)
        if read is not None and _bucket(read, attempt, buckets) == bucket:
            found.add(read)
        else:
            left[bucket] = n[bucket]
    return found, left


def _key(column: str, label: str) -> bytes:
    """A column and one of its labels as bytes, with a checksum."""
    text = json.dumps([column, label], ensure_ascii=False, separators=(",", ":")).encode()
    return text + hashlib.blake2b(text, digest_size=CHECK_BYTES).digest()


def _bucket(key: bytes, attempt: int, buckets: int) -> int:
    """The bucket of a key, which differs from attempt to attempt."""
    digest = hashlib.blake2b(key, digest_size=8, salt=attempt.to_bytes(16, "little")).digest()
    return int.from_bytes(digest, "little") % buckets


def _numbers(key: bytes) -> np.ndarray:
    """The bytes of a key, three in a number."""
    padded = key + bytes(-len(key) % BYTES_IN_NUMBER)
    digits = np.frombuffer(padded, np.uint8).reshape(-1, BYTES_IN_NUMBER).astype(int)
    return digits @ (256 ** np.arange(BYTES_IN_NUMBER))


def _read(numbers: np.ndarray, length: int) -> bytes | None:
    """The key of these numbers; None if they are none."""
    if not ((numbers == np.round(numbers)) & (numbers < 256**BYTES_IN_NUMBER)).all():
        return None
    digits = numbers.astype(int)[:, None] // 256 ** np.arange(BYTES_IN_NUMBER) % 256
    key = digits.astype(np.uint8).tobytes()[:length]
    text, check = key[:-CHECK_BYTES], key[-CHECK_BYTES:]
    is_right = hashlib.blake2b(text, digest_size=CHECK_BYTES).digest() == check
    return key if is_right else None


def _levels(columns: Sequence[str], keys: set[bytes]) -> dict[str, tuple[str, ...]]:
    """The levels of each column, sorted."""
    found: dict[str, list[str]] = {column: [] for column in columns}
    for key in keys:
        column, label = json.loads(key[:-CHECK_BYTES].decode())
        found[column].append(label)
    return {column: tuple(in_order(labels)) for column, labels in found.items()}

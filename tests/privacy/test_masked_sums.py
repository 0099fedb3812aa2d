"""Masked sums: exact integers, masks that cancel, and messages that say nothing but the total."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

import starlings.privacy.masks as masks_module
from starlings.errors import FixedPointError, MaskError
from starlings.network.communicator import LocalCommunicator
from starlings.privacy.fixed_point import INFINITE, LARGEST, MOST_SITES, Words, decoded, encoded
from starlings.privacy.keys import SiteKeys, agreed_keys
from starlings.privacy.masks import Masks, SiteMasks

SITES = ["Ashby", "Brook", "Cliff", "Downs"]
VALUES = [0.0, 1.0, -1.0, 1e-12, -1e-12, 1e-30, -1e-30, 0.1, -0.1, 1e15, -1e15, 2.0**-64, np.pi]


def as_integers(words: Words) -> list[int]:
    return [int(h) * 2**64 + int(low) for h, low in zip(words.high, words.low, strict=True)]


def python_integer(value: float) -> int:
    """v 2^64, cut off towards zero, modulo 2^128, by exact rational arithmetic."""
    return int(Fraction(value) * 2**64) % 2**128


def masks_of(sites=SITES):
    return Masks.of(sites, agreed_keys(sites, sites, LocalCommunicator()), "sums")


def test_numbers_are_the_integers_of_python():
    found = as_integers(encoded(np.array(VALUES), sites=4))
    for value, integer in zip(VALUES, found, strict=True):
        assert integer == python_integer(value), value


def test_encoding_is_undone():
    values = np.array(VALUES)
    np.testing.assert_allclose(decoded(encoded(values, 4)), values, rtol=1e-15, atol=2.0**-64)


def test_sums_and_negatives_are_those_of_python_integers():
    random = np.random.default_rng(0)
    a, b = (Words(*random.integers(2**64, size=(2, 1000), dtype=np.uint64)) for _ in range(2))
    wanted = [(x + y) % 2**128 for x, y in zip(as_integers(a), as_integers(b), strict=True)]
    assert as_integers(a.plus(b)) == wanted
    assert as_integers(a.negated()) == [-x % 2**128 for x in as_integers(a)]
    assert not any(as_integers(a.plus(a.negated())))
    zero = Words(np.zeros(1, np.uint64), np.zeros(1, np.uint64))
    assert as_integers(zero.negated()) == [0]


def test_sums_of_limbs_are_sums_of_integers():
    random = np.random.default_rng(1)
    parts = [Words(*random.integers(2**64, size=(2, 50), dtype=np.uint64)) for _ in range(300)]
    total = sum(part.limbs() for part in parts)
    columns = zip(*map(as_integers, parts), strict=True)
    assert as_integers(Words.from_limbs(total)) == [sum(column) % 2**128 for column in columns]


@pytest.mark.parametrize("sites", [2, 3, 64])
def test_numbers_beyond_the_range_are_refused(sites):
    largest = np.nextafter(LARGEST / sites, 0)
    assert decoded(encoded([largest, -largest], sites)).tolist() == [largest, -largest]
    for value in (LARGEST / sites, -LARGEST / sites, 1e300):
        with pytest.raises(FixedPointError, match=r"too large for a masked sum .* standardise"):
            encoded([0.0, value], sites)


def test_as_many_numbers_as_there_are_sites_do_not_wrap():
    largest = np.full(1, np.nextafter(LARGEST / MOST_SITES, 0))
    each = encoded(largest, MOST_SITES).limbs()
    assert decoded(Words.from_limbs(MOST_SITES * each)) == MOST_SITES * largest
    infinite = encoded([np.inf], MOST_SITES).limbs()
    assert decoded(Words.from_limbs(MOST_SITES * infinite)) == np.inf
    assert MOST_SITES * INFINITE < 2.0**63
    with pytest.raises(FixedPointError, match="512 sites at most, got 513"):
        encoded([0.0], MOST_SITES + 1)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_at_one_site_is_infinite_in_the_total(value):
    masks = masks_of()
    parts = np.array([[1.0, value], [2.0, 3.0], [-4.0, 1e12], [0.5, -1e12]])
    total = masks.opened(masks.masked(parts).sum(axis=0))
    assert total.tolist() == [-0.5, np.inf]


def test_masks_cancel_exactly():
    random, masks = np.random.default_rng(2), masks_of()
    for _ in range(20):
        parts = random.normal(size=(4, 7)) * 10.0 ** random.integers(-9, 12, size=7)
        opened = masks.opened(masks.masked(parts).sum(axis=0))
        exact = [float(sum(map(Fraction, column))) for column in parts.T]
        np.testing.assert_allclose(opened, exact, rtol=1e-15, atol=4 * 2.0**-64)
    assert masks.next_sum == 20


def test_every_order_and_every_process_has_the_same_bits():
    masks = masks_of()
    sent = masks.masked(np.random.default_rng(3).normal(size=(4, 5)))
    totals = [sent[order].sum(axis=0) for order in ([0, 1, 2, 3], [3, 1, 0, 2])]
    totals.append((sent[0] + sent[1]) + (sent[2] + sent[3]))
    bits = {masks.opened(total).tobytes() for total in totals}
    assert len(bits) == 1


def test_no_mask_is_used_twice():
    masks = masks_of()
    first, second = (masks.masked(np.ones((4, 3))) for _ in range(2))
    assert not np.any(first == second)
    streams = {
        np.array(masks.local[site].of_sum(t, 1)).tobytes() for site in SITES for t in range(100)
    }
    assert len(streams) == 400


def test_a_new_start_has_new_keys_and_masks():
    """After a restart the same sums, counted from 0 again, are masked anew."""
    one, other = masks_of(), masks_of()
    keys = [masks.local["Ashby"].pair_keys["Brook"] for masks in (one, other)]
    assert keys[0] != keys[1]
    same = {
        site: SiteKeys(site, own.keys.private, own.keys.public, b"x" * 32)
        for site, own in one.local.items()
    }
    again = Masks.of(SITES, same, "sums")
    assert again.local["Ashby"].pair_keys["Brook"] != keys[0]
    parts = np.ones((4, 3))
    assert not np.any(one.masked(parts) == again.masked(parts))


def test_sums_for_different_purposes_have_different_keys():
    keys = agreed_keys(SITES, SITES, LocalCommunicator())
    one, other = (Masks.of(SITES, keys, purpose).local["Ashby"] for purpose in ("a", "b"))
    assert not set(one.pair_keys.values()) & set(other.pair_keys.values())


def test_both_sites_of_a_pair_have_one_key_and_all_pairs_different_ones():
    local = masks_of().local
    keys = {}
    for site in SITES:
        for other, key in local[site].pair_keys.items():
            assert len(key) == 32
            assert keys.setdefault(frozenset((site, other)), key) == key
    assert len(set(keys.values())) == len(keys) == 6


def fixed_masks():
    """Masks from keys that are the same in every run of the tests, whose statistics vary else."""
    made = X25519PrivateKey.from_private_bytes
    private = {site: made(site.encode() * 6 + b"xx") for site in SITES}
    public = {site: key.public_key().public_bytes_raw() for site, key in private.items()}
    keys = {site: SiteKeys(site, private[site], public, b"s" * 32) for site in SITES}
    return Masks.of(SITES, keys, "sums")


def assert_uniform(words: Words):
    """Every limb of many integers passes a test of uniformity: 4 p-values."""
    for limb in words.limbs().T / 2.0**32:
        assert stats.kstest(limb, "uniform").pvalue > 0.001


def test_what_a_site_sends_is_uniform_whatever_its_numbers_are():
    sent = fixed_masks().masked(np.full((4, 20_000), 3.25))[0].reshape(-1, 4)[:-1]
    assert_uniform(Words.from_limbs(sent))


def view_of_two(masks: Masks, parts: np.ndarray) -> tuple[Words, Words]:
    """What Cliff and Downs together see of Ashby and Brook, without all masks that they know."""
    sent, seen = masks.masked(parts), []
    for site, row in zip(SITES[:2], sent, strict=False):
        own = Words.from_limbs(row.reshape(-1, 4))
        for other in SITES[2:]:
            known = masks.local[other].pair_keys[site]
            own.subtract(masks_module._stream(known, masks.next_sum - 1, parts.shape[1] + 1))
        seen.append(Words(own.high[:-1], own.low[:-1]))
    return seen[0], seen[1]


@pytest.mark.parametrize("numbers", [[3.25, -1.25], [-1e6, 1e6 + 2.0]])
def test_views_of_two_data_sets_with_one_total_have_the_same_law(numbers):
    """To all others together, two sites' messages are uniform numbers with the right total.

    So their law depends on the total alone: it is 2 in both cases.
    """
    parts = np.zeros((4, 20_000))
    parts[:2] = np.array(numbers)[:, None]
    first, second = view_of_two(fixed_masks(), parts)
    assert_uniform(first)
    assert_uniform(second)
    assert (decoded(first.plus(second)) == 2.0).all()


def test_two_data_sets_with_one_total_can_have_sent_the_same_messages(monkeypatch):
    """Other numbers of Ashby and Brook send the same messages, in every bit, under another stream.

    It is the stream of this pair, which no other site can compute, less what was moved from one to
    the other. It is as probable as the true one, since both are uniform.
    """
    masks, plain = masks_of(), masks_module._stream
    pair = masks.local["Ashby"].pair_keys["Brook"]
    assert not any(pair in masks.local[site].pair_keys.values() for site in ("Cliff", "Downs"))
    parts = np.random.default_rng(4).integers(-(2**40), 2**40, size=(4, 3)) * 2.0**-20
    moved = np.array([1.5, -2.25, 1e6])
    sent = masks.masked(parts)

    def other_stream(key: bytes, number: int, count: int) -> Words:
        stream = plain(key, number, count)
        return stream.plus(encoded(np.append(moved, 0.0), 4).negated()) if key == pair else stream

    monkeypatch.setattr(masks_module, "_stream", other_stream)
    masks.next_sum = 0
    again = masks.masked(parts + np.array([moved, -moved, 0 * moved, 0 * moved]))
    np.testing.assert_array_equal(again, sent)


def test_a_missing_site_is_noticed():
    masks = masks_of()
    sent = masks.masked(np.ones((4, 3)))
    with pytest.raises(MaskError, match=r"do not cancel.*a site is missing"):
        masks.opened(sent[:3].sum(axis=0))


def test_a_wrong_key_is_noticed():
    keys = agreed_keys(SITES, SITES, LocalCommunicator())
    stranger = agreed_keys(["Brook"], ["Brook"], LocalCommunicator())["Brook"].public["Brook"]
    wrong = keys["Ashby"].public | {"Brook": stranger}
    keys["Ashby"] = SiteKeys("Ashby", keys["Ashby"].private, wrong, keys["Ashby"].session)
    masks = Masks.of(SITES, keys, "sums")
    with pytest.raises(MaskError, match="each other's public key"):
        masks.opened(masks.masked(np.ones((4, 3))).sum(axis=0))


def test_sites_that_count_sums_differently_are_noticed():
    keys = agreed_keys(SITES, SITES, LocalCommunicator())
    masks, late = (Masks.of(SITES, keys, "sums") for _ in range(2))
    late.masked(np.ones((4, 3)))
    sent, other = masks.masked(np.ones((4, 3))), late.masked(np.ones((4, 3)))
    with pytest.raises(MaskError, match="count sums differently"):
        masks.opened(sent[:3].sum(axis=0) + other[3])


def test_masks_of_a_site_need_its_own_private_key_only():
    keys = agreed_keys(SITES, SITES, LocalCommunicator())
    alone = SiteMasks(keys["Cliff"], SITES, "sums")
    together = Masks.of(SITES, keys, "sums").local["Cliff"]
    np.testing.assert_array_equal(alone.of_sum(7, 3), together.of_sum(7, 3))

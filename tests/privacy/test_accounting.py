"""Epsilon of repeated Gaussian mechanisms, against closed forms; the generator of secret noise."""

from __future__ import annotations

import importlib
import importlib.util
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest, norm

from starlings.privacy.accounting import GRID, epsilon
from starlings.random._chacha import CHACHA, block, random_bits
from starlings.random.addresses import chain_keys
from starlings.random.secret_keys import SECRET_BYTES, secret_keys

DELTA = 1e-5
RFC_KEY = bytes(range(32))
"""The key of section 2.3.2 of RFC 8439."""
RFC_BLOCK = (
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)
"""The block of that section for the counter 1 and the nonce below."""
RFC_NONCE = (0x09000000, 0x4A000000, 0)


def analytic_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of one Gaussian mechanism with noise 1 / mu (Balle and Wang 2018).

    delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)
    """

    def excess(value: float) -> float:
        tail = math.exp(value + norm.logcdf(-mu / 2 - value / mu))
        return norm.cdf(mu / 2 - value / mu) - tail - delta

    return brentq(excess, 0, mu**2 / 2 + 40 * mu, xtol=1e-12)


@pytest.mark.parametrize(
    ("releases", "noise_multiplier"),
    [(1, 1.0), (1, 100.0), (200, 16.0), (2_000, 16.0), (20_000, 16.0), (10, 1e4), (10**6, 1.0)],
)
def test_epsilon_is_the_analytic_one_rounded_up_to_the_grid(releases, noise_multiplier):
    mu = math.sqrt(releases) / noise_multiplier
    exact = analytic_epsilon(mu, DELTA)
    found = epsilon(releases, noise_multiplier, DELTA)
    assert exact <= found <= exact + GRID * (mu + mu**2 / 2)


def test_epsilon_is_infinite_where_there_is_no_privacy_to_speak_of():
    assert epsilon(10**6, 1.0, DELTA) > 5e5
    assert epsilon(10**6 + 1, 1.0, DELTA) == math.inf
    assert epsilon(1, 1e-12, DELTA) == math.inf


@pytest.mark.parametrize(("releases", "wanted"), [(200, 3.797), (2_000, 15.223), (20_000, 75.945)])
def test_epsilon_of_a_short_a_middle_and_a_long_run(releases, wanted):
    """Noise 16 times as large as the clipped gradient of a row, at delta 1e-5."""
    assert epsilon(releases, 16.0, DELTA) == pytest.approx(wanted, abs=0.001)


def test_epsilon_is_below_that_of_renyi_accounting_which_is_not_tight():
    accounting = importlib.import_module("dp_accounting")
    other = accounting.rdp.RdpAccountant()
    other.compose(accounting.GaussianDpEvent(16.0), 2_000)
    assert 0.9 * other.get_epsilon(DELTA) < epsilon(2_000, 16.0, DELTA) < other.get_epsilon(DELTA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1.0, DELTA), "`releases` must be a whole number of at least 1, got 0"),
        ((10, 0.0, DELTA), "`noise_multiplier` must be positive and finite, got 0"),
        ((10, 1.0, 0.0), "`delta` must be positive"),
        ((10, 1.0, 1.0), "`delta` must be below 1, got 1"),
    ],
)
def test_what_has_no_epsilon_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        epsilon(*arguments)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs dp_accounting; .*'starlings\[dp\]'"):
        epsilon(10, 1.0, DELTA)


def key_words(key: bytes) -> jax.Array:
    return jnp.asarray(np.frombuffer(key, "<u4"))


def test_blocks_are_those_of_the_standard():
    words = np.asarray(block(key_words(RFC_KEY), 1, RFC_NONCE))
    assert words.astype("<u4").tobytes().hex() == RFC_BLOCK


def test_random_bits_are_the_stream_of_another_implementation():
    ciphers = importlib.import_module("cryptography.hazmat.primitives.ciphers")
    nonce = np.array([0, 3, 0, 0], "<u4").tobytes()  # the counter, and what the words are for
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(RFC_KEY, nonce), mode=None)
    stream = cipher.encryptor().update(bytes(8 * 37))
    with jax.enable_x64(True):
        wide = random_bits(key_words(RFC_KEY), 64, (37,))
        narrow = random_bits(key_words(RFC_KEY), 32, (2, 37))
    assert np.asarray(wide).astype("<u8").tobytes() == stream
    assert np.asarray(narrow).astype("<u4").tobytes() == stream


def test_keys_of_all_ways_differ():
    """Keys that are folded or split from one key, and words drawn from it, share no block."""
    key = jax.random.wrap_key_data(key_words(RFC_KEY), impl=CHACHA)
    folded = [jax.random.key_data(jax.random.fold_in(key, number)) for number in range(20)]
    parts = jax.random.key_data(jax.random.split(key, (4, 5))).reshape(20, 8)
    bits = jax.random.bits(key, (20, 8))
    rows = np.concatenate([folded, parts, bits])
    assert len(np.unique(rows)) == rows.size


def test_normal_numbers_pass_a_test_of_their_law():
    key = jax.random.wrap_key_data(key_words(RFC_KEY), impl=CHACHA)
    with jax.enable_x64(True):
        drawn = np.asarray(jax.random.normal(key, (20_000,)))
    assert kstest(drawn, "norm").pvalue > 0.001


def test_no_key_is_made_from_a_seed():
    with pytest.raises(TypeError, match="256 bits"):
        jax.random.key(0, impl=CHACHA)


def test_secret_keys_differ_between_agents_chains_seeds_and_starts():
    keys = [chain_keys(seed, 3, 5)[0] for seed in (0, 1)]
    given = [secret_keys(key, bytes(SECRET_BYTES)) for key in keys]
    drawn = [secret_keys(keys[0]) for _ in range(2)]
    words = np.concatenate([jax.random.key_data(key).reshape(-1, 8) for key in (*given, *drawn)])
    assert words.shape == (60, 8)
    assert len(np.unique(words)) == words.size
    again = secret_keys(keys[0], bytes(SECRET_BYTES))
    np.testing.assert_array_equal(jax.random.key_data(again), jax.random.key_data(given[0]))


def test_a_secret_key_does_not_depend_on_how_many_chains_there_are():
    private, _ = chain_keys(0, 4, 5)
    secret = bytes(SECRET_BYTES)
    all_keys, few = secret_keys(private, secret), secret_keys(private[:1, 2:], secret)
    np.testing.assert_array_equal(jax.random.key_data(all_keys[:1, 2:]), jax.random.key_data(few))

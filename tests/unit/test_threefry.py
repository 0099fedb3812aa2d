"""The generator has JAX's bits, whatever is drawn from it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starlings.random._threefry import THREEFRY, random_bits
from starlings.random.addresses import chain_keys
from tests.quick import quick_cases

DRAWN = {
    "keys": lambda key: jax.random.key_data(jax.random.fold_in(key, 3)),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "normal": lambda key: jax.random.normal(key, (3, 4)),
    "float32": lambda key: jax.random.normal(key, (5,), jnp.float32),
    "rows": lambda key: jax.random.randint(key, (50,), 0, 1000),
    "exponential": lambda key: jax.random.exponential(key),
    "bytes": lambda key: jax.random.bits(key, (9,), "uint8"),
    "batched": lambda key: jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (2,)))(
        jnp.arange(7)
    ),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("x64", quick_cases([True, False], [True]))
@pytest.mark.parametrize("seed", quick_cases([0, 1, 2**31 + 5], [2**31 + 5]))
@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_the_same_bits_as_jax(draw, seed, x64):
    with jax.enable_x64(x64):
        own, theirs = jax.random.key(seed, impl=THREEFRY), jax.random.key(seed, impl="threefry2x32")
        np.testing.assert_array_equal(draw(own), draw(theirs))


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
@pytest.mark.parametrize("agents", [3, np.array([0, 5, 1_000_000])])
def test_keys_of_chains_and_agents_are_folded_as_jax_does(seed, agents):
    """Eqs. (1) and (2) of `rounds`, one key at a time."""
    private, shared = chain_keys(seed, 4, agents)
    root, fold_in = jax.random.key(seed, impl=THREEFRY), jax.random.fold_in
    numbers = np.arange(agents) if np.ndim(agents) == 0 else agents
    for chain in range(4):
        own = fold_in(root, chain)
        assert shared[chain] == fold_in(own, 0)
        for place, agent in enumerate(numbers):
            assert private[chain, place] == fold_in(own, 1 + int(agent))


def test_more_numbers_than_counters_are_refused():
    with pytest.raises(ValueError, match="fewer than 4294967296 entries, got 8589934592"):
        jax.eval_shape(lambda key: random_bits(key, 32, (2**17, 2**16)), jnp.zeros(2, jnp.uint32))

"""Every random number has a key of its own, or one that all agents share by design."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import primitives

from starlings.network import Inbox
from starlings.random.addresses import Round
from starlings.samplers import Sampler
from starlings.testing.trial import Trial, require, stepped

KEY_CHAINS, KEY_AGENTS = 2, 6
"""Numbers of chains and of agents whose keys are compared; a smaller network has fewer agents."""


class KeysUsed(NamedTuple):
    """How many keys `KEY_CHAINS` chains of `KEY_AGENTS` agents consume in two cycles of rounds."""

    private: int
    """Keys that one agent of one chain uses and nobody else."""
    shared: int
    """Keys that all agents of one chain use."""


def no_key_is_used_twice(trial: Trial, sampler: Sampler) -> None:
    """Over agents, chains and rounds, each random call of a run has a key of its own.

    Shared noise is the exception by design: all agents of a chain draw it from one key. So is the
    noise of an edge, which its two ends draw.
    """
    keys_used(trial, sampler)


def keys_used(trial: Trial, sampler: Sampler) -> KeysUsed:
    """Count the keys of a run; raise a `ContractError` if one is used twice."""
    _check_by_jax(trial, sampler)
    count: Counter[bytes] = Counter()
    agents = min(KEY_AGENTS, trial.network.size)
    with jax.enable_x64(True), jax.disable_jit():
        for chain, agent in np.ndindex(KEY_CHAINS, agents):
            used = _keys_of(trial, sampler, chain, agent)
            require(
                len(set(used)) == len(used),
                "a random key is used twice by one agent: call each method of `Round` once in a "
                "step, and split what `batch_key` or `shared_key` returns if you need more.",
            )
            count.update(used)
    owners = sorted(count.values())
    expected = {1, 2, agents} if sampler.draws_edges else {1, agents}
    expected |= {agents - 1} if sampler.needs_hub else set()  # all sites, and not the hub
    require(
        set(owners) <= expected,
        "a random key belongs neither to one agent nor to all agents of one chain: take noise and "
        "keys from `Round`, not from a seed of your own.",
    )
    require(
        bool(owners) or sampler.draws_nothing,
        "no random number was drawn; a sampler that converges instead says `draws_nothing = True`.",
    )
    return KeysUsed(owners.count(1), owners.count(agents))


def _check_by_jax(trial: Trial, sampler: Sampler) -> None:
    """JAX's own check, which follows keys through one compiled round."""

    def two_rounds(agent, position, inbox, keys):
        state = sampler.init(agent, position, Round(0, *keys))
        return stepped(sampler, agent, state, inbox, Round(1, *keys))

    with jax.enable_x64(True):
        agent, position, inbox = _single(trial, sampler, 0)
        private, shared = trial.keys()
        keys = (private[0], shared)
        try:
            with jax.debug_key_reuse(True):
                jax.jit(two_rounds).lower(agent, position, inbox, keys)
        except jax.errors.KeyReuseError as error:
            require(False, f"JAX finds that a random key is used twice: {error}")


def _single(trial: Trial, sampler: Sampler, number: int) -> tuple:
    """One agent, its position, and an inbox of zeros."""
    agent = jax.tree.map(lambda array: array[number], trial.agents(sampler))
    nothing = jnp.zeros(sampler.floats(trial.problem.dim))
    each, arrived = jnp.zeros((agent.slots, len(nothing))), jnp.zeros(agent.slots, bool)
    inbox = Inbox(sum=nothing, mix=nothing, max=nothing, each=each, arrived=arrived)
    return agent, jnp.zeros(trial.problem.dim), inbox


def _keys_of(trial: Trial, sampler: Sampler, chain: int, number: int) -> list[bytes]:
    """The keys that one agent of one chain consumes in two cycles of rounds."""
    agent, position, inbox = _single(trial, sampler, number)
    private, shared = trial.keys(chain)
    with _recorded() as used:
        state = sampler.init(agent, position, Round(0, private[number], shared))
        for index in range(1, 2 * sampler.cycle + 1):
            round = Round(index, private[number], shared)
            state, _ = stepped(sampler, agent, state, inbox, round)
    return used


@contextlib.contextmanager
def _recorded() -> Iterator[list[bytes]]:
    """The keys that are consumed in this context, which has to be without `jit`."""
    used: list[bytes] = []
    with contextlib.ExitStack() as patches:
        for primitive in (primitives.random_bits_p, primitives.random_gamma_p):

            def spy(keys, *arguments, bind=primitive.bind, **settings):
                if not isinstance(keys, jax.core.Tracer):  # inside `vmap`, which asks again
                    data = np.asarray(jax.random.key_data(keys))
                    used.extend(bytes(key) for key in data.reshape(-1, data.shape[-1]))
                return bind(keys, *arguments, **settings)

            patches.enter_context(mock.patch.object(primitive, "bind", spy))
        yield used

"""The draws of many chains at chosen rounds, and how long the rounds took.

Unlike a `Schedule`, the rounds need not be evenly spaced: a curve along the rounds needs few draws
late in a run, where little changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.problem import Problem
from starlings.random.addresses import chain_keys
from starlings.runtime import loop
from starlings.runtime.divergence import first_divergence
from starlings.runtime.masked_delivery import delivery_of
from starlings.runtime.rounds import draws_of, prepared
from starlings.runtime.unreliable import OnLinks
from starlings.samplers import Sampler

LARGEST_COORDINATE = 1e9
"""The absolute value of a coordinate above which an agent has diverged."""


class Snapshot(NamedTuple):
    """What is recorded after one round."""

    round: int
    draws: np.ndarray
    """(chain, agent, dim)."""
    seconds: float
    """How long the rounds since the snapshot before took, by a clock that never goes back. Nothing
    else may run on the machine if it is to mean anything."""
    compiles: bool
    """Whether those seconds include the compilation of the rounds."""
    messages: float | None
    """Messages of all agents of one chain so far, the mean over the chains; None where that follows
    from the number of rounds, see `Sampler.broadcasts`."""
    divergence: str | None
    """What is wrong with the first agent that diverged; None if none has."""


def snapshots(
    problem: Problem,
    network: Network,
    sampler: Sampler,
    positions: jax.Array,
    seed: int,
    rounds: Sequence[int],
) -> Iterator[Snapshot]:
    """Run all chains from positions (chain, agent, dim), and yield their draws at some rounds.

    The run ends early where an agent diverges. Random numbers are those of `sample`.

    Args:
        problem: all of its sites are here.
        network: in the order of the problem's sites.
        sampler: what one agent does in a round.
        positions: where the chains start.
        seed: the seed of all noise.
        rounds: in ascending order; 0 is the start.
    """
    on_links = OnLinks.of(sampler, network)
    local = problem.agents(network, positions.dtype)
    agents = prepared(on_links, sampler.placed(local, network))
    private, shared = chain_keys(seed, len(positions), network.local)
    keys = (sampler.private_keys(private), shared)
    wiring = delivery_of(network, sampler, positions.dtype)
    carry = loop.start(on_links, agents, positions, keys)
    now, compiles = 0, True
    for k in rounds:
        if k == 0:
            draws = jax.jit(draws_of)(on_links, agents, carry.states, jnp.int32(1), keys)
            yield Snapshot(0, np.asarray(draws), 0.0, False, None, None)
            continue
        fixed = (on_links, agents, wiring, keys, LARGEST_COORDINATE)
        began = time.monotonic()
        carry, record = loop.advance(*fixed, carry, 1, int(k) - now, capacity=1)
        draws = np.asarray(record.position[0])
        seconds = time.monotonic() - began
        wrong = first_divergence(carry.divergence, network.local_names, sampler)
        text = None if wrong is None else wrong.text
        sent = None
        if record.broadcasts is not None:
            sent = float((np.asarray(record.broadcasts[0]) * network.degrees).sum(axis=1).mean())
        yield Snapshot(int(k), draws, seconds, compiles, sent, text)
        if text is not None:
            return
        now, compiles = int(k), False

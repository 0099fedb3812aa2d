"""All agents and chains at once, on one machine, under jit.

The loop over rounds runs on the device in chunks. A chunk keeps a bounded number of draws, which
move to the host before the next chunk starts, so that memory grows only with what is kept. The
numbers of draws and rounds of a chunk are arguments of the compiled loop, not part of its shape:
burn-in, sampling and the last short chunk share one compilation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

from starlings.network import Network
from starlings.problem import Agent
from starlings.rounds import Drawn, Round, chain_keys
from starlings.runtimes.grouping import Groups, each, grouped
from starlings.runtimes.recording import (
    FEW_ENTRIES,
    Record,
    Recording,
    Schedule,
    disagreement,
    no_trouble,
    raise_on_trouble,
    watch,
)
from starlings.runtimes.wiring import Wiring

CHUNK_BYTES = 64 * 2**20
CHUNK_SECONDS = 0.5
FIRST_CHUNK_ROUNDS = 8
NOTHING, AGENTS_LAST = Drawn(), Layout((0, 1))

Agents = Agent | Groups
Progress = Callable[[int, float], None]
"""Called after each chunk with the rounds done and the mean disagreement."""


class Flock(NamedTuple):
    """Everything that changes from round to round: one compiled loop's carry."""

    states: Any
    """The sampler's states, (chain, agent, ...)."""
    round: Any
    trouble: Any
    """(chain, agent), see `watch`."""


def start(sampler: Any, agents: Agents, positions: jax.Array, keys: Any) -> Flock:
    """The states of round 0 at positions (chain, agent, dim)."""

    def one_chain(positions, agent_keys, network_key):
        def one(agent, position, agent_key):
            return sampler.init(agent, position, Round(0, agent_key, network_key))

        return each(agents, one, positions, agent_keys)

    states = jax.vmap(one_chain)(positions, *keys)
    states = jax.tree.map(jnp.copy, states)  # `advance` donates them, and no buffer twice
    return Flock(states, jnp.zeros((), jnp.int32), no_trouble(positions.shape[:2]))


def one_round(
    sampler: Any,
    agents: Agents,
    wiring: Wiring,
    states: Any,
    index: Any,
    keys: Any,
    drawn: Drawn = NOTHING,
):
    """One round of every agent of every chain: (states, info)."""

    def one_chain(states, agent_keys, network_key, shared, private):
        def one(agent, state, inbox, agent_key, private):
            round = Round(index, agent_key, network_key, Drawn(shared, private))
            return sampler.step(agent, state, inbox, round)

        inboxes = wiring.deliver(jax.vmap(sampler.message)(states))
        return each(agents, one, states, inboxes, agent_keys, private)

    return _every_chain(one_chain, states, keys, drawn)


def draws_of(
    sampler: Any, agents: Agents, states: Any, upcoming: Any, keys: Any, drawn: Drawn = NOTHING
) -> jax.Array:
    """What is recorded of every agent of every chain, (chain, agent, dim)."""

    def one_chain(states, agent_keys, network_key, shared, private):
        def one(agent, state, agent_key, private):
            round = Round(upcoming, agent_key, network_key, Drawn(shared, private))
            return sampler.draw(agent, state, round)

        return each(agents, one, states, agent_keys, private)

    return _every_chain(one_chain, states, keys, drawn)


def _every_chain(one_chain: Callable[..., Any], states: Any, keys: Any, drawn: Drawn) -> Any:
    by_agent = drawn.private
    if by_agent is not None:
        by_agent = by_agent.reshape(-1, *keys[0].shape)
        few = len(by_agent) <= FEW_ENTRIES  # entry by entry: the compiler leaves the layout alone
        by_agent = jnp.stack(list(by_agent), -1) if few else jnp.moveaxis(by_agent, 0, -1)
    return jax.vmap(one_chain)(states, *keys, drawn.shared, by_agent)


def noise_ahead(sampler: Any, index: Any, keys: Any, positions: jax.Array) -> Drawn:
    """The noise of a whole round: shared, (chain, dim), and private, (dim, chain x agent).

    A loop that carries it from one round to the next draws every number once. Left to the compiler
    it would become part of what uses it, and be drawn again at every use: shared noise by every
    agent, private noise by every entry of a product. With chains and agents along the last axis
    the processor draws for several of them at once.
    """
    like, kinds = positions[0, 0], getattr(sampler, "noises", ())
    shared = jax.vmap(lambda key: Round(index, key, key).shared_noise(like))
    private = jax.vmap(lambda key: Round(index, key, key).private_noise(like), out_axes=1)
    return Drawn(
        shared(keys[1]) if "shared" in kinds else None,
        with_layout_constraint(private(keys[0].ravel()), AGENTS_LAST)
        if "private" in kinds
        else None,
    )


@partial(jax.jit, static_argnames="capacity", donate_argnames="flock")
def advance(
    sampler: Any,
    agents: Agents,
    wiring: Wiring,
    keys: Any,
    limit: Any,
    flock: Flock,
    num_draws: Any,
    thin: Any,
    capacity: int,
) -> tuple[Flock, Record]:
    """`num_draws` draws of `thin` rounds each; a record of `capacity` holds them."""

    def noise_of(index):
        return noise_ahead(sampler, index, keys, flock.states.position)

    def turn(_, carry):
        flock, worst, drawn = carry
        index = flock.round + 1
        states, info = one_round(sampler, agents, wiring, flock.states, index, keys, drawn)
        trouble = watch(flock.trouble, index, states.position, info.residual, limit)
        worst = jnp.maximum(worst, info.residual)
        return Flock(states, index, trouble), worst, noise_of(index + 1)

    def keep(i, carry):
        flock, drawn, record = carry
        start = (flock, jnp.zeros_like(record.residual[0]), drawn)
        flock, worst, drawn = jax.lax.fori_loop(0, thin, turn, start)
        position = draws_of(sampler, agents, flock.states, flock.round + 1, keys, drawn)
        kept = Record(position, disagreement(position), worst)
        return flock, drawn, jax.tree.map(lambda all_, one: all_.at[i].set(one), record, kept)

    empty = empty_record(flock.states.position, capacity)
    start = (flock, noise_of(flock.round + 1), empty)
    flock, _, record = jax.lax.fori_loop(0, num_draws, keep, start)
    return flock, record


def empty_record(position: jax.Array, capacity: int) -> Record:
    """Room for `capacity` draws of positions (chain, agent, dim)."""
    chains, agents, _ = position.shape
    shapes = (position.shape, (chains,), (chains, agents))
    return Record(*(jnp.zeros((capacity, *shape), position.dtype) for shape in shapes))


def run(
    sampler: Any,
    agents: Agent,
    network: Network,
    positions: jax.Array,
    seed: int,
    schedule: Schedule,
    progress: Progress | None = None,
    limit: float = 1e9,
) -> Recording:
    """Run a sampler from positions (chain, agent, dim); Ctrl-C ends it with the draws so far."""
    chains, size, _ = positions.shape
    keys = chain_keys(seed, chains, size)
    capacity = max(1, min(schedule.draws, CHUNK_BYTES // positions.nbytes))
    wiring, groups = Wiring.of(network, positions.dtype), grouped(agents)
    loop = partial(advance, sampler, groups, wiring, keys, limit, capacity=capacity)
    flock = start(sampler, groups, positions, keys)
    recording, pace = Recording(), Pace()
    try:
        while int(flock.round) < schedule.burn_in:
            rounds = min(pace.rounds, schedule.burn_in - int(flock.round))
            flock, record = pace.timed(rounds, loop, flock, 1, rounds)
            _check(flock, record, 1, network, sampler, progress)
        while recording.count < schedule.draws:
            wanted = max(1, pace.rounds // schedule.thin)
            count = min(wanted, capacity, schedule.draws - recording.count)
            rounds = count * schedule.thin
            flock, record = pace.timed(rounds, loop, flock, count, schedule.thin)
            recording.add(record, count)
            _check(flock, record, count, network, sampler, progress)
    except KeyboardInterrupt:
        if recording.count == 0:
            raise
    return recording


def _check(flock, record, count, network, sampler, progress):
    raise_on_trouble(flock.trouble, network.names, sampler)
    if progress is not None:
        progress(int(flock.round), float(record.disagreement[count - 1].mean()))


class Pace:
    """How many rounds make a chunk of about `CHUNK_SECONDS`, learnt as the run goes."""

    def __init__(self) -> None:
        self.rounds = FIRST_CHUNK_ROUNDS
        self.compiled = False

    def timed(self, rounds: int, loop: Callable[..., Any], *arguments: Any) -> Any:
        """Run a chunk of `rounds`, wait for it, and set the length of the next."""
        began = time.perf_counter()
        result = jax.block_until_ready(loop(*arguments))
        took = time.perf_counter() - began
        if self.compiled:
            ideal = rounds * CHUNK_SECONDS / max(took, 1e-6)
            self.rounds = int(min(max(1, ideal), 10 * self.rounds))
        self.compiled = True
        return result

"""All agents that a process holds, and all chains, at once under jit.

The loop over rounds runs on the device in chunks. A chunk keeps a bounded number of draws, which
move to the host before the next chunk starts, so that memory grows only with what is kept. The
numbers of draws and rounds of a chunk are arguments of the compiled loop, not part of its shape:
burn-in, sampling and the last short chunk share one compilation.

Inside the loop chains, if there are several, are the last axis of the states, (agent, ..., chain):
the messages of an agent in all chains are then one row, which is fetched, or sent to another
process, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

from starlings.errors import DivergenceError
from starlings.network import Network
from starlings.network.delivery import Wiring
from starlings.problem.agent import Agent
from starlings.random.addresses import Drawn, Round, chain_keys
from starlings.runtime.buckets import Groups, each, grouped
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.chunks import Pace, next_chunk
from starlings.runtime.divergence import FEW_ENTRIES, first_trouble, no_trouble, retraced, watched
from starlings.runtime.recording import Record, Recording, Schedule, mean_disagreement
from starlings.system.interrupts import DeferredInterrupt

CHUNK_BYTES, FEW_DRAWS, MOST_CHUNK_BYTES = 8 * 2**20, 8, 64 * 2**20
"""Of draws that are kept on the device, which memory has several times; large ones are few."""
LARGE_STATES = 2**20
"""Bytes of all positions above which rounds are compiled in blocks of pairs, see `repeated`."""
PAIRS = 4
NOTHING = Drawn()

Agents = Agent | Groups
Progress = Callable[[int, float], None]
"""Called after each chunk with the rounds done and the mean disagreement."""


class Flock(NamedTuple):
    """Everything that changes from round to round: one compiled loop's carry."""

    states: Any
    """The sampler's states, (chain, agent, ...)."""
    round: Any
    trouble: Any
    """(chain, agent), see `watched`."""

    def with_chains(self, source: int, destination: int) -> Flock:
        """With the axis of the chains elsewhere in the states."""
        states = jax.tree.map(lambda a: jnp.moveaxis(a, source, destination), self.states)
        return self._replace(states=states)


def prepared(sampler: Any, agents: Agent) -> Agents:
    """The agents in groups, with what is the same in all rounds computed: see `Sampler.prepare`."""
    if agents.quadratic is None:  # there is nothing to compute
        return grouped(agents)
    return _prepared(sampler, agents)


@jax.jit
def _prepared(sampler: Any, agents: Agent) -> Agent:
    with whole_products():
        return jax.vmap(sampler.prepare)(agents)


def whole_products() -> Any:
    """Products of all digits; a GPU would cut the factors of float32 to ten bits (TF32)."""
    return jax.default_matmul_precision("highest")


def start(sampler: Any, agents: Agents, positions: jax.Array, keys: Any) -> Flock:
    """The states of round 0 at positions (chain, agent, dim)."""
    states = _first_states(sampler, agents, positions, keys)
    flock = Flock(states, jnp.zeros((), jnp.int32), no_trouble(positions.shape[:2]))
    return copied(flock)  # `advance` donates it, and no buffer twice


@jax.jit
def copied(flock: Flock) -> Flock:
    """In buffers of its own."""
    return jax.tree.map(jnp.copy, flock)


@jax.jit
def _first_states(sampler: Any, agents: Agents, positions: jax.Array, keys: Any) -> Any:
    def one_chain(positions, agent_keys, network_key):
        def one(agent, position, agent_key):
            return sampler.init(agent, position, Round(0, agent_key, network_key))

        return each(agents, one, positions, agent_keys)

    return jax.vmap(one_chain)(positions, *keys)


def one_round(
    sampler: Any,
    agents: Agents,
    wiring: Wiring,
    states: Any,
    index: Any,
    keys: Any,
    drawn: Drawn = NOTHING,
    axis: int = 0,
):
    """One round of every agent of every chain: (states, info), with the chains along `axis`."""

    def one_chain(states, inboxes, agent_keys, network_key, shared, private):
        def one(agent, state, inbox, agent_key, private):
            round = Round(index, agent_key, network_key, Drawn(shared, private))
            return sampler.step(agent, state, inbox, round)

        return each(agents, one, states, inboxes, agent_keys, private)

    messages = jax.vmap(jax.vmap(sampler.message), in_axes=axis, out_axes=-1)(states)
    by_agent = messages.reshape(len(messages), -1)
    inboxes = jax.tree.map(lambda a: a.reshape(messages.shape), wiring.deliver(by_agent))
    every_chain: Any = jax.vmap(one_chain, in_axes=(axis, -1, 0, 0, -1, -1), out_axes=axis)
    shared, private = _noise_by_agent(drawn, keys)
    return every_chain(states, inboxes, *keys, shared, private)


def draws_of(
    sampler: Any,
    agents: Agents,
    states: Any,
    upcoming: Any,
    keys: Any,
    drawn: Drawn = NOTHING,
    axis: int = 0,
) -> jax.Array:
    """What is recorded of every agent of every chain, (chain, agent, dim)."""

    def one_chain(states, agent_keys, network_key, shared, private):
        def one(agent, state, agent_key, private):
            round = Round(upcoming, agent_key, network_key, Drawn(shared, private))
            return sampler.draw(agent, state, round)

        return each(agents, one, states, agent_keys, private)

    every_chain: Any = jax.vmap(one_chain, in_axes=(axis, 0, 0, -1, -1))
    shared, private = _noise_by_agent(drawn, keys)
    return every_chain(states, *keys, shared, private)


def noise_ahead(sampler: Any, index: Any, keys: Any, like: Any) -> Drawn:
    """The noise of a whole round: shared, (dim, chain), and private, (dim, agent x chain).

    A loop that carries it from one round to the next draws every number once. Left to the compiler
    it would become part of what uses it, and be drawn again at every use: shared noise by every
    agent, private noise by every entry of a product. With agents and chains along the last axis
    the processor draws for several of them at once.
    """
    kinds = sampler.noises
    shared = jax.vmap(lambda key: Round(index, key, key).shared_noise(like), out_axes=-1)
    private = jax.vmap(lambda key: Round(index, key, key).private_noise(like), out_axes=-1)
    return Drawn(
        in_order(shared(keys[1])) if "shared" in kinds else None,
        in_order(private(keys[0].T.ravel())) if "private" in kinds else None,
    )


def _noise_by_agent(drawn: Drawn, keys: Any) -> tuple[Any, Any]:
    """Shared noise, (dim, chain), and private noise as (agent, dim, chain)."""
    if drawn.private is None:
        return drawn.shared, None
    entries = drawn.private.reshape(-1, *keys[0].shape[::-1])
    few = len(entries) <= FEW_ENTRIES  # entry by entry: the compiler leaves the layout alone
    by_agent = jnp.stack(list(entries), 1) if few else jnp.moveaxis(entries, 0, 1)
    return drawn.shared, by_agent


def in_order(array: jax.Array) -> jax.Array:
    """Keep the last axis contiguous, whatever the compiler would rather do."""
    return with_layout_constraint(array, Layout(tuple(range(array.ndim))))


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
    """`num_draws` draws of `thin` rounds each; a record of `capacity` holds them.

    Trouble is looked for at the draws alone: see `trouble`.
    """
    positions = flock.states.position
    axis = 0 if len(positions) == 1 else -1  # to the compiler, moving a single chain is work
    known = known_residual(agents)

    def noise_of(index):
        return noise_ahead(sampler, index, keys, positions[0, 0])

    def turn(_, carry):
        states, index, worst, drawn = carry
        states, info = one_round(sampler, agents, wiring, states, index + 1, keys, drawn, axis)
        states = jax.tree.map(in_order, states)
        worst = jnp.maximum(worst, info.residual) if known is None else worst
        return states, index + 1, worst, noise_of(index + 2)

    def keep(i, carry):
        (states, index, trouble), drawn, record = carry
        least = jnp.broadcast_to(0.0 if known is None else known, record.residual[0].shape)
        is_large = positions.nbytes >= LARGE_STATES
        start = (states, index, jnp.moveaxis(least, 0, axis), drawn)
        states, index, worst, drawn = repeated(thin, turn, start, is_large)
        worst, now = (jnp.moveaxis(a, axis, 0) for a in (worst, states.position))
        trouble = watched(trouble, index, now, worst, limit)
        position = draws_of(sampler, agents, states, index + 1, keys, drawn, axis)
        kept = Record(position, worst)
        record = jax.tree.map(lambda all_, one: all_.at[i].set(one), record, kept)
        return Flock(states, index, trouble), drawn, record

    first = flock.with_chains(0, axis)
    start = (first, noise_of(flock.round + 1), empty_record(positions, capacity))
    with whole_products():
        flock, _, record = jax.lax.fori_loop(0, num_draws, keep, start)
    return flock.with_chains(axis, 0), record


def known_residual(agents: Agents) -> Any:
    """That of every proximal step of a run, (agent,), where `prepare` has solved them all."""
    quadratic = None if isinstance(agents, Groups) else agents.quadratic
    return None if quadratic is None or quadratic.shifted is None else quadratic.shifted.residual


def repeated(times: Any, turn: Callable[[Any, Any], Any], carry: Any, is_large: bool) -> Any:
    """A loop of `times` turns; for large states on a GPU, of blocks of some pairs of turns.

    In pairs a turn writes over the state before last and copies none: one turn at a time would read
    a neighbour's old position while the new ones are being written, so that the compiler copies
    positions and duals first. And a GPU waits for the processor only where a loop's length is not
    known beforehand: after every block. (On a processor a copy is cheaper than what the compiler
    computes twice in a pair.)
    """

    def one_by_one(carry, times=times):
        return jax.lax.fori_loop(0, times, turn, carry)

    def pair(i, carry):
        return turn(i, turn(i, carry))

    def block(_, carry):
        return jax.lax.fori_loop(0, PAIRS, pair, carry)

    def in_blocks(carry):
        carry = jax.lax.fori_loop(0, times // (2 * PAIRS), block, carry)
        return one_by_one(carry, times % (2 * PAIRS))

    if not is_large:
        return one_by_one(carry)
    return jax.lax.platform_dependent(carry, cpu=one_by_one, default=in_blocks)


def empty_record(position: jax.Array, capacity: int) -> Record:
    """Room for `capacity` draws of positions (chain, agent, dim)."""
    shapes = (position.shape, position.shape[:2])
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
    checkpoint: Checkpoint | None = None,
) -> Recording:
    """Run a sampler from positions (chain, agent, dim) of the agents that this process holds.

    Ctrl-C ends it with the draws so far. A run with a checkpoint goes on from what is there.
    """
    keys = chain_keys(seed, len(positions), network.local)
    draw_bytes = positions.nbytes // len(network.local) * network.size
    few = min(FEW_DRAWS, MOST_CHUNK_BYTES // draw_bytes)
    capacity = max(1, min(schedule.draws, max(few, CHUNK_BYTES // draw_bytes)))
    wiring = Wiring.of(network, positions.dtype)
    groups = prepared(sampler, agents)
    loop = partial(advance, sampler, groups, wiring, keys, capacity=capacity)
    flock, recording, pace = start(sampler, groups, positions, keys), Recording(), Pace()
    if checkpoint is not None:
        flock, recording = checkpoint.restored(flock)
        recording.room = capacity
    every = None if checkpoint is None else checkpoint.every
    rest = network.communicator

    def trouble_of(flock: Flock) -> str | None:
        trouble = rest.first(first_trouble(flock.trouble, network.local_names, sampler))
        return None if trouble is None else trouble.text

    def advanced(flock: Flock, rounds: int) -> Flock:
        return loop(limit, copied(flock), 1, rounds)[0]

    try:
        with DeferredInterrupt(not network.is_distributed) as interrupts:
            while recording.count < schedule.draws:
                interrupts.raise_if_pending()
                rounds = rest.broadcast(pace.rounds)  # chunks are the same at all processes
                chunk = next_chunk(schedule, int(flock.round), rounds, capacity, every)
                before = copied(flock)
                bound = limit if chunk.is_scheduled else jnp.inf
                lengths = (chunk.draws, chunk.thin)
                flock, record = pace.timed(chunk.rounds, loop, bound, flock, *lengths)
                if (text := trouble_of(flock)) is not None:
                    first = retraced(advanced, trouble_of, before, chunk.rounds)
                    raise DivergenceError(trouble_of(first) or text)
                del before
                if chunk.is_kept:
                    recording.add(record, chunk.draws)
                apart = mean_disagreement(rest, jax.device_get(record.position[chunk.draws - 1]))
                if progress is not None:
                    progress(int(flock.round), apart)
                if checkpoint is not None and chunk.is_checkpoint:
                    checkpoint.save(flock, recording)
    except KeyboardInterrupt:
        if recording.count == 0 or network.is_distributed:  # processes stop at other rounds
            raise
    return recording.cut(schedule.draws)

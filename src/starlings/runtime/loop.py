"""The loop over rounds: all local agents and all chains at once, under `jax.jit`.

The loop runs on the device in chunks. A chunk records a bounded number of draws, which move to the
host before the next chunk starts, so that memory on the device does not grow with their number. The
numbers of draws and rounds of a chunk are arguments of the compiled loop, not part of its shape:
burn-in, sampling and the last short chunk share one compilation.

    run          the chunks of a whole run: plan, advance, check, record, save
    advance      one chunk, compiled: draws, each after a number of rounds
    one_round    one round of all agents and chains (in `rounds`), which calls `Sampler.step`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import DivergenceError, PrivacyError
from starlings.network import Network
from starlings.network.delivery import Wiring
from starlings.problem.agent import Agent
from starlings.random.addresses import Drawn, chain_keys
from starlings.runtime._layout import full_precision_products, in_order, repeated
from starlings.runtime.buckets import Agents
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.chunks import Chunk, Pace, draws_per_chunk, next_chunk
from starlings.runtime.divergence import (
    Divergence,
    first_divergence,
    no_divergence,
    retraced,
    watched,
)
from starlings.runtime.masked_delivery import delivery_of
from starlings.runtime.recording import Record, Recording, Schedule, mean_disagreement
from starlings.runtime.rounds import (
    broadcasts_of,
    draws_of,
    first_states,
    noise_ahead,
    one_round,
    prepared,
)
from starlings.runtime.unreliable import OnLinks
from starlings.samplers import Sampler
from starlings.system.interrupts import DeferredInterrupt

LARGE_STATES = 2**20
"""Bytes of all positions above which a GPU runs rounds in blocks of pairs; see `repeated`."""

Progress = Callable[[int, float | None], None]
"""Called after each chunk with the rounds done and the mean disagreement of the agents;
None if messages are masked between processes."""
Watch = Callable[[np.ndarray, float | None], None]
"""Called after each chunk with the last positions (chain, agent, dim) of the local agents, and the
same disagreement."""


class Carry(NamedTuple):
    """Everything that changes from round to round: the carry of the compiled loop."""

    states: Any
    """The sampler's states, (chain, agent, ...)."""
    round: Any
    """The number of rounds done."""
    divergence: Any
    """When and why each agent diverged, (chain, agent); see `watched`."""

    def with_chains(self, source: int, destination: int) -> Carry:
        """The carry with the states' axis of the chains moved."""
        states = jax.tree.map(lambda a: jnp.moveaxis(a, source, destination), self.states)
        return self._replace(states=states)


def start(sampler: Sampler, agents: Agents, positions: jax.Array, keys: Any) -> Carry:
    """The carry of round 0 at positions (chain, agent, dim)."""
    states = first_states(sampler, agents, positions, keys)
    carry = Carry(states, jnp.zeros((), jnp.int32), no_divergence(positions.shape[:2]))
    return copied(carry)  # `advance` takes its buffers over, which must not be shared


@jax.jit
def copied(carry: Carry) -> Carry:
    """The carry in buffers of its own."""
    return jax.tree.map(jnp.copy, carry)


@partial(jax.jit, static_argnames="capacity", donate_argnames="carry")
def advance(
    sampler: Sampler,
    agents: Agents,
    wiring: Wiring,
    keys: Any,
    limit: Any,
    carry: Carry,
    num_draws: Any,
    thin: Any,
    capacity: int,
) -> tuple[Carry, Record]:
    """The carry after `num_draws` draws of `thin` rounds each, and a record of `capacity` draws.

    Divergence is looked for at the draws only: see `divergence`.
    """
    positions = carry.states.position
    axis = 0 if len(positions) == 1 else -1  # to the compiler, moving a single chain is work
    rounds = _Rounds(sampler, agents, wiring, keys, positions, axis)

    def one_draw(i, state):
        carry, drawn, record = state
        carry, drawn, worst = rounds.after(thin, carry, drawn, limit)
        position = draws_of(sampler, agents, carry.states, carry.round + 1, keys, drawn, axis)
        new = Record(position, worst, broadcasts_of(sampler, carry.states, axis))
        record = jax.tree.map(lambda draws, draw: draws.at[i].set(draw), record, new)
        return carry, drawn, record

    first = (
        carry.with_chains(0, axis),
        rounds.noise(carry.round + 1),
        empty_record(sampler, carry.states, capacity),
    )
    with full_precision_products():
        carry, _, record = jax.lax.fori_loop(0, num_draws, one_draw, first)
    return carry.with_chains(axis, 0), record


@dataclass(frozen=True)
class _Rounds:
    """Rounds of all agents and chains, while `advance` is being compiled."""

    sampler: Sampler
    agents: Agents
    wiring: Wiring
    keys: Any
    positions: jax.Array
    """Positions (chain, agent, dim), for their shape and type."""
    axis: int
    """The axis of the chains in states."""

    def noise(self, index: Any) -> Drawn:
        """The noise of round `index`."""
        return noise_ahead(self.sampler, index, self.keys, self.positions[0, 0])

    def after(
        self, thin: Any, carry: Carry, drawn: Drawn, limit: Any
    ) -> tuple[Carry, Drawn, jax.Array]:
        """The carry and noise after `thin` rounds, and each agent's largest residual in them."""
        is_large = self.positions.nbytes >= LARGE_STATES
        residuals = jnp.moveaxis(self._first_residuals(), 0, self.axis)
        before = (carry.states, carry.round, residuals, drawn)
        states, index, worst, drawn = repeated(thin, self._turn, before, is_large)
        worst, now = (jnp.moveaxis(a, self.axis, 0) for a in (worst, states.position))
        divergence = watched(carry.divergence, index, now, worst, limit)
        return Carry(states, index, divergence), drawn, worst

    def _turn(self, _: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """One round, with the noise that the one before has drawn."""
        states, index, worst, drawn = before
        fixed = (self.sampler, self.agents, self.wiring)
        states, info = one_round(*fixed, states, index + 1, self.keys, drawn, self.axis)
        states = jax.tree.map(in_order, states)
        if self.agents.known_residual is None:
            worst = jnp.maximum(worst, info.residual)
        return states, index + 1, worst, self.noise(index + 2)

    def _first_residuals(self) -> jax.Array:
        """The residuals (chain, agent) that are known before a round: zero if none are."""
        known = self.agents.known_residual
        least = jnp.asarray(0.0 if known is None else known, self.positions.dtype)
        return jnp.broadcast_to(least, self.positions.shape[:2])


def empty_record(sampler: Sampler, states: Any, capacity: int) -> Record:
    """A record with room for `capacity` draws from states (chain, agent, ...)."""
    position = states.position
    counts = jax.eval_shape(partial(broadcasts_of, sampler), states)
    like = Record(position, jax.ShapeDtypeStruct(position.shape[:2], position.dtype), counts)
    return jax.tree.map(lambda column: jnp.zeros((capacity, *column.shape), column.dtype), like)


def run(
    sampler: Sampler,
    agents: Agent,
    network: Network,
    positions: jax.Array,
    seed: int,
    schedule: Schedule,
    progress: Progress | None = None,
    limit: float = 1e9,
    checkpoint: Checkpoint | None = None,
    watch: Watch | None = None,
) -> Recording:
    """Run a sampler from positions (chain, agent, dim) of the local agents.

    Ctrl-C ends a run with the draws so far. A run with a checkpoint continues from what is there.

    Args:
        sampler: what one agent does in a round.
        agents: the local agents, stacked.
        network: who talks to whom, and which agents are local.
        positions: where the chains start.
        seed: the seed of all noise.
        schedule: how many rounds there are, and which of them make draws.
        progress: called after each chunk.
        limit: the absolute value of a coordinate above which an agent has diverged.
        checkpoint: where the run is saved.
        watch: called after each chunk, too.
    """
    process = _Process.of(sampler, agents, network, positions, seed, schedule, limit)
    carry, recording = process.begun(positions, checkpoint)
    pace, every = Pace(), None if checkpoint is None else checkpoint.every
    try:
        with DeferredInterrupt(not network.is_distributed) as interrupts:
            while recording.count < schedule.draws:
                interrupts.raise_if_pending()
                rounds = network.communicator.broadcast(pace.rounds)  # the same in all processes
                chunk = next_chunk(schedule, int(carry.round), rounds, process.capacity, every)
                carry, record = process.after(chunk, carry, pace)
                if chunk.is_recorded:
                    recording.add(record, chunk.draws)
                process.report(progress, watch, carry, record, chunk)
                if checkpoint is not None and chunk.is_checkpoint:
                    checkpoint.save(carry, recording)
    except KeyboardInterrupt:
        if recording.count == 0 or network.is_distributed:  # processes stop at different rounds
            raise
    return recording.cut(schedule.draws)


@dataclass(frozen=True)
class _Process:
    """What stays the same in all chunks of a run, in this process."""

    sampler: Sampler
    on_links: Sampler
    """The sampler as it runs on this network, see `OnLinks`."""
    agents: Agents
    network: Network
    wiring: Wiring
    keys: Any
    limit: float
    capacity: int
    """The largest number of draws in a chunk."""

    @classmethod
    def of(
        cls,
        sampler: Sampler,
        agents: Agent,
        network: Network,
        positions: jax.Array,
        seed: int,
        schedule: Schedule,
        limit: float,
    ) -> _Process:
        """Prepare the local agents, their links and their noise."""
        draw_bytes = positions.nbytes // len(network.local) * network.size
        private, shared = chain_keys(seed, len(positions), network.local)
        on_links = OnLinks.of(sampler, network)
        return cls(
            sampler=sampler,
            on_links=on_links,
            agents=prepared(on_links, sampler.placed(agents, network)),
            network=network,
            wiring=delivery_of(network, sampler, positions.dtype),
            keys=(sampler.private_keys(private), shared),
            limit=limit,
            capacity=draws_per_chunk(schedule.draws, draw_bytes),
        )

    def begun(self, positions: jax.Array, checkpoint: Checkpoint | None) -> tuple[Carry, Recording]:
        """The beginning of a run, or what its checkpoint has."""
        carry = start(self.on_links, self.agents, positions, self.keys)
        if checkpoint is None:
            return carry, Recording()
        carry, recording = checkpoint.restored(carry)
        if self.sampler.is_private and int(carry.round) > 0:
            raise PrivacyError(
                f"a run of {self.sampler.card.title} cannot be resumed: rounds after its last "
                "checkpoint would be made twice, and cost privacy that nobody has counted. Start "
                "anew in another folder; the epsilon of this run and that of the new one add up."
            )
        recording.room = self.capacity
        return carry, recording

    def after(self, chunk: Chunk, carry: Carry, pace: Pace) -> tuple[Carry, Record]:
        """The carry after a chunk, and its draws; a `DivergenceError` if an agent diverged."""
        before, limit = copied(carry), self.limit if chunk.is_scheduled else jnp.inf
        advanced = partial(self._advanced, limit, carry, chunk.draws, chunk.thin)
        carry, record = pace.timed(chunk.rounds, advanced)
        if (text := self._divergence(carry)) is not None:
            if self.sampler.is_private:  # no round may be made again
                raise DivergenceError(text)
            first = retraced(self._rounds_later, self._divergence, before, chunk.rounds)
            raise DivergenceError(self._divergence(first) or text)
        return carry, record

    def report(
        self,
        progress: Progress | None,
        watch: Watch | None,
        carry: Carry,
        record: Record,
        chunk: Chunk,
    ) -> None:
        """Report the rounds done and the disagreement, which all processes compute together.

        Where messages are masked, no process shows its positions to others for a report.
        """
        disagreement, last = None, jax.device_get(record.position[chunk.draws - 1])
        if self.network.secrecy is None or not self.network.is_distributed:
            shared = last[..., : last.shape[-1] - self.agents.num_local]
            disagreement = mean_disagreement(self.network.communicator, shared)
        if watch is not None:
            watch(last, disagreement)
        if progress is not None:
            progress(int(carry.round), disagreement)

    def _advanced(self, limit: Any, carry: Carry, draws: int, thin: int) -> tuple[Carry, Record]:
        fixed = (self.on_links, self.agents, self.wiring, self.keys)
        return advance(*fixed, limit, carry, draws, thin, capacity=self.capacity)

    def _rounds_later(self, carry: Carry, rounds: int) -> Carry:
        """The carry some rounds later; the one that is given stays usable."""
        return self._advanced(self.limit, copied(carry), 1, rounds)[0]

    def _divergence(self, carry: Carry) -> str | None:
        """What is wrong with the first agent of any process that diverged; None if none has."""
        own = first_divergence(carry.divergence, self.network.local_names, self.sampler)
        first = self.network.communicator.first(own)
        return None if first is None else Divergence(*first).text  # between sites it is a tuple

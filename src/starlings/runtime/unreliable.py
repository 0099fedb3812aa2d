"""Delivery neighbour by neighbour, on networks where messages are lost, late or not sent.

A sampler with `reads_each` sees each neighbour's message by itself, and whether it arrived. The
agents have `slots` for messages, as many as the largest number of neighbours; slot k of agent i is
for its k-th neighbour j, and `back` is the slot that i has at j. In round k agent i gets

    each_i[k] = message_j[back]  of the state after round  k - 1 - tau_ij                     (1)

if it arrives (see `network.faults`). A sleeping agent keeps its state. For late messages every
agent keeps those that it sent in the last rounds, so that they are part of what a checkpoint saves.

Whether a message is lost, and whether an agent sleeps, is drawn from the seed of the faults:

    lost      uniform(fold_in(fold_in(fold_in(root, chain), round), 0)) < p_ij                (2)
    asleep    uniform(fold_in(fold_in(fold_in(root, chain), round), 1)) < s_i                 (3)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import LossyLinksError
from starlings.network import Inbox, Network
from starlings.network.delivery import Wiring
from starlings.problem.agent import Agent
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers import Info, Sampler


def check_links(network: Network, sampler: Any = None) -> None:
    """Refuse what waits for every message where messages are lost, and the reverse.

    Args:
        network: the network.
        sampler: a sampler, or a class of samplers; None for what is not a sampler.
    """
    goes_on = sampler is not None and sampler.reads_each
    if network.faults is not None and not goes_on:
        what = "this method" if sampler is None else sampler.card.title
        raise LossyLinksError(
            f"{what} waits for every message, and this network loses some: without one of them its "
            "draws would be wrong. Take the sampler `AsyncDADMMS`, or a network without `lossy`, "
            "on which lost messages are sent again."
        )
    if goes_on and network.is_distributed:
        raise LossyLinksError(
            f"{sampler.card.title} sends each neighbour a message of its own, which only the "
            "runtime of one process delivers so far. Run it in one process, or take `DADMMS`, for "
            "which lost messages are sent again."
        )


class Posted(NamedTuple):
    """The state of an agent, and the messages that may still be on their way."""

    state: Any
    """The sampler's state."""
    sent: Any
    """What it sent in the last rounds, (rounds, slots or 1, floats), the newest first; None where
    nothing is late."""
    rounds_awake: Any = None
    """The number of rounds in which it was awake, and sent something; None where nobody sleeps."""

    @property
    def position(self) -> Any:
        """The position in the sampler's state."""
        return self.state.position


class Delivered(NamedTuple):
    """What the wiring brings to an agent."""

    inbox: Inbox
    is_awake: Any
    """Whether the agent makes this round; None where nobody sleeps."""


@pytree
@dataclass(frozen=True)
class OnLinks(Sampler):
    """A sampler with `reads_each` on a network, which may have faults."""

    sampler: Any
    slots: int = choice()
    """The largest number of neighbours."""
    longest: int = choice()
    """The largest delay."""
    some_asleep: bool = choice()
    """Whether any agent sleeps."""

    @classmethod
    def of(cls, sampler: Sampler, network: Network) -> Sampler:
        """The sampler as the loop runs it: itself, if it reads sums, mixes or maxima."""
        if not sampler.reads_each:
            return sampler
        check_links(network, sampler)
        slots, faults = int(network.degrees.max()), network.faults
        if faults is None:
            return cls(sampler, slots, 0, False)
        return cls(sampler, slots, faults.longest_delay, bool(np.max(faults.asleep) > 0))

    @property
    def noises(self) -> tuple[str, ...]:
        """Those of the sampler."""
        return self.sampler.noises

    def prepare(self, agent: Agent) -> Agent:
        """What the sampler prepares."""
        return self.sampler.prepare(self._with_slots(agent))

    def init(self, agent: Agent, position: jax.Array, round: Round) -> Posted:
        """The sampler's state, and nothing on its way."""
        state = self.sampler.init(self._with_slots(agent), position, round)
        awake = jnp.zeros((), jnp.int32) if self.some_asleep else None
        if not self.longest:
            return Posted(state, None, awake)
        now = self._message_now(state)
        return Posted(state, jnp.zeros((self.longest, *now.shape), now.dtype), awake)

    def message(self, posted: Posted) -> jax.Array:
        """The messages of this round and of the last ones, (round, slots or 1, floats)."""
        now = self._message_now(posted.state)[None]
        return now if posted.sent is None else jnp.concatenate([now, posted.sent])

    def step(
        self, agent: Agent, posted: Posted, delivered: Any, round: Round
    ) -> tuple[Posted, Info]:
        """A round of the sampler, if the agent is awake."""
        inbox, is_awake = delivered
        state, info = self.sampler.step(self._with_slots(agent), posted.state, inbox, round)
        rounds_awake = posted.rounds_awake
        if is_awake is not None:
            both = (state, posted.state)
            state = jax.tree.map(lambda new, old: jnp.where(is_awake, new, old), *both)
            rounds_awake = rounds_awake + is_awake
        sent = None if posted.sent is None else self.message(posted)[:-1]
        return Posted(state, sent, rounds_awake), info

    def draw(self, agent: Agent, posted: Posted, upcoming: Round) -> jax.Array:
        """What the sampler records."""
        return self.sampler.draw(self._with_slots(agent), posted.state, upcoming)

    def broadcasts(self, posted: Posted) -> jax.Array | None:
        """What the sampler has counted, or else the rounds in which the agent was awake."""
        counted = self.sampler.broadcasts(posted.state)
        return posted.rounds_awake if counted is None else counted

    def _message_now(self, state: Any) -> jax.Array:
        """The message of a state, with an axis of slots, of length 1 if it is for all."""
        return jnp.atleast_2d(self.sampler.message(state))

    def _with_slots(self, agent: Agent) -> Agent:
        return replace(agent, slots=self.slots)


@pytree
@dataclass(frozen=True)
class LinkFaults:
    """The faults of the links to every agent, as the device needs them; see `network.faults`."""

    loss: Any
    """p_ij, (agent, slot, 1)."""
    delay: Any
    """tau_ij, (agent, slot)."""
    asleep: Any
    """s_i, (agent, 1)."""
    root: Any
    """The key of eqs. (2) and (3)."""
    longest: int = choice()
    """The largest delay."""
    some_lost: bool = choice()
    """Whether any message is lost."""
    some_asleep: bool = choice()
    """Whether any agent sleeps."""

    def lost(self, index: Any, chains: int) -> jax.Array:
        """Whether messages are lost, (agent, slot, chain), eq. (2)."""
        return self._drawn(index, chains, 0, self.loss.shape[:2]) < self.loss

    def awake(self, index: Any, chains: int) -> jax.Array:
        """Whether agents are awake, (agent, chain), eq. (3)."""
        return self._drawn(index, chains, 1, self.asleep.shape[:1]) >= self.asleep

    def _drawn(self, index: Any, chains: int, kind: int, shape: tuple[int, ...]) -> jax.Array:
        """Uniform numbers with the chains on the last axis, the same in any precision."""

        def one(chain: Any) -> jax.Array:
            key = jax.random.fold_in(jax.random.fold_in(self.root, chain), index)
            return jax.random.uniform(jax.random.fold_in(key, kind), shape, jnp.float32)

        return jax.vmap(one, out_axes=-1)(jnp.arange(chains))


@pytree
@dataclass(frozen=True)
class LinkByLink(Wiring):
    """Delivery by slots, eq. (1)."""

    senders: Any
    """The neighbour in each slot, (agent, slot); the agent itself if there is none."""
    back: Any
    """The slot of the agent at that neighbour, (agent, slot)."""
    exists: Any
    """Whether there is a neighbour, (agent, slot, 1)."""
    faults: LinkFaults | None
    """None where every message arrives in its round."""

    @classmethod
    def over(cls, network: Network) -> LinkByLink:
        """The slots of a network, all of whose agents are local."""
        degrees, adjacency = network.degrees, network.adjacency
        shape = (network.size, int(degrees.max()))
        receivers, neighbours = np.repeat(np.arange(network.size), degrees), adjacency.indices
        slots = np.arange(len(receivers)) - np.repeat(adjacency.indptr[:-1], degrees)

        def by_slot(values: np.ndarray, filler: Any) -> np.ndarray:
            table = np.broadcast_to(filler, shape).copy()
            table[receivers, slots] = values
            return table

        back = np.empty_like(slots)
        back[np.lexsort((receivers, neighbours))] = slots  # links in the order of their senders
        return cls(
            senders=jnp.asarray(by_slot(neighbours, np.arange(network.size)[:, None]), jnp.int32),
            back=jnp.asarray(by_slot(back, 0), jnp.int32),
            exists=jnp.asarray(by_slot(np.ones(len(slots), bool), False)[:, :, None]),
            faults=_faults_of(network, receivers, neighbours, by_slot),
        )

    def inboxes(self, messages: jax.Array, index: Any) -> Delivered:
        """What every agent gets in round `index`, from messages (agent, round, slot, float, chain).

        Rounds are counted back from this one, and messages for all have a single slot.
        """
        chains, faults = messages.shape[-1], self.faults
        back = self.back if messages.shape[2] > 1 else 0
        delay = 0 if faults is None else faults.delay
        each = messages[self.senders, delay, back]  # (1)
        arrived = jnp.broadcast_to(self.exists, (*self.exists.shape[:2], chains))
        if faults is None:
            is_awake = None
        else:
            came, is_awake = self._came(faults, index, chains)
            arrived = jax.lax.optimization_barrier(arrived & came)  # drawn once, whatever uses it
        each = jnp.where(arrived[:, :, None], each, 0)
        return Delivered(Inbox(None, None, None, each, arrived), is_awake)

    def _came(self, faults: LinkFaults, index: Any, chains: int) -> tuple[jax.Array, Any]:
        """Whether messages come in this round, (agent, slot, chain), and who is awake."""
        came = jnp.broadcast_to(faults.delay[:, :, None] < index, (*faults.delay.shape, chains))
        if faults.some_lost:
            came &= ~faults.lost(index, chains)
        if not faults.some_asleep:
            return came, None
        rounds = index - jnp.arange(faults.longest + 1)
        awake = jax.vmap(lambda each: faults.awake(each, chains))(rounds)
        came &= awake[0][:, None] & awake[faults.delay, self.senders]
        return came, awake[0]


def _faults_of(
    network: Network,
    receivers: np.ndarray,
    senders: np.ndarray,
    by_slot: Callable[[np.ndarray, Any], np.ndarray],
) -> LinkFaults | None:
    """The faults of a network's links, in their slots; None if it has none."""
    faults = network.faults
    if faults is None:
        return None
    loss, delay = faults.of_links(receivers, senders)
    asleep = np.broadcast_to(faults.asleep, network.size)
    return LinkFaults(
        loss=jnp.asarray(by_slot(loss, 0.0)[:, :, None], jnp.float32),
        delay=jnp.asarray(by_slot(delay, 0), jnp.int32),
        asleep=jnp.asarray(asleep[:, None], jnp.float32),
        root=jax.random.key(faults.seed, impl="threefry2x32"),
        longest=faults.longest_delay,
        some_lost=bool(loss.max(initial=0) > 0),
        some_asleep=bool(asleep.max() > 0),
    )

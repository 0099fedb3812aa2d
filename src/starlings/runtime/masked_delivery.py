"""Delivery of masked messages: an agent learns the sum of its neighbours' messages, and no more.

Masks are made by Python functions, outside of compiled code, once in every round. What the messages
are is in `neighbourhoods`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import PrivacyError
from starlings.network import Inbox, Network
from starlings.network.communicator import Communicator
from starlings.network.delivery import Wiring
from starlings.network.opening import count_sum
from starlings.privacy.fixed_point import LIMBS, settled
from starlings.pytrees import pytree
from starlings.runtime.callback import call_on_host
from starlings.runtime.maskable import check_maskable
from starlings.runtime.neighbourhoods import Neighbourhoods, Slots, words_of
from starlings.runtime.unreliable import LinkByLink


def delivery_of(network: Network, sampler: Any, dtype: Any) -> Wiring:
    """How the messages of a sampler reach its neighbours: masked if the network is."""
    if network.secrecy is None:
        return LinkByLink.over(network) if sampler.reads_each else Wiring.of(network, dtype)
    check_maskable(network, sampler)
    neighbourhoods = Neighbourhoods.of(network, sampler.card.masked_as)
    count_sum(network, network.size)  # of `Slots`, by which every process knows who holds whom
    if not network.is_distributed:
        return MaskedDelivery.to(neighbourhoods)
    return DistributedMaskedDelivery(neighbourhoods, Slots.of(network), network.communicator)


@pytree
@dataclass(frozen=True)
class SumOnly:
    """The inbox of a sampler that reads the sum of its neighbours' messages, and no more."""

    sum: Any

    @property
    def mix(self) -> Any:
        """Refused: it is not there."""
        raise _not_declared("mix", "sum")

    @property
    def max(self) -> Any:
        """Refused: it is not there."""
        raise _not_declared("max", "sum")


@pytree
@dataclass(frozen=True)
class MixOnly:
    """The inbox of a sampler that reads the mix of its neighbours' messages, and no more."""

    mix: Any

    @property
    def sum(self) -> Any:
        """Refused: it is not there."""
        raise _not_declared("sum", "mix")

    @property
    def max(self) -> Any:
        """Refused: it is not there."""
        raise _not_declared("max", "mix")


def _not_declared(read: str, declared: str) -> PrivacyError:
    """The error of a sampler that reads what its card does not say."""
    return PrivacyError(
        f"the sampler reads `inbox.{read}`, and its card says `masked_as={declared!r}`: nothing "
        "else is in a masked inbox. Correct the card, with None if it reads more than one."
    )


def _inbox(reads: str, totals: jax.Array) -> Any:
    """The inbox of every agent with what is read, "sum" or "mix"."""
    return SumOnly(totals) if reads == "sum" else MixOnly(totals)


class Kept:
    """What a delivery needs to stay in memory; for compiled code all of them are alike."""

    def __init__(self, neighbourhoods: Neighbourhoods) -> None:
        self.neighbourhoods = neighbourhoods

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept)

    def __hash__(self) -> int:
        return hash(Kept)


_in_use: WeakValueDictionary[int, Neighbourhoods] = WeakValueDictionary()
"""The neighbourhoods of runs by number: compiled code has the number, not the masks."""
_numbers = itertools.count()


@pytree
@dataclass(frozen=True)
class MaskedDelivery(Wiring):
    """Delivery where all agents are local; the compiled program serves all runs of its shape."""

    number: Any
    """The number of the neighbourhoods in `_in_use`."""
    reads: str = field(metadata={"static": True})
    kept: Kept = field(metadata={"static": True})

    @classmethod
    def to(cls, neighbourhoods: Neighbourhoods) -> MaskedDelivery:
        """Delivery to these neighbourhoods."""
        number = next(_numbers)
        _in_use[number] = neighbourhoods
        return cls(jnp.asarray(number, jnp.uint32), neighbourhoods.reads, Kept(neighbourhoods))

    def deliver(self, messages: jax.Array) -> Inbox:
        """The sums, or the mixes, of all agents."""
        result = jax.ShapeDtypeStruct(messages.shape, messages.dtype)
        return _inbox(self.reads, call_on_host(_totals, result, self.number, messages))


def _totals(number: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """What every agent reads, where all are local."""
    return _in_use[int(number)].totals(messages)


@pytree
@dataclass(frozen=True)
class DistributedMaskedDelivery(Wiring):
    """Delivery in one of several processes.

    Before and after the exchange with the others a Python function is called: `_sent` has what
    leaves the process, and what the local agents get from each other; `_read` adds what arrives.
    """

    neighbourhoods: Neighbourhoods = field(metadata={"static": True})
    slots: Slots = field(metadata={"static": True})
    communicator: Communicator = field(metadata={"static": True})

    def deliver(self, messages: jax.Array) -> Inbox:
        """The sums, or the mixes, of the local agents."""
        num_outgoing, words = len(self.communicator.outgoing), words_of(messages.shape[1])
        rows = num_outgoing * self.slots.width + len(messages)
        masked = call_on_host(self._sent, jax.ShapeDtypeStruct((rows, words), jnp.uint32), messages)
        crossing, kept = masked[: -len(messages)], masked[-len(messages) :]
        crossing = crossing.reshape(num_outgoing, self.slots.width * words)
        received = self._exchanged(crossing)
        result = jax.ShapeDtypeStruct(messages.shape, messages.dtype)
        totals = call_on_host(self._read, result, messages, kept, received)
        return _inbox(self.neighbourhoods.reads, totals)

    def _exchanged(self, words: jax.Array) -> jax.Array:
        """The exchange of words of 32 bits, which travel as floats, all bits as they are."""
        sent = jax.lax.bitcast_convert_type(words, jnp.float32)
        return jax.lax.bitcast_convert_type(self.communicator.exchange(sent), jnp.uint32)

    def _sent(self, messages: np.ndarray) -> np.ndarray:
        """The slots of all rows of the exchange, and then what local agents send each other."""
        words = words_of(messages.shape[1])
        crossing = np.zeros((len(self.communicator.outgoing), self.slots.width, words), np.uint32)
        kept = np.zeros((len(messages), words), np.uint32)
        for place in self.neighbourhoods.each:
            masked = self.neighbourhoods.masked(place, messages)
            if place.own is not None:
                kept[place.own] = settled(masked.sum(axis=0).reshape(-1, LIMBS)).ravel()
            else:
                for sender, part in zip(place.senders.tolist(), masked, strict=True):
                    crossing[self.slots.sent[sender, place.receiver]] = part
        return np.concatenate([crossing.reshape(-1, words), kept])

    def _read(self, messages: np.ndarray, kept: np.ndarray, received: np.ndarray) -> np.ndarray:
        """What every local agent reads, (agent, floats)."""
        totals = kept.astype(np.int64)
        arrived = received.reshape(len(received), self.slots.width, totals.shape[1])
        for total, places in zip(totals, self.slots.received, strict=True):
            for place in places:
                total += arrived[place]
        return self.neighbourhoods.opened(totals, messages)

"""Delivery of masked messages: an agent learns the sum of its neighbours' messages, and no more.

The neighbours j of an agent i send it n(w_ij x_j) plus masks between the neighbours of i, which
cancel in the sum (see `starlings.privacy.masks`); w_ij is 1 for samplers that read `inbox.sum`, and
the Metropolis weight W_ij for those that read `inbox.mix`:

    sum_i = sum_j x_j,      mix_i = W_ii x_i + sum_j W_ij x_j                               (1)

Masks are made by Python functions, outside of compiled code, once in every round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from starlings.errors import PrivacyError
from starlings.network import Inbox, Network
from starlings.network.delivery import Wiring
from starlings.network.gossip import FARTHEST
from starlings.network.secrecy import SumMasks
from starlings.pytrees import pytree
from starlings.runtime.callback import exchange_on_host

FEWEST_NEIGHBOURS = 2
"""Neighbours that every agent needs, since the sum of a single one is that one's message."""


@pytree
@dataclass(frozen=True)
class MaskedDelivery(Wiring):
    """Delivery of eq. (1)."""

    neighbourhoods: Neighbourhoods = field(metadata={"static": True})

    def deliver(self, messages: jax.Array) -> Inbox:
        """The sums, or the mixes, of all agents; what is not read is the same array."""
        totals = exchange_on_host(self.neighbourhoods.totals, messages, len(messages))
        return Inbox(sum=totals, mix=totals)


@dataclass(eq=False)
class Neighbourhoods:
    """The masks of every agent's neighbours, and the weights with which they send."""

    masks: list[SumMasks]
    """One for each agent: those of its neighbours."""
    neighbours: list[np.ndarray]
    """The numbers of each agent's neighbours."""
    weights: list[np.ndarray]
    """w_ij of the neighbours, (neighbour, 1)."""
    own_weights: np.ndarray
    """W_ii where mixes are read, and 0 where sums are."""

    @classmethod
    def of(cls, network: Network, reads: str) -> Neighbourhoods:
        """The neighbourhoods of a network whose messages are masked; `reads` is "sum" or "mix"."""
        assert network.secrecy is not None
        matrix = network.adjacency if reads == "sum" else network.mixing
        neighbours = [network.adjacency[[i]].indices for i in range(network.size)]
        names = np.array(network.names)
        masks = [
            network.secrecy.neighbourhood_masks(names[of_agent].tolist(), network.names[i])
            for i, of_agent in enumerate(neighbours)
        ]
        dense = matrix.tocsr()
        weights = [dense[[i]][:, n].toarray().reshape(-1, 1) for i, n in enumerate(neighbours)]
        own = np.zeros(network.size) if reads == "sum" else network.mixing.diagonal()
        return cls(masks, neighbours, weights, own)

    def totals(self, messages: np.ndarray) -> np.ndarray:
        """What every agent reads, (agent, floats), of messages (agent, floats).

        Positions that masks cannot hold are infinite, so that the run is stopped as diverged.
        """
        near = np.where(np.abs(messages) < FARTHEST, messages, np.inf)
        received = [
            masks.opened(masks.masked(weights * near[senders]).sum(axis=0))
            for masks, senders, weights in zip(
                self.masks, self.neighbours, self.weights, strict=True
            )
        ]
        return (np.array(received) + self.own_weights[:, None] * messages).astype(messages.dtype)


def delivery_of(network: Network, sampler: Any, dtype: Any) -> Wiring:
    """How the messages of a sampler reach its neighbours: masked if the network is."""
    if network.secrecy is None:
        return Wiring.of(network, dtype)
    check_maskable(network, sampler)
    return MaskedDelivery(Neighbourhoods.of(network, sampler.card.masked_as))


def check_maskable(network: Network, sampler: Any) -> None:
    """Refuse a sampler whose messages cannot be masked on a network that is to be masked.

    Args:
        network: the network; nothing is refused if it is not masked.
        sampler: a sampler, or a class of samplers.
    """
    if network.secrecy is None:
        return
    if sampler.card.masked_as is None:
        raise PrivacyError(
            f"{sampler.card.title} cannot be masked: it reads more of its neighbours than a sum. "
            "Take method='weights' or method='hmc', or a sampler that `starlings samplers` lists "
            "with a sum or a mix as what is read."
        )
    if network.is_distributed:
        raise PrivacyError(
            "samplers that run in rounds cannot mask their messages on several processes yet; "
            "take method='weights' or method='hmc', whose sums are masked there too."
        )
    least = int(network.degrees.argmin())
    if network.degrees[least] < FEWEST_NEIGHBOURS:
        raise PrivacyError(
            f"the agent {network.names[least]!r} has {network.degrees[least]} neighbour, whose "
            f"message it would read as it is: a masked sum needs {FEWEST_NEIGHBOURS} neighbours at "
            "every agent. Add links, or take method='weights' or method='hmc'."
        )


def is_maskable(network: Network, sampler: Any) -> bool:
    """Whether a sampler may run on a network, see `check_maskable`."""
    try:
        check_maskable(network, sampler)
    except PrivacyError:
        return False
    return True

"""Exact sums and maxima over the whole network, by messages between neighbours, before a run.

The root is the agent at the centre of the graph, and the level of an agent is its distance from
the root in edges. Every process knows the whole graph, so that nobody has to ask for these. A sum
climbs the levels to the root by the rules of `levels`, and the root's total floods back as it is,
so that all agents have the same bits:

    rounds of a sum = 2 radius,   where the radius is the number of levels below the root   (1)

Where all agents are neighbours of each other, each sends its part to all others, and everybody adds
the parts up in the same order: one round.

This hides nothing from neighbours: an agent with no neighbour farther from the root than itself
sends shares of its own value. With `masks` agents send integers that mean nothing by themselves
(see `starlings.privacy.masks`): they are added exactly, in as many rounds, and only totals can be
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import FixedPointError, PrivacyError
from starlings.network import Network
from starlings.network.delivery import Wiring
from starlings.network.hops import hops
from starlings.network.ledger import Ledger
from starlings.network.levels import sent_share, with_received
from starlings.network.secrecy import SumMasks

WIDTHS = (32, 512)
"""Numbers of columns to which arrays are padded, so that a sum is compiled a few times only."""

FARTHEST = 2.0**40
"""Size from which on a number counts as infinite where sums are masked, see `Gossip.bounded`."""
MESSAGES = "messages of the sampler"
"""What agents send their neighbours in every round of a sampler, in that account."""
NUMBERS = "numbers"
"""What numbers are called in the account of what leaves a site, where nothing else is said."""


@dataclass
class Gossip:
    """The levels of a connected network, and the sums that they make possible."""

    network: Network
    ledger: Ledger = field(default_factory=Ledger)
    masks: SumMasks | None = field(init=False)
    """What hides all but totals; None if agents send their numbers as they are."""
    was_far: bool = field(init=False, default=False)
    """Whether finite numbers of local agents were made infinite by `bounded`, in its last call."""

    def __post_init__(self) -> None:
        network = self.network
        if network.num_edges == 0 and network.size > 1:
            raise ValueError(
                "`network` must have edges, got none, and no sum over its agents can be formed: "
                "add edges that connect them."
            )
        self.masks = None if network.secrecy is None else network.secrecy.sum_masks(network)
        self.wiring = Wiring.of(network, np.float64)
        self.links = int(network.degrees.sum())
        self.is_root = network.local == network.centre
        levels = hops(network.adjacency, network.centre)
        parents = _count_parents(network, levels)
        self.level, self.parents = levels[network.local], parents[network.local]
        self.upward_links = int(parents.sum())
        self.messages_by_agent = network.degrees + (0 if network.is_complete else parents)
        """Messages that each agent of the network sends for one sum, (agent,)."""

    @property
    def rounds_per_sum(self) -> int:
        """The number of rounds that one sum takes, eq. (1)."""
        return rounds_per_sum(self.network)

    @property
    def speaker(self) -> int:
        """The position of the root among the local agents; 0 in a process that does not hold it.

        What a process computes from one agent and then floods, it computes from this one, so that
        it does not matter which process holds which agents.
        """
        return int(self.is_root.argmax())

    def count(self, rounds: int, messages: int, floats_each: int) -> None:
        """Count what is sent next, see `Ledger.add`; too many rounds are refused."""
        self.network.budget.spend(rounds)
        self.ledger.add(rounds, messages, floats_each)

    def note(self, what: str | Mapping[str, int], numbers: int) -> None:
        """Note what the numbers of a sum are: all the same, or so many of each kind."""
        for kind, count in {what: numbers}.items() if isinstance(what, str) else what.items():
            self.ledger.note(kind, count)

    def count_sum(self, numbers: int, is_masked: bool) -> None:
        """Count a sum of so many numbers that is made elsewhere, or was made before."""
        network = self.network
        if is_masked:
            self.count(self.rounds_per_sum, int(self.messages_by_agent.sum()), _words(numbers))
            return
        if not network.is_complete:
            self.count(network.radius, self.upward_links, numbers)
        self.count(network.radius, self.links, numbers)

    def sum(self, parts: Any, what: str | Mapping[str, int] = NUMBERS) -> np.ndarray:
        """The sum of `parts` (agent, ...) over the agents, as each agent knows it: (agent, ...).

        `what` says what the numbers are, for the account of what leaves a site; where they are of
        several kinds, how many of each.
        """
        flat, radius = _flat(parts), self.network.radius
        self.network.budget.require(self.rounds_per_sum)
        self.note(what, flat.shape[1])
        if self.masks is not None:
            return self._masked_sum(flat).reshape(np.shape(parts))
        if self.network.is_complete:
            self.count(radius, self.links, flat.shape[1])
            with np.errstate(invalid="ignore"):  # parts that are not finite have such a sum
                return self._at_all(flat.sum(axis=0), parts)
        self.count(radius, self.upward_links, flat.shape[1])
        total = _climb(self.wiring, self.level, self.parents, radius, _widened(flat))
        return self.flood(np.asarray(total)[:, : flat.shape[1]]).reshape(np.shape(parts))

    def bounded(self, parts: Any) -> np.ndarray:
        """Numbers for a sum, where those that masks cannot hold are infinite.

        For values at points that may be far from all that is probable. Elsewhere numbers that are
        too large are an error.
        """
        parts = np.asarray(parts)
        if self.masks is None:
            return parts
        is_near = np.abs(parts) < FARTHEST
        self.was_far = bool(np.isfinite(parts[~is_near]).any())
        return np.where(is_near, parts, np.inf)

    def refuse_far(self) -> None:
        """Raise if `bounded` made finite numbers of some site infinite, in its last call.

        For where no sum is finite; all processes call this.
        """
        if self.masks is not None and self.network.communicator.first(self.was_far or None):
            raise FixedPointError(
                f"numbers of some site are {FARTHEST:.2g} or larger, which count as infinite in a "
                "masked sum. Leave constants out of the log-likelihood and the log-prior, and give "
                "the columns other units, or standardise them."
            )

    def _masked_sum(self, flat: np.ndarray) -> np.ndarray:
        """The sum of numbers (agent, k), of which nobody learns more than the total.

        Integers are added exactly, so that it does not matter who adds what first.
        """
        assert self.masks is not None
        self.count_sum(flat.shape[1], is_masked=True)
        sent = self.masks.masked(flat).sum(axis=0)
        total = self.masks.opened(self.network.communicator.sum(sent))
        return np.tile(total, (len(flat), 1))

    def largest(self, values: Any, what: str = NUMBERS) -> np.ndarray:
        """The largest of `values` (agent, k), which are not negative; an upper bound, if masked.

        A maximum cannot be masked, and the total stands for it: between the largest and the number
        of agents times that. It is for limits, which are then kept with room to spare: a masked run
        may take a shorter step, or a larger penalty, than one without masks.
        """
        return self.max(values, what) if self.masks is None else self.sum(values, what)

    def max(self, values: Any, what: str = NUMBERS) -> np.ndarray:
        """The largest of `values` (agent, k) over the agents, entry by entry, at every agent.

        No two agents are farther from each other than a sum takes rounds.
        """
        if self.masks is not None:
            raise PrivacyError("a maximum over the agents shows the value of one of them.")
        rounds = self.rounds_per_sum
        self.ledger.note(what, values.shape[1])
        self.count(rounds, rounds * self.links, values.shape[1])
        return np.asarray(_largest(self.wiring, rounds, np.asarray(values)))

    def flood(self, values: Any) -> np.ndarray:
        """The root's value at every agent."""
        flat, radius = _flat(values), self.network.radius
        if self.network.is_complete:
            self.count(radius, self.network.size - 1, flat.shape[1])
            return self._at_all(flat[self.is_root].sum(axis=0), values)
        self.count(radius, self.links, flat.shape[1])
        flooded = _descend(self.wiring, self.level, radius, _widened(flat))
        return np.asarray(flooded)[:, : flat.shape[1]].reshape(np.shape(values))

    def _at_all(self, part: np.ndarray, like: Any) -> np.ndarray:
        """The sum of all processes' parts at every local agent, in the shape of `like`."""
        total = self.network.communicator.sum(part)
        return np.tile(total, (len(like), 1)).reshape(np.shape(like))


def _words(numbers: int) -> int:
    """What a masked sum sends: 16 bytes for each number, and for one that checks them."""
    return 2 * (numbers + 1)


def rounds_per_sum(network: Network) -> int:
    """The number of rounds that one sum over a network takes, eq. (1)."""
    return network.radius if network.is_complete else 2 * network.radius  # (1)


def _flat(values: Any) -> np.ndarray:
    """One row of numbers for each local agent."""
    return np.asarray(values).reshape(len(values), -1)


def _count_parents(network: Network, levels: np.ndarray) -> np.ndarray:
    """The number of neighbours of each agent that are one level nearer to the root."""
    agents = np.repeat(np.arange(network.size), network.degrees)
    is_parent = levels[network.adjacency.indices] < levels[agents]
    return np.bincount(agents, is_parent, minlength=network.size).astype(int)


def _widened(columns: np.ndarray) -> np.ndarray:
    """The columns, with zeros up to one of `WIDTHS`, for each of which a sum is compiled once.

    A deployment of single agents would not send these zeros, so the ledger does not count them.
    """
    width = columns.shape[1]
    wanted = next((w for w in WIDTHS if w >= width), width)
    return np.pad(columns, ((0, 0), (0, wanted - width)))


@jax.jit
def _largest(wiring: Wiring, rounds: Any, values: jax.Array) -> jax.Array:
    def receive(_, values):
        return jnp.maximum(values, wiring.deliver(values).max)

    return jax.lax.fori_loop(0, rounds, receive, values)


@jax.jit
def _climb(wiring: Wiring, level: Any, parents: Any, depth: Any, parts: jax.Array) -> jax.Array:
    level, parents = level[:, None], parents[:, None]

    def turn(step, parts):
        sending = depth - step
        sent = sent_share(parts, level, parents, sending)
        return with_received(parts, level, wiring.deliver(sent).sum, sending)

    return jax.lax.fori_loop(0, depth, turn, parts)


@jax.jit
def _descend(wiring: Wiring, level: Any, depth: Any, values: jax.Array) -> jax.Array:
    def turn(step, values):
        sent = jnp.where((level == step)[:, None], values, -jnp.inf)
        received = wiring.deliver(sent).max
        return jnp.where((level == step + 1)[:, None], received, values)

    return jax.lax.fori_loop(0, depth, turn, values)

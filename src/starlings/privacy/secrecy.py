"""What a network needs so that its agents send nothing but masked numbers: keys, and purposes.

A network with `Secrecy` (see `Network.masked`) masks all sums over the network and all sums over a
neighbourhood. Every user of sums gets masks for a purpose of its own, numbered in the order in
which all processes ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlings.network import Network
from starlings.privacy.guard_rails import GuardRails
from starlings.privacy.keys import SiteKeys, agreed_keys
from starlings.privacy.masks import Masks


@dataclass
class Secrecy:
    """The keys of the local sites, and the number of purposes so far."""

    keys: Mapping[str, SiteKeys]
    """The keys of the local sites by name."""
    fewest_neighbours: int = GuardRails.fewest_neighbours
    """Neighbours of every agent whose neighbours' messages are added for it, at least."""
    purposes: int = 0
    readers: dict[str, str | None] = field(default_factory=dict)
    """What `starlings.runtime.maskable` has found, by what samplers read; None if nobody reads."""

    @classmethod
    def agreed(cls, network: Network, rails: GuardRails | None = None) -> Secrecy:
        """New keys for this start of a run; of the limits of all processes the strictest hold."""
        rails, communicator = rails or GuardRails(), network.communicator
        keys = agreed_keys(network.names, network.local_names, communicator)
        fewest_neighbours = communicator.first(-rails.fewest_neighbours)
        assert fewest_neighbours is not None
        return cls(keys, -fewest_neighbours)

    def sum_masks(self, network: Network) -> Masks:
        """Masks for sums over the whole network."""
        return Masks.of(network.names, self.keys, self._purpose("sums over the network"))

    def neighbourhood_masks(self, members: Sequence[str], receiver: str) -> Masks:
        """Masks for the sums of what the neighbours of one site, the members, send to it."""
        keys = {site: self.keys[site] for site in members if site in self.keys}
        return Masks.of(members, keys, self._purpose(f"the neighbours of {receiver}"))

    def _purpose(self, text: str) -> str:
        self.purposes += 1
        return f"{self.purposes}: {text}"

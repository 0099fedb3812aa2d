"""What a network needs so that its agents send nothing but masked numbers: keys, and purposes.

A network with `Secrecy` (see `Network.masked`) masks all sums over the network and all sums over a
neighbourhood. Every user of sums gets masks for a purpose of its own, numbered in the order in
which all processes ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlings.network import Network
from starlings.privacy.keys import SiteKeys, agreed_keys
from starlings.privacy.masks import Masks


@dataclass
class Secrecy:
    """The keys of the local sites, and the number of purposes so far."""

    keys: Mapping[str, SiteKeys]
    """The keys of the local sites by name."""
    most_rounds: float = math.inf
    """Network rounds of one run, at most."""
    purposes: int = 0

    @classmethod
    def agreed(cls, network: Network, most_rounds: float = math.inf) -> Secrecy:
        """New keys for this start of a run."""
        keys = agreed_keys(network.names, network.local_names, network.communicator)
        return cls(keys, most_rounds)

    def sum_masks(self, network: Network) -> Masks:
        """Masks for sums over the whole network."""
        return Masks.of(network.names, self.keys, self._purpose("sums over the network"))

    def neighbourhood_masks(self, members: Sequence[str], receiver: str) -> Masks:
        """Masks for the sums of what the neighbours of one site, the members, send to it."""
        keys = {site: self.keys[site] for site in members}
        return Masks.of(members, keys, self._purpose(f"the neighbours of {receiver}"))

    def _purpose(self, text: str) -> str:
        self.purposes += 1
        return f"{self.purposes}: {text}"

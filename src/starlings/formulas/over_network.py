"""Sums over a network of sites, by which an encoding is agreed; masked if the network is.

They are counted as what is sent before the first round, see `starlings.network.opening`.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from starlings.formulas.sums import Sums
from starlings.network import Network
from starlings.network.gossip import Gossip


def sums_over(network: Network) -> Sums:
    """Sums over all sites of a network; every process that holds some of them calls this."""
    with jax.enable_x64(True):
        gossip = Gossip(network, network.opening)

    def total(numbers: np.ndarray, kinds: Mapping[str, int]) -> np.ndarray:
        with jax.enable_x64(True):
            return gossip.sum(numbers, kinds)[0]

    return Sums(total)

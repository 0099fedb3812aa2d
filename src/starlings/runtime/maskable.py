"""Which samplers may run on which networks where messages are masked."""

from __future__ import annotations

from typing import Any

from starlings.errors import PrivacyError
from starlings.network import Network


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
    fewest, least = network.secrecy.fewest_neighbours, int(network.degrees.argmin())
    if network.degrees[least] < fewest:
        raise PrivacyError(
            f"guard rail fewest_neighbours: the agent {network.names[least]!r} has "
            f"{network.degrees[least]} of the {fewest} neighbours that it needs, and their sum "
            "would say too much about each. Add links, or take method='weights' or method='hmc', "
            "whose sums are over all sites."
        )


def is_maskable(network: Network, sampler: Any) -> bool:
    """Whether a sampler may run on a network, see `check_maskable`."""
    try:
        check_maskable(network, sampler)
    except PrivacyError:
        return False
    return True

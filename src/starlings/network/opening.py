"""What all processes agree on before a run, counted like any other message.

An agreement travels along a tree of shortest paths, up to the centre and down again. With N agents,

    the smallest of values, or all of them    2 radius rounds, 2 (N - 1) messages              (1)
    a sum                                     the same; where all are neighbours of each
                                              other, one round, N (N - 1) messages             (2)

These are the rounds between sites that run a process each; in one process nothing is sent, and the
same is counted.
"""

from __future__ import annotations

from starlings.network.gossip import rounds_per_sum
from starlings.network.network import Network

KEY, LIMIT = "public key for masks", "limits of its guard rails"
"""What an agent tells of itself, in the account of what leaves a site."""
FLOAT_BYTES = 8
"""Bytes of a number, as which keys are counted too."""


def count_smallest(network: Network, floats: int = 1) -> None:
    """Count an agreement on the smallest value, or on all values, of so many numbers, eq. (1)."""
    _count(network, 2 * network.radius, 2 * (network.size - 1), floats)  # (1)


def count_sum(network: Network, floats: int) -> None:
    """Count a sum of so many numbers, eq. (2)."""
    size = network.size
    messages = size * (size - 1) if network.is_complete else 2 * (size - 1)
    _count(network, rounds_per_sum(network), messages, floats)  # (2)


def _count(network: Network, rounds: int, messages: int, floats: int) -> None:
    """Count an agreement, which spends from the budget; agents without links agree on nothing."""
    if network.num_edges == 0:
        return
    network.budget.spend(rounds)
    network.opening.add(rounds, messages, floats)

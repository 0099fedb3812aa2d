"""Which samplers may run on which networks where messages are masked, and who has to collude.

With masks an agent i reads nothing of its neighbours but one total in every round,

    t_i = sum_j M_ij x_j                                                                    (1)

with M the adjacency matrix for samplers that read `inbox.sum`, and the Metropolis weights for those
that read `inbox.mix`. Agents that pool what they know, the coalition C, have their own messages and
the t_i of all its members. They can compute the message x_k of an agent outside if and only if the
unit vector of k is a combination of the rows of M in C without the columns of C: if, with V an
orthonormal basis of these rows,

    |V' e_k| = 1                                                                            (2)

That is about one round. What follows from many rounds together depends on the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from starlings.errors import PrivacyError
from starlings.network import Network
from starlings.network.opening import count_smallest

ROUNDING = 1e-9
"""What counts as zero among singular values of eq. (2), relative to the largest, and in eq. (2)."""


def readable_by(network: Network, coalition: Sequence[int], reads: str = "sum") -> list[int]:
    """The numbers of the agents whose messages a coalition of others can compute, eq. (2).

    On a ring two agents that pool what they know read the messages of a third one; where all are
    neighbours of each other, all but one have to.

    >>> readable_by(Network.ring(10), [1]), readable_by(Network.ring(10), [1, 2])
    ([], [0, 3])
    >>> readable_by(Network.complete(5), [0, 1, 2]), readable_by(Network.complete(5), [0, 1, 2, 3])
    ([], [4])

    Args:
        network: all agents and links.
        coalition: the numbers of the agents that pool what they know.
        reads: what the sampler reads of its inbox, "sum" or "mix".
    """
    matrix = network.adjacency if reads == "sum" else network.mixing.tocsr()
    rows = matrix[np.asarray(coalition)]
    outside = np.setdiff1d(rows.indices, coalition)
    if not len(outside):
        return []
    _, sizes, basis = np.linalg.svd(rows[:, outside].toarray(), full_matrices=False)
    basis = basis[sizes > ROUNDING * sizes[0]]
    return outside[np.sum(basis**2, axis=0) > 1 - ROUNDING].tolist()  # (2)


def check_maskable(network: Network, sampler: Any) -> None:
    """Refuse a sampler whose messages cannot be masked on a network that is to be masked.

    All processes call this together.

    Args:
        network: the network; nothing is refused if it is not masked.
        sampler: a sampler, or a class of samplers.
    """
    if network.secrecy is None:
        return
    reads = sampler.card.masked_as
    if reads is None:
        raise PrivacyError(
            f"{sampler.card.title} cannot be masked: {sampler.card.not_masked}. "
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
    if reads not in network.secrecy.readers:
        found = network.communicator.first(_read_by_one(network, reads))
        count_smallest(network)
        network.secrecy.readers[reads] = found
    if (found := network.secrecy.readers[reads]) is not None:
        raise PrivacyError(
            f"{found}, from its own messages and the sums of its neighbours'. Add links, or take "
            "method='weights' or method='hmc', whose sums are over all sites."
        )


def _read_by_one(network: Network, reads: str) -> str | None:
    """Who could read whose messages alone, in words: one agent, or one process; None if nobody."""
    parties = [[agent] for agent in range(network.size)]
    if network.is_distributed:
        parties.append(network.local.tolist())
    for party in parties:
        if read := readable_by(network, party, reads):
            names = ", ".join(repr(network.names[agent]) for agent in party)
            who = f"the agent {names}" if len(party) == 1 else f"the process of the agents {names}"
            return f"{who} could compute the messages of {network.names[read[0]]!r}"
    return None


def is_maskable(network: Network, sampler: Any) -> bool:
    """Whether a sampler may run on a network, see `check_maskable`."""
    try:
        check_maskable(network, sampler)
    except PrivacyError:
        return False
    return True

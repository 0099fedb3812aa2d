"""The gradients and Hessians of a site from the beliefs that it sends.

Peer-to-peer learning sends precisions and shifts. With those of the mix, P and s, and those of the
belief that takes up data next, P' and s' = P' m', with c = N / T,

    Hess = (P' - P) / c,     grad = (s - P m') / c                                          (1)
"""

from __future__ import annotations

import numpy as np

from starlings.research.privacy.rounds import Heard, Known, Slopes
from starlings.samplers import PeerLearning


def of_beliefs(sampler: PeerLearning, heard: Heard, known: Known) -> tuple[Slopes, np.ndarray]:
    """Gradients, and Hessians (round, dim, dim), of a site that sends full beliefs, eq. (1)."""
    weight, updates = known.num_agents / sampler.updates, sampler.updates
    mixed, shift = _precisions(heard.mixed[:updates])
    own, own_shift = _precisions(heard.own[1 : updates + 1])
    points = np.linalg.solve(own, own_shift[..., None])[..., 0]
    gradients = (shift - np.einsum("rij,rj->ri", mixed, points)) / weight  # (1)
    return Slopes(points, gradients), (own - mixed) / weight  # (1)


def _precisions(messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrices and vectors of messages with an upper triangle before a vector."""
    dim = round((np.sqrt(9 + 8 * messages.shape[1]) - 3) / 2)  # dim (dim + 1) / 2 + dim numbers
    rows, columns = np.triu_indices(dim)
    matrices = np.zeros((len(messages), dim, dim))
    matrices[:, rows, columns] = matrices[:, columns, rows] = messages[:, :-dim]
    return matrices, messages[:, -dim:]

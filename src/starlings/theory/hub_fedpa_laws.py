"""The exact law of FedPA without shrinkage, which is federated averaging, and of its Laplace draws.

Site i of b has f_i(y) = y'H_i y / 2 - b_i'y and n_i rows. In T cycles it makes steps with its full
gradient from y = x, of which the first ones are dropped and the rest averaged,

    y <- (I - (alpha / n_i) H_i) y + (alpha / n_i) b_i,    m_i = average,                   (1)
    v' = beta v + mean_i (x - m_i),     x' = x - eta v'                                     (2)

and then, with t the last of these x, draws are

    x' = t + (sum_i H_i)^-1/2 w,    w ~ N(0, I)                                             (3)
"""

from __future__ import annotations

import numpy as np

from starlings.errors import NoLawError
from starlings.samplers import FedPA
from starlings.theory.hub_laws import law_of_iterates
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion


@register_law(FedPA)
def _fedpa_law(s: Stacked, sampler: FedPA) -> Law:
    """Eqs. (1) to (3), with the state (x, v, t)."""
    if sampler.batch_size is not None or sampler.shrinkage != 0:
        raise NoLawError(
            "no exact law is known for FedPA, whose directions are not linear, but where it is "
            "federated averaging: give `shrinkage` 0, and leave `batch_size` out."
        )
    dim = s.shape[1]
    T, c = _mean_of_draws(s, sampler)
    eye, nothing = np.eye(dim), np.zeros((dim, dim))
    eta, beta = float(sampler.server_step), float(sampler.momentum)
    velocity = np.hstack([eye - T, beta * eye, nothing])  # (2)
    position = np.hstack([eye, nothing, nothing]) - eta * velocity
    search = Recursion(
        np.vstack([position, velocity, position]),
        np.concatenate([eta * c, -c, eta * c]),
        np.zeros((3 * dim, dim)),
    )
    H = s.H.reshape(s.shape * 2).sum(axis=(0, 2))
    draw = Recursion(
        np.kron([[0, 0, 1], [0, 1, 0], [0, 0, 1]], eye),
        np.zeros(3 * dim),
        np.kron([[1], [0], [0]], np.linalg.cholesky(np.linalg.inv(H))),  # (3)
    )
    searching, drawing = law_of_iterates(s, search), law_of_iterates(s, draw)

    def recursion(k: int) -> Recursion:
        return (searching if k // 2 <= sampler.updates else drawing).recursion(k)

    return Law(s.shape, recursion, varies=True)


def _mean_of_draws(s: Stacked, sampler: FedPA) -> tuple[np.ndarray, np.ndarray]:
    """The matrix T and the vector c of mean_i m_i = T x + c, eq. (1)."""
    size, dim = s.shape
    blocks, linear = s.H.reshape(s.shape * 2), s.b.reshape(s.shape)
    total = np.zeros((dim, dim + 1))
    for i in np.flatnonzero(np.arange(size) != np.argmax(s.degrees)):
        pace = float(sampler.client_step) / max(s.num_rows[i], 1)
        y = np.eye(dim, dim + 1)
        for step in range(sampler.local_steps):
            y = y - pace * blocks[i, :, i] @ y  # (1)
            y[:, -1] += pace * linear[i]
            if step >= sampler.local_burn_in:
                total += y
    mean = total / ((size - 1) * sampler.samples * sampler.window)
    return mean[:, :-1], mean[:, -1]

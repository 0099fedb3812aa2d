"""The exact laws of federated averaging Langevin dynamics, where the number of steps is fixed.

From the iterate x of the hub each site c takes K steps with a factor a_c and scales s and t_c,

    y' = (I - a_c H_c) y + a_c b_c + s z + t_c z_c,                                         (1)

and with weights p_c the next iterate is the sum of all p_c y. With A_c = I - a_c H_c that is

    x' = sum_c p_c (A_c^K x + sum_k A_c^k a_c b_c)
         + sum_k (s sum_c p_c A_c^k) z^k + sum_k sum_c t_c p_c A_c^k z_c^k,  k = 0, ..., K-1  (2)

A random number of steps makes a mixture of Gaussians of (2), which is no law in this sense.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from starlings.errors import NoLawError
from starlings.samplers import FALD, FedAvgLangevin
from starlings.theory.hub_laws import law_of_iterates
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion

NOT_FIXED = (
    "no exact law is known for FALD unless averaging=1: a random number of local steps makes a "
    "mixture of Gaussians. There is one for `FedAvgLangevin`, whose number of steps is fixed."
)
OF_BATCHES = "exact laws are known for full gradients only: leave `batch_size` out."
OF_PARTICIPANTS = (
    "the noise of sites that are drawn at random depends on the iterate: leave `participants` out "
    "for an exact law."
)


class Walks(NamedTuple):
    """The numbers of eqs. (1) and (2), those of the sites in their order."""

    length: int
    """K."""
    weights: np.ndarray
    """p_c."""
    steps: np.ndarray
    """a_c."""
    shared: float
    """s."""
    private: np.ndarray
    """t_c."""


@register_law(FedAvgLangevin)
def _fedavg_law(s: Stacked, sampler: FedAvgLangevin) -> Law:
    """a_c = eta / p_c,  s = sqrt(2 eta) rho,  t_c = sqrt(2 eta (1 - rho^2) / p_c)."""
    eta, part, sites = float(sampler.step_size), float(sampler.shared_part), s.shape[0] - 1
    p = np.full(sites, 1 / sites)
    if sampler.weights is not None:
        p = np.array(sampler.weights, float)[:sites]
        p = p / p.sum()
    private = np.sqrt(2 * eta * (1 - part) / p)
    walks = Walks(sampler.local_steps, p, eta / p, np.sqrt(2 * eta * part), private)
    reason = OF_BATCHES if sampler.batch_size is not None else None
    return _law(s, walks, OF_PARTICIPANTS if sampler.participants is not None else reason)


@register_law(FALD)
def _fald_law(s: Stacked, sampler: FALD) -> Law:
    """a_c = gamma,  s = sqrt(2 gamma tau / b),  t_c = sqrt(2 gamma (1 - tau)),  p_c = 1 / b."""
    if float(sampler.averaging) < 1:
        raise NoLawError(NOT_FIXED)
    gamma, tau, sites = float(sampler.step_size), float(sampler.shared_part), s.shape[0] - 1
    ones = np.ones(sites)
    private = np.sqrt(2 * gamma * (1 - tau)) * ones
    walks = Walks(1, ones / sites, gamma * ones, np.sqrt(2 * gamma * tau / sites), private)
    return _law(s, walks, OF_BATCHES if sampler.batch_size is not None else None)


def _law(s: Stacked, walks: Walks, mean_only: str | None) -> Law:
    """Eq. (2)."""
    size, dim = s.shape
    sites = np.delete(np.arange(size), np.argmax(s.degrees))
    H = s.H.reshape(size, dim, size, dim)[sites, :, sites]
    A = np.eye(dim) - walks.steps[:, None, None] * H
    p, b = walks.weights[:, None, None], walks.steps[:, None] * s.b.reshape(s.shape)[sites]
    powers = [p * np.linalg.matrix_power(A, k) for k in range(walks.length + 1)]
    offset = sum((np.einsum("cij,cj->i", power, b) for power in powers[:-1]), np.zeros(dim))
    shared = [walks.shared * power.sum(axis=0) for power in powers[:-1]]
    private = [
        t * own for power in powers[:-1] for t, own in zip(walks.private, power, strict=True)
    ]
    step = Recursion(powers[-1].sum(axis=0), offset, np.hstack([*shared, *private]))  # (2)
    return replace(law_of_iterates(s, step), mean_only=mean_only)

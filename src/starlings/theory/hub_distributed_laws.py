"""The exact laws of Distributed SGLD and FSGLD on quadratic potentials.

The hub has the prior, with the Hessian P and the linear term r; site s has H_s and b_s, and makes
the part q_s of all steps. One of its tau_s steps is

    x' = x - eta (G_s x - e_s) + sqrt(2 eta) w                                              (1)
    G_s = P + H_s / q_s + c (sum_t H_t - H_s / q_s),   and e_s in the same way from r, b    (2)

with c = 0 for Distributed SGLD. With cyclic visits the sites take turns. With random ones the next
iterate is drawn from a mixture of S Gaussians, and only its mean follows from the mean of this one;
but with c = 1 and equal tau_s the walks (1) are the same at all sites.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from starlings.samplers import FSGLD, DistributedSGLD
from starlings.theory.hub_laws import law_of_iterates
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion

MIXTURE = (
    "no exact covariance is known with random visits, where the next iterate is drawn from a "
    'mixture of Gaussians; take `visits = "cyclic"`.'
)
"""Why the law of random visits has the mean only."""
MINIBATCHES = "no exact covariance is known with minibatches, whose noise depends on the state."
"""Why the law of minibatches has the mean only."""


@register_law(DistributedSGLD)
def _distributed_sgld_law(s: Stacked, sampler: DistributedSGLD) -> Law:
    """Eqs. (1) and (2) with c = 0."""
    return _visiting(s, sampler, 0.0)


@register_law(FSGLD)
def _fsgld_law(s: Stacked, sampler: FSGLD) -> Law:
    """Eqs. (1) and (2), after a cycle in which surrogates are exchanged."""
    return _visiting(s, sampler, float(sampler.correction))


def _visiting(s: Stacked, sampler: DistributedSGLD, correction: float) -> Law:
    """The law of visits in turn, or the mean of visits at random."""
    walks = site_walks(s, sampler, correction)
    reason = None if sampler.batch_size is None else MINIBATCHES
    are_equal = correction == 1 and np.ndim(sampler.local_steps) == 0
    if sampler.visits == "random" and not are_equal:
        transition, offset, _ = (np.mean(part, axis=0) for part in zip(*walks, strict=True))
        walks = [Recursion(transition, offset, np.zeros_like(transition))]
        reason = MIXTURE
    return law_of_iterates(s, *walks, idle=sampler.idle_cycles, mean_only=reason)


def site_walks(s: Stacked, sampler: DistributedSGLD, correction: float) -> list[Recursion]:
    """The tau_s steps of eq. (1) at every site as one recursion, from the hub and back to it."""
    size, dim = s.shape
    eta, hub = float(sampler.step_size), int(np.argmax(s.degrees))
    H, b = s.H.reshape(size, dim, size, dim), s.b.reshape(size, dim)
    hessians = H[np.arange(size), :, np.arange(size)]
    P, r = hessians[hub], b[hub]
    hessians, b = np.delete(hessians, hub, axis=0), np.delete(b, hub, axis=0)
    counts = sampler.steps_of(size - 1)
    walks = []
    for H_s, b_s, count in zip(hessians, b, counts, strict=True):
        q = count / counts.sum()
        G = P + H_s / q + correction * (hessians.sum(axis=0) - H_s / q)  # (2)
        e = r + b_s / q + correction * (b.sum(axis=0) - b_s / q)  # (2)
        walks.append(_repeated(np.eye(dim) - eta * G, eta * e, 2 * eta, int(count)))  # (1)
    return walks


def _repeated(T: np.ndarray, c: np.ndarray, variance: float, count: int) -> Recursion:
    """So many rounds x' = T x + c + noise of a variance in all directions, as one."""
    transition, offset, covariance = np.eye(len(c)), 0 * c, 0 * T
    for _ in range(count):
        transition, offset = T @ transition, T @ offset + c
        covariance = T @ covariance @ T.T + variance * np.eye(len(c))
    return Recursion(transition, offset, scipy.linalg.cholesky(covariance, lower=True))

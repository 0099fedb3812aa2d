"""The exact law of QLSD on quadratic potentials, of the mean in all settings.

With H and b the sums of all H_i and b_i, and the mode y of the form "fixed-point",

    x' = x - eta (H x - e) + sqrt(2 eta) w,     e = b, or H y                               (1)

if gradients are neither quantised nor of minibatches, and all sites take part. What quantisation,
minibatches and sets of sites add is noise of mean zero: the mean follows (1) in all settings.
"""

from __future__ import annotations

import numpy as np

from starlings.samplers import QLSD
from starlings.theory.hub_laws import law_of_iterates
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion

NOISY = (
    "no exact covariance is known for QLSD with levels, minibatches or some of the sites, whose "
    "noise depends on the state; take `levels = None`, all rows and all sites."
)
"""Why the law has the mean only."""


@register_law(QLSD)
def _qlsd_law(s: Stacked, sampler: QLSD) -> Law:
    """Eq. (1)."""
    dim, eta = s.shape[1], float(sampler.step_size)
    total = np.tile(np.eye(dim), (1, s.shape[0]))
    H = total @ s.H @ total.T
    pull = total @ s.b if sampler.mode is None else H @ np.resize(sampler.mode, dim)
    noise = np.sqrt(2 * eta) * np.eye(dim)
    step = Recursion(np.eye(dim) - eta * H, eta * pull, noise)  # (1)
    is_plain = sampler.levels is sampler.participants is sampler.batch_size is None
    return law_of_iterates(s, step, mean_only=None if is_plain else NOISY)

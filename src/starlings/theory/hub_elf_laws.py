"""The exact law of ELF without compression, which is unadjusted Langevin dynamics.

x' = (I - gamma H) x + gamma b + sqrt(2 gamma) w,     H = sum_i H_i,  b = sum_i b_i     (1)
"""

from __future__ import annotations

import numpy as np

from starlings.errors import NoLawError
from starlings.samplers import ELF
from starlings.theory.hub_laws import law_of_iterates
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion


@register_law(ELF)
def _elf_law(s: Stacked, sampler: ELF) -> Law:
    """Eq. (1)."""
    if sampler.keep is not None:
        raise NoLawError(
            "no exact law is known for compressed messages, which depend on the state in a way "
            "that is not linear; leave `keep` out for the law without compression."
        )
    gamma, dim = float(sampler.step_size), s.shape[1]
    eye, total = np.eye(dim), np.tile(np.eye(dim), (1, s.shape[0]))
    H, b = total @ s.H @ total.T, total @ s.b
    step = Recursion(eye - gamma * H, gamma * b, np.sqrt(2 * gamma) * eye)  # (1)
    return law_of_iterates(s, step)

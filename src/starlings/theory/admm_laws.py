"""The exact laws of consensus ADMM on quadratic potentials: C-ADMM, D-ADMMS, Midpoint D-ADMMS.

With the notation of `built_in_laws` and a noise n in the gradient, the state is (x, q) with duals
p = U q, since the duals sum to zero.

    (H + 2 rho D) y = rho L+ x - p + b - n,     p' = p + rho L y                           (1)
    x' = y,   or reflected   x' = 2 y - D^-1 L+ x / 2                                      (2)
"""

from __future__ import annotations

import numpy as np

from starlings.samplers import CADMM, DADMMS, AsyncDADMMS, MidpointADMMS
from starlings.theory.laws import Stacked, register_law
from starlings.theory.local_laws import coherent_noise, gradient_noise, local_admm_law
from starlings.theory.penalised import with_ridge
from starlings.theory.recursions import Law, Recursion


def _admm_law(
    s: Stacked,
    rho: float,
    noise: np.ndarray,
    readout: np.ndarray | None = None,
    reflects: bool = False,
) -> Law:
    """Eqs. (1) and (2), reflected or not.

    `noise` is a factor of the covariance of n, `readout` of that of the noise which only the
    recorded draws have.
    """
    U = s.apart
    L, D = s.lift(s.laplacian), s.lift(np.diag(s.degrees))
    solve = np.linalg.inv(s.H + 2 * rho * D)
    Lplus = 2 * D - L
    from_x, from_q = rho * solve @ Lplus, -solve @ U  # (1)
    dual = rho * U.T @ L
    bottom = np.hstack([dual @ from_x, np.eye(U.shape[1]) + dual @ from_q])
    factor = 2.0 if reflects else 1.0
    mean = s.lift(np.diag(0.5 / np.maximum(s.degrees, 1))) @ Lplus if reflects else 0.0
    top = np.hstack([factor * from_x - mean, factor * from_q])  # (2)
    offset = np.concatenate([factor * solve @ s.b, dual @ solve @ s.b])
    kick = np.vstack([-factor * solve @ noise, -dual @ solve @ noise])
    step = Recursion(np.vstack([top, bottom]), offset, kick)
    covariance = None if readout is None else readout @ readout.T
    return Law.constant(s.shape, step, readout_covariance=covariance)


@register_law(DADMMS)
def _dadmms_law(s: Stacked, sampler: DADMMS) -> Law:
    """n = sqrt(2) D w, 2 sqrt(rho D) w, or 2 sqrt(rho / sum d) D 1 w with one w for all.

    Curvature-matched noise adds H^1/2 w with a w for each agent, or H 1 w with one for all.
    The half-noise output adds e = -n / (4 rho D) with a fresh n to the recorded draws. A `Ridge`
    adds its share to H, but for the noise.
    """
    rho, d = float(sampler.rho), s.degrees
    if s.num_local:
        return local_admm_law(s, sampler)
    penalised = with_ridge(s, sampler.penalty)
    noise = gradient_noise(s, sampler.noise, rho)
    if sampler.noise == "curvature":
        values, vectors = np.linalg.eigh(s.H)
        noise = np.hstack([noise, vectors * np.sqrt(np.maximum(values, 0))])
    elif sampler.noise == "coherent-curvature":
        noise = np.hstack([noise, s.H @ s.shared_noise])
    if sampler.output != "half-noise":
        return _admm_law(penalised, rho, noise)
    return _admm_law(
        penalised, rho, noise, s.lift(np.diag(1 / (4 * rho * np.maximum(d, 1)))) @ noise
    )


@register_law(AsyncDADMMS)
def _async_dadmms_law(s: Stacked, sampler: AsyncDADMMS) -> Law:
    """Without loss: coherent noise, and output noise of variance (1 - pace / 2) / (2 rho sum d)."""
    rho, pace = float(sampler.rho), float(1.0 if sampler.pace is None else sampler.pace)
    step = 1 / (2 * rho * max(s.degrees.sum(), 1.0))
    noise = np.sqrt(pace) * coherent_noise(s, rho)
    return _admm_law(s, rho, noise, np.sqrt(step * (1 - pace / 2)) * s.shared_noise)


@register_law(MidpointADMMS)
def _midpoint_law(s: Stacked, sampler: MidpointADMMS) -> Law:
    """Coherent noise of half the variance, reflected."""
    rho = float(sampler.rho)
    return _admm_law(s, rho, coherent_noise(s, rho) / np.sqrt(2), reflects=True)


@register_law(CADMM)
def _cadmm_law(s: Stacked, sampler: CADMM) -> Law:
    """Eq. (1) without noise."""
    penalised = with_ridge(s, sampler.penalty)
    return _admm_law(penalised, float(sampler.rho), np.zeros((len(s.b), 1)))

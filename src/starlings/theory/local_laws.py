"""The exact law of D-ADMMS on quadratic potentials where agents have parameters of their own.

A stacked vector z holds (x_1, u_1), (x_2, u_2), and so on; X picks the shared parameters of all
agents from it, and V the local ones. With the other notation of `admm_laws`, with duals p = U q of
shared parameters only, noise n in these, and the step e = s^2 / (2 rho sum d) of the local ones, s
their unit, as in `starlings.samplers.local_proximal`,

    K z' = X'(rho L+ X z - U q - n) + V'(V z + sqrt(2 e) xi) / e + b,                       (1)
    K    = H + 2 rho X'D X + V'V / e,            q' = q + rho U'L X z'                      (2)

and half-noise output adds -X' n' / (4 rho D) + V' sqrt(2 e) xi' / 2, with fresh n' and xi'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from starlings.errors import NoLawError
from starlings.theory.recursions import Law, Recursion

if TYPE_CHECKING:
    from starlings.samplers import DADMMS
    from starlings.theory.laws import Stacked


def local_admm_law(s: Stacked, sampler: DADMMS) -> Law:
    """Eqs. (1) and (2) for one of the three laws of the noise."""
    if "curvature" in sampler.noise or sampler.penalty is not None:
        raise NoLawError("D-ADMMS with local parameters has no curvature noise and no penalty.")
    agents, dim = s.shape
    rho, unit = float(sampler.rho), float(sampler.local_scale)
    e = unit**2 / (2 * rho * s.degrees.sum())
    X, V = _picked(agents, dim, range(dim - s.num_local)), _picked(agents, dim, _local(s))
    shared = replace(s, shape=(agents, dim - s.num_local))
    L, D, U = shared.lift(s.laplacian), shared.lift(np.diag(s.degrees)), shared.apart
    noise = gradient_noise(shared, sampler.noise, rho)
    solve = np.linalg.inv(s.H + 2 * rho * X.T @ D @ X + V.T @ V / e)  # (2)
    from_z = solve @ (rho * X.T @ (2 * D - L) @ X + V.T @ V / e)  # (1)
    from_q, kick = -solve @ X.T @ U, solve @ np.hstack([-X.T @ noise, np.sqrt(2 / e) * V.T])  # (1)
    dual = rho * U.T @ L @ X
    step = Recursion(
        np.block([[from_z, from_q], [dual @ from_z, np.eye(U.shape[1]) + dual @ from_q]]),
        np.concatenate([solve @ s.b, dual @ solve @ s.b]),
        np.vstack([kick, dual @ kick]),
    )
    if sampler.output != "half-noise":
        return Law.constant(s.shape, step)
    halved = shared.lift(np.diag(1 / (4 * rho * np.maximum(s.degrees, 1)))) @ noise
    readout = np.hstack([X.T @ halved, np.sqrt(e / 2) * V.T])
    return Law.constant(s.shape, step, readout_covariance=readout @ readout.T)


def gradient_noise(s: Stacked, law: str, rho: float) -> np.ndarray:
    """n of `admm_laws` as a matrix that is applied to w, for one of the laws of `DADMMS.noise`.

    Of noises that are matched to the curvature it is the coherent part.
    """
    if law == "paper":
        return s.lift(np.diag(np.sqrt(2) * s.degrees))
    if law == "private":
        return s.lift(np.diag(2 * np.sqrt(rho * s.degrees)))
    return coherent_noise(s, rho)


def coherent_noise(s: Stacked, rho: float) -> np.ndarray:
    """n = 2 sqrt(rho / sum d) D 1 w as a matrix that is applied to w."""
    scale = 2 * np.sqrt(rho / max(s.degrees.sum(), 1.0))
    return s.lift(np.diag(scale * s.degrees)) @ s.shared_noise


def _local(s: Stacked) -> range:
    return range(s.shape[1] - s.num_local, s.shape[1])


def _picked(agents: int, dim: int, entries: range) -> np.ndarray:
    """The matrix that picks these entries of every agent from a stacked vector."""
    return np.kron(np.eye(agents), np.eye(dim)[list(entries)])

"""The exact law of D-ADMMS on quadratic potentials where agents have parameters of their own.

A stacked vector z holds (x_1, u_1), (x_2, u_2), and so on; X picks the shared parameters of all
agents from it, and V the local ones. With the other notation of `built_in_laws`, with duals p = U q
of shared parameters only, noise n in these, and the step h = s^2 / (2 rho sum d) of the local ones,
s their unit,

    K z' = X'(rho L+ X z - U q - n) + V'(V z + sqrt(2 h) xi) / h + b,                       (1)
    K    = H + 2 rho X'D X + V'V / h,            q' = q + rho U'L X z'                      (2)

and half-noise output adds e = -X' n' / (4 rho D) + V' sqrt(2 h) xi' / 2, with fresh n' and xi'.
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

CONNECTED = 1e-9
"""Eigenvalues of L below this share of the largest are rounding errors of zero."""


def local_admm_law(s: Stacked, sampler: DADMMS) -> Law:
    """Eqs. (1) and (2) for one of the three laws of the noise."""
    if "curvature" in sampler.noise or sampler.penalty is not None:
        raise NoLawError("D-ADMMS with local parameters has no curvature noise and no penalty.")
    agents, dim = s.shape
    rho, unit = float(sampler.rho), float(sampler.local_scale)
    h = unit**2 / (2 * rho * s.degrees.sum())
    X, V = _picked(agents, dim, range(dim - s.num_local)), _picked(agents, dim, _local(s))
    shared = replace(s, shape=(agents, dim - s.num_local))
    L, D, U = shared.lift(s.laplacian), shared.lift(np.diag(s.degrees)), shared.lift(_apart(s))
    noise = _noise(shared, sampler.noise, rho)
    solve = np.linalg.inv(s.H + 2 * rho * X.T @ D @ X + V.T @ V / h)  # (2)
    from_z = solve @ (rho * X.T @ (2 * D - L) @ X + V.T @ V / h)  # (1)
    from_q, kick = -solve @ X.T @ U, solve @ np.hstack([-X.T @ noise, np.sqrt(2 / h) * V.T])  # (1)
    dual = rho * U.T @ L @ X
    step = Recursion(
        np.block([[from_z, from_q], [dual @ from_z, np.eye(U.shape[1]) + dual @ from_q]]),
        np.concatenate([solve @ s.b, dual @ solve @ s.b]),
        np.vstack([kick, dual @ kick]),
    )
    if sampler.output != "half-noise":
        return Law.constant(s.shape, step)
    halved = shared.lift(np.diag(1 / (4 * rho * np.maximum(s.degrees, 1)))) @ noise
    readout = np.hstack([X.T @ halved, np.sqrt(h / 2) * V.T])
    return Law.constant(s.shape, step, readout_covariance=readout @ readout.T)


def _noise(shared: Stacked, law: str, rho: float) -> np.ndarray:
    """The factor that is applied to w for the noise n of eqs. (3) to (5) of `dadmms`."""
    d = shared.degrees
    if law == "paper":
        return shared.lift(np.diag(np.sqrt(2) * d))
    if law == "private":
        return shared.lift(np.diag(2 * np.sqrt(rho * d)))
    return shared.lift(np.diag(2 * np.sqrt(rho / d.sum()) * d)) @ shared.shared_noise


def _apart(s: Stacked) -> np.ndarray:
    """An orthonormal basis, on agents, of the range of L."""
    values, vectors = np.linalg.eigh(s.laplacian)
    return vectors[:, values > CONNECTED * max(1.0, values[-1])]


def _local(s: Stacked) -> range:
    return range(s.shape[1] - s.num_local, s.shape[1])


def _picked(agents: int, dim: int, entries: range) -> np.ndarray:
    """The matrix that picks these entries of every agent from a stacked vector."""
    return np.kron(np.eye(agents), np.eye(dim)[list(entries)])

"""The exact laws of samplers whose sites have copies that are tied to the hub's iterate x.

Site i of b has f_i(z) = z'H_i z / 2 - b_i'z, and the hub H_0 and b_0, which are zero unless it has
the prior. With ties of variance r and e, e' ~ N(0, I) for each site, w ~ N(0, I) at the hub,

    split Gibbs    z_i = K_i^-1 (b_i + (x + u_i) / r) + K_i^-1/2 e_i,  K_i = H_i + I / r,   (1)
                   u_i' = s (z_i - x) + sqrt(s r) e_i',                s = a / (a + r),     (2)
                   x' = K_0^-1 (b_0 + sum_i (z_i - u_i') / r) + K_0^-1/2 w,                 (3)
                                                                       K_0 = H_0 + b I / r

with r = rho^2 and a = alpha^2. Global consensus Monte Carlo is the same with a = 0 and r = lambda.
DG-LMC has ties of variance r_i at site i, which makes N steps of size g_i in each cycle, with e for
each of them,

    DG-LMC         z_i <- (I - g_i (H_i + I / r_i)) z_i + g_i (b_i + x / r_i) + sqrt(2 g_i) e, (4)
                   x' = (sum_i z_i' / r_i + sqrt(q) w) / q,            q = sum_i 1 / r_i,   (5)

and g_i = c / (N (1 / r_i + L_i)) with L_i the largest eigenvalue of H_i. Copies start where their
sites do.
"""

from __future__ import annotations

import numpy as np

from starlings.samplers import DGLMC, GlobalConsensusMC, SplitGibbs
from starlings.theory.hub_laws import law_of_iterates
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion


def _hub_and_sites(s: Stacked) -> tuple[int, list[int]]:
    """The number of the hub, and those of the sites."""
    hub = int(np.argmax(s.degrees))
    return hub, [i for i in range(s.shape[0]) if i != hub]


def _potential(s: Stacked, agent: int) -> tuple[np.ndarray, np.ndarray]:
    """H_i and b_i."""
    block = slice(agent * s.shape[1], (agent + 1) * s.shape[1])
    return s.H[block, block], s.b[block]


@register_law(SplitGibbs)
def _split_gibbs_law(s: Stacked, sampler: SplitGibbs) -> Law:
    """Eqs. (1) to (3)."""
    alpha = 0.0 if sampler.alpha is None else float(sampler.alpha)
    return _split_law(s, float(sampler.rho) ** 2, alpha**2)


@register_law(GlobalConsensusMC)
def _gcmc_law(s: Stacked, sampler: GlobalConsensusMC) -> Law:
    """Eqs. (1) and (3)."""
    return _split_law(s, float(sampler.variance), 0.0)


def _split_law(s: Stacked, r: float, a: float) -> Law:
    """Eqs. (1) to (3), with the state (x, u_1, ..., u_b) and the noise (w, e_1, e_1', ...)."""
    (hub, sites), dim = _hub_and_sites(s), s.shape[1]
    eye, size, share = np.eye(dim), len(sites), a / (a + r)
    width = (1 + size) * dim
    of_x, of_u = np.eye(width)[:dim], np.eye(width)[dim:].reshape(size, dim, width)
    draws = np.eye((1 + 2 * size) * dim).reshape(1 + 2 * size, dim, -1)
    total = Recursion(np.zeros((dim, width)), np.zeros(dim), np.zeros_like(draws[0]))
    offsets = []
    for i, site in enumerate(sites):
        H, b = _potential(s, site)
        solve = np.linalg.inv(H + eye / r)
        copy = Recursion(  # (1)
            solve @ (of_x + of_u[i]) / r, solve @ b, _root(solve) @ draws[1 + 2 * i]
        )
        T, c, B = copy
        offset = Recursion(  # (2)
            share * (T - of_x), share * c, share * B + np.sqrt(share * r) * draws[2 + 2 * i]
        )
        offsets.append(offset)
        total = Recursion(*(t + z - u for t, z, u in zip(total, copy, offset, strict=True)))
    H, b = _potential(s, hub)
    solve = np.linalg.inv(H + size * eye / r)
    T, c, B = total
    x = Recursion(
        solve @ T / r, solve @ (b + c / r), solve @ B / r + _root(solve) @ draws[0]
    )  # (3)
    step = Recursion(*(np.concatenate(parts) for parts in zip(x, *offsets, strict=True)))
    return law_of_iterates(s, step)


def _root(matrix: np.ndarray) -> np.ndarray:
    """L with L L' the matrix."""
    return np.linalg.cholesky(matrix)


@register_law(DGLMC)
def _dglmc_law(s: Stacked, sampler: DGLMC) -> Law:
    """Eqs. (4) and (5), with the state (x, z_1, ..., z_b)."""
    (_, sites), dim, steps = _hub_and_sites(s), s.shape[1], sampler.local_steps
    size = len(sites)
    given = np.ravel(np.asarray(sampler.variance, float))
    variances = np.broadcast_to(given[:1] if size == 1 else given, size)  # `has_law` has one site
    eye, width = np.eye(dim), (1 + size) * dim
    blocks = np.eye(width).reshape(1 + size, dim, width)
    draws = np.eye((1 + size * steps) * dim).reshape(1 + size * steps, dim, -1)
    moved = []
    for i, (site, r) in enumerate(zip(sites, variances, strict=True)):
        H, b = _potential(s, site)
        g = float(sampler.step_scale) / (steps * (1 / r + np.linalg.eigvalsh(H)[-1]))
        T, c, B = blocks[1 + i], np.zeros(dim), np.zeros_like(draws[0])
        shrink = eye - g * (H + eye / r)
        for k in range(steps):
            T, c = shrink @ T + g / r * blocks[0], shrink @ c + g * b  # (4)
            B = shrink @ B + np.sqrt(2 * g) * draws[1 + i * steps + k]  # (4)
        moved.append(Recursion(T, c, B))
    weights = 1 / variances
    T, c, B = (
        np.tensordot(weights, np.stack(parts), 1) / weights.sum()
        for parts in zip(*moved, strict=True)
    )
    x = Recursion(T, c, B + draws[0] / np.sqrt(weights.sum()))  # (5)
    step = Recursion(*(np.concatenate(parts) for parts in zip(x, *moved, strict=True)))
    return _from_positions(s, law_of_iterates(s, step))


def _from_positions(s: Stacked, law: Law) -> Law:
    """The law where what comes after the positions is, at the start, where the sites are."""
    (_, sites), dim = _hub_and_sites(s), s.shape[1]
    count, first = len(s.b), law.recursion(1)
    place = np.eye(len(first.offset))
    place[count:] = 0.0
    place[count:, :count] = np.kron(np.eye(s.shape[0])[sites], np.eye(dim))
    start = Recursion(first.transition @ place, first.offset, first.noise)
    return Law(law.shape, lambda k: start if k == 1 else law.recursion(k), cycle=law.cycle)

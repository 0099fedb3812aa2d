"""The exact laws of this library's samplers on quadratic potentials, registered with `laws`.

Notation: A adjacency, D = diag(degrees), L = D - A, L+ = D + A, U a basis of the range of L, W
Metropolis weights, all acting on stacked vectors (a Kronecker product with the identity of the
parameters), H = blockdiag(H_i). The laws of consensus ADMM, eqs. (1) and (2), are in `admm_laws`.

The gradient-based samplers, with u = w (private noise) or u = 1 w / sqrt(N) with one w for all
(coherent noise):

    D-SGLD     x' = (W - eta H) x + eta b + sqrt(2 eta) u                                  (3)
    D-SGHMC    v' = (1 - eta gamma) v - eta H x + eta b + sqrt(2 gamma eta) u,             (4)
               x' = W x + eta v',          v ~ N(0, I) at the start
    D-ULA      x' = (I - zeta_k L - alpha_k N H) x + alpha_k N b + sqrt(2 alpha_k N) u     (5)
    GEXTRA     x' = W x - eta (H x - b) + sqrt(2 eta) u + m,    m' = m + h (W - I) x,      (6)
               with m = U q
    DIGing     x' = W x - eta y + sqrt(2 eta) u,    y' = W y + H (x' - x),                 (7)
               with y = H x - b + U q and so U q' = (W - I) (H x - b) + W U q

Decentralised MAHMC without decisions, with tracked slopes s = g + U q of g = b - H z at the base z,
which is the first position, and then z = W^k x after k mixes of positions; l mixes of slopes:

    x' = z + e m + c W^l (g + U q),     U q' = W^l (g + U q) - g                           (9)

Gibbs over networks, with v for each agent and w for each edge, and E the incidence of agents and
edges, so that E E' = L+:

    x' = K^-1 (rho L+ x + b + sqrt(rho) E w) + K^-1/2 v,     K = H + 2 rho D                (10)

Peer-to-peer learning, with beliefs of precision P_i and mean m_i, and nothing before round 1:

    P_i' = sum_j W_ij P_j + c H_i,     P_i' m_i' = sum_j W_ij P_j m_j + c b_i,             (8)
    x_i' = m_i' + P_i'^-1/2 w,         c = N / T in the first T rounds, and then 0
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from starlings.errors import NoLawError
from starlings.samplers import (
    DSGHMC,
    DSGLD,
    DULA,
    GEXTRA,
    MAHMC,
    DIGing,
    EventDULA,
    NetworkGibbs,
    PeerLearning,
)
from starlings.samplers.langevin import LangevinSampler
from starlings.theory.laws import Stacked, register_law
from starlings.theory.recursions import Law, Recursion


@register_law(DSGLD)
def _dsgld_law(s: Stacked, sampler: DSGLD) -> Law:
    """Eq. (3)."""
    eta = float(sampler.step_size)
    kick = np.sqrt(2 * eta) * unit_noise(s, sampler)
    step = Recursion(s.lift(s.W) - eta * s.H, eta * s.b, kick)  # (3)
    return Law.constant(s.shape, step, mean_only=no_minibatches(sampler))


@register_law(DSGHMC)
def _dsghmc_law(s: Stacked, sampler: DSGHMC) -> Law:
    """Eq. (4)."""
    eta, gamma = float(sampler.step_size), float(sampler.friction)
    eye = np.eye(len(s.b))
    x_to_v, v_to_v = -eta * s.H, (1 - eta * gamma) * eye  # (4)
    transition = np.block([[s.lift(s.W) + eta * x_to_v, eta * v_to_v], [x_to_v, v_to_v]])
    offset = np.concatenate([eta**2 * s.b, eta * s.b])
    kick = np.sqrt(2 * gamma * eta) * unit_noise(s, sampler)
    step = Recursion(transition, offset, np.vstack([eta * kick, kick]))
    return Law.constant(s.shape, step, rest_covariance=eye, mean_only=no_minibatches(sampler))


@register_law(DULA)
def _dula_law(s: Stacked, sampler: DULA | EventDULA) -> Law:
    """Eq. (5), with step sizes that may change from round to round."""
    size = s.shape[0]
    L, eye, noise = s.lift(s.laplacian), np.eye(len(s.b)), unit_noise(s, sampler)

    def steps(k: int) -> list[float]:
        return [float(step) for step in sampler.steps_at(k - 1)]

    def recursion(k: int) -> Recursion:
        alpha, zeta = steps(k)
        transition = eye - zeta * L - alpha * size * s.H  # (5)
        return Recursion(transition, alpha * size * s.b, np.sqrt(2 * alpha * size) * noise)

    varies = steps(1) != steps(2)
    return Law(s.shape, recursion, varies=varies, mean_only=no_minibatches(sampler))


@register_law(EventDULA)
def _event_dula_law(s: Stacked, sampler: EventDULA) -> Law:
    """Eq. (5), which holds without a threshold, and is as stable with one of bounded size."""
    plain = _dula_law(s, sampler)
    if float(sampler.threshold) == 0:
        return plain
    reason = (
        "no exact law is known for event-triggered D-ULA with a threshold, whose silences are not "
        "linear; threshold=0 has that of D-ULA."
    )
    return replace(plain, mean_only=reason)


@register_law(GEXTRA)
def _gextra_law(s: Stacked, sampler: GEXTRA) -> Law:
    """Eq. (6)."""
    eta, h = float(sampler.step_size), float(sampler.memory)
    U, W = s.apart, s.lift(s.W)
    pull = h * U.T @ (W - np.eye(len(s.b)))
    transition = np.block([[W - eta * s.H, U], [pull, np.eye(U.shape[1])]])  # (6)
    kick = np.sqrt(2 * eta) * unit_noise(s, sampler)
    step = Recursion(transition, *_padded(eta * s.b, kick, U.shape[1]))
    return Law.constant(s.shape, step, mean_only=no_minibatches(sampler))


@register_law(DIGing)
def _diging_law(s: Stacked, sampler: DIGing) -> Law:
    """Eq. (7)."""
    eta = float(sampler.step_size)
    U, W = s.apart, s.lift(s.W)
    pull = U.T @ (W - np.eye(len(s.b)))
    transition = np.block([[W - eta * s.H, -eta * U], [pull @ s.H, U.T @ W @ U]])  # (7)
    kick = np.sqrt(2 * eta) * unit_noise(s, sampler)
    offset, kick = _padded(eta * s.b, kick, U.shape[1])
    offset[len(s.b) :] = -pull @ s.b  # (7)
    return Law.constant(
        s.shape, Recursion(transition, offset, kick), mean_only=no_minibatches(sampler)
    )


@register_law(MAHMC)
def _mahmc_law(s: Stacked, sampler: MAHMC) -> Law:
    """Eq. (9) in the round in which slopes are mixed for the last time; others change nothing."""
    if sampler.form == "published":
        raise NoLawError(
            "no exact law is known for form='published', whose decisions are not linear; there is "
            "one for 'published-unadjusted' and for 'corrected'."
        )
    count, U, drift = len(s.b), s.apart, float(sampler.drift)
    mixed = s.lift(np.linalg.matrix_power(s.W, sampler.tracking_rounds))
    spread = s.lift(np.linalg.matrix_power(s.W, sampler.consensus_rounds))
    eye = np.eye(count)
    rest = U.shape[1]
    away = U.T @ (mixed - eye)
    kick = np.vstack([float(sampler.step_size) * eye, np.zeros((rest, count))])
    offset = np.concatenate([drift * mixed @ s.b, away @ s.b])
    from_base = np.block(
        [[eye - drift * mixed @ s.H, drift * mixed @ U], [-away @ s.H, U.T @ mixed @ U]]
    )
    nothing = Recursion(np.eye(count + rest), np.zeros(count + rest), np.zeros_like(kick))

    def recursion(k: int) -> Recursion:
        if (k - 1) % sampler.cycle != sampler.tracking_rounds - 1:
            return nothing
        base = eye if k <= sampler.cycle else spread
        transition = from_base @ scipy.linalg.block_diag(base, np.eye(rest))  # (9)
        return Recursion(transition, offset, kick)

    return Law(s.shape, recursion, cycle=sampler.cycle)


@register_law(NetworkGibbs)
def _gibbs_law(s: Stacked, sampler: NetworkGibbs) -> Law:
    """Eq. (10)."""
    rho = float(sampler.rho)
    first, second = np.nonzero(np.triu(s.A))
    incidence = np.zeros((s.shape[0], len(first)))
    edges = np.arange(len(first))
    incidence[first, edges] = incidence[second, edges] = 1.0
    solve = np.linalg.inv(s.H + 2 * rho * s.lift(np.diag(s.degrees)))
    ties = np.sqrt(rho) * solve @ s.lift(incidence)
    step = Recursion(
        rho * solve @ s.lift(incidence @ incidence.T),
        solve @ s.b,
        np.hstack([ties, np.linalg.cholesky(solve)]),  # (10)
    )
    return Law.constant(s.shape, step)


@register_law(PeerLearning)
def _peer_learning_law(s: Stacked, sampler: PeerLearning) -> Law:
    """Eq. (8); mean-field beliefs keep the diagonal of P_i', with the mean m_i'."""
    if sampler.calibration != "network":
        raise NoLawError(
            "the law of peer-to-peer learning with calibration='published' depends on the prior "
            "alone, which is not known here; it is known for calibration='network'."
        )
    size, dim = s.shape
    blocks = s.H.reshape(size, dim, size, dim)[range(size), :, range(size)]
    beliefs = [(np.zeros_like(blocks), np.zeros(s.shape))]

    def next_belief(k: int) -> tuple[np.ndarray, np.ndarray]:
        c = size / sampler.updates if k <= sampler.updates else 0.0
        precisions, shifts = (np.tensordot(s.W, part, 1) for part in beliefs[-1])
        precisions, shifts = precisions + c * blocks, shifts + c * s.b.reshape(s.shape)  # (8)
        if sampler.family == "mean-field":
            means = np.linalg.solve(precisions, shifts[..., None])[..., 0]
            precisions = precisions * np.eye(dim)
            shifts = np.einsum("iab,ib->ia", precisions, means)
        return precisions, shifts

    def recursion(k: int) -> Recursion:
        while len(beliefs) <= k:
            beliefs.append(next_belief(len(beliefs)))
        precisions, shifts = beliefs[k]
        means = np.linalg.solve(precisions, shifts[..., None])[..., 0]
        roots = np.linalg.inv(np.linalg.cholesky(precisions)).swapaxes(1, 2)
        draw = scipy.linalg.block_diag(*roots)
        noise = s.private_noise if sampler.noise == "private" else s.shared_noise
        return Recursion(np.zeros_like(s.H), means.ravel(), draw @ noise)  # (8)

    return Law(s.shape, recursion, varies=True)


def _padded(offset: np.ndarray, kick: np.ndarray, rest: int) -> tuple[np.ndarray, np.ndarray]:
    """An offset and noise of the positions, with zeros for the `rest` of the state."""
    return np.pad(offset, (0, rest)), np.pad(kick, ((0, rest), (0, 0)))


def unit_noise(s: Stacked, sampler: LangevinSampler) -> np.ndarray:
    """u as a matrix that is applied to w: the average of u over the agents has variance 1/N."""
    if sampler.noise == "private":
        return s.private_noise
    return s.shared_noise / np.sqrt(s.shape[0])


def no_minibatches(sampler: LangevinSampler) -> str | None:
    """Why the law is that of the mean only; None with full gradients."""
    if sampler.batch_size is None:
        return None
    return (
        "exact laws are known for full gradients only, not for minibatches; leave `batch_size` "
        f"{sampler.batch_size} out."
    )

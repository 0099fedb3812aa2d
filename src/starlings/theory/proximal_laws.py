"""The exact laws of samplers with proximal maps on quadratic potentials, registered with `laws`.

Notation: H = blockdiag(H_i), and a penalty p |x|^2 / 2 (`Ridge`), with which all maps are linear.
Without a penalty p = 0. With any other penalty no exact law is known.

    P-ULA      x' = K^-1 (x + (delta / 2) b) + sqrt(delta) w,                               (1)
               K = I + (delta / 2) (H + p I)
    MYULA      x' = x - gamma ((H + q I) x - b) + sqrt(2 gamma) w,      q = p / (1 + s p)   (2)

    DE-PSGLD   x' = (W - eta (H + (q / N) I)) x + eta b + sqrt(2 eta) u                     (5)

where q is the curvature of the Moreau envelope. It is at most 1 / s for every penalty: with that in
place of q, (2) and (5) say which steps are stable. u is that of `built_in_laws`.

SPLA, whose state is (x_1, ..., x_N, y, last), with the matrix P_i = (I + gamma H_i)^-1:

    begin      y' = x - gamma (H_1 x - b_1) + sqrt(2 gamma) w,    last' = x                 (3)
               where H_1 and b_1 are left out if the first step is proximal
    turn of i  x_i' = last,    y' = P_i (y + gamma b_i)                                     (4)
    end        (4) for the first agent, without its P_1 if the first step is by its gradient; then
               (3) from x = y / (1 + gamma p)

A round in which the token comes to an agent again changes nothing.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from starlings.network.tours import tour
from starlings.samplers import DEPSGLD, MYULA, PULA, SPLA
from starlings.theory.built_in_laws import no_minibatches, unit_noise
from starlings.theory.laws import Stacked, register_law
from starlings.theory.penalised import envelope_curvature, precision_of
from starlings.theory.recursions import Law, Recursion


@register_law(PULA)
def _pula_law(s: Stacked, sampler: PULA) -> Law:
    """Eq. (1)."""
    half, p = float(sampler.step_size) / 2, precision_of(sampler.penalty)
    solve = np.linalg.inv(np.eye(len(s.b)) + half * (s.H + p * np.eye(len(s.b))))
    step = Recursion(solve, half * solve @ s.b, np.sqrt(2 * half) * s.private_noise)  # (1)
    return Law.constant(s.shape, step)


@register_law(MYULA)
def _myula_law(s: Stacked, sampler: MYULA) -> Law:
    """Eq. (2)."""
    gamma, eye = float(sampler.step_size), np.eye(len(s.b))
    q, reason = envelope_curvature(sampler.penalty, float(sampler.smoothing))
    kick = np.sqrt(2 * gamma) * s.private_noise
    step = Recursion(eye - gamma * (s.H + q * eye), gamma * s.b, kick)  # (2)
    return Law.constant(s.shape, step, mean_only=reason)


@register_law(DEPSGLD)
def _depsgld_law(s: Stacked, sampler: DEPSGLD) -> Law:
    """Eq. (5)."""
    eta, size = float(sampler.step_size), s.shape[0]
    q, reason = envelope_curvature(sampler.penalty, float(sampler.smoothing))
    transition = s.lift(s.W) - eta * (s.H + q / size * np.eye(len(s.b)))  # (5)
    step = Recursion(transition, eta * s.b, np.sqrt(2 * eta) * unit_noise(s, sampler))
    return Law.constant(s.shape, step, mean_only=reason or no_minibatches(sampler))


@register_law(SPLA)
def _spla_law(s: Stacked, sampler: SPLA) -> Law:
    """Eqs. (3) and (4), round by round; a tour has as many hops as it needs, or more."""
    walk = tour(scipy.sparse.csr_array(s.A))
    hops = max(sampler.hops, len(walk) - 1)
    holders = [*walk, *[walk[0]] * (hops + 1 - len(walk))]
    own = {agent: holders.index(agent, 1) for agent in range(s.shape[0])}
    own[walk[0]] = hops
    token = _Token(s, float(sampler.step_size), walk[0], sampler.first == "gradient")
    kept = 1 / (1 + token.gamma * precision_of(sampler.penalty))

    def recursion(k: int) -> Recursion:
        moment = (k - 1) % hops + 1
        agent = holders[moment]
        step = token.turn(agent) if own[agent] == moment else token.turn(None)
        if moment == hops:
            step = step.followed_by(token.begin(kept * token.y))
        return step if k > 1 else token.begin(token.position(walk[0])).followed_by(step)

    return Law(s.shape, recursion, cycle=hops)


class _Token:
    """The rounds of a token; `y`, `last` and positions are rows of the identity on the state."""

    def __init__(self, s: Stacked, gamma: float, first: int, is_gradient: bool) -> None:
        self.s, self.gamma, self.first, self.is_gradient = s, gamma, first, is_gradient
        count, dim = len(s.b), s.shape[1]
        self.eye = np.eye(count + 2 * dim)
        self.y, self.last = self.eye[count : count + dim], self.eye[count + dim :]

    def position(self, agent: int) -> np.ndarray:
        """x_i as a part of the state, (dim, state)."""
        return self.eye[self._block(agent)]

    def begin(self, x: np.ndarray) -> Recursion:
        """Eq. (3) from x, a linear map of the state, (dim, state)."""
        count, dim = len(self.s.b), self.s.shape[1]
        hessian, linear = self._potential(self.first) if self.is_gradient else (0.0, np.zeros(dim))
        T, c, B = self.eye.copy(), np.zeros(len(self.eye)), np.zeros((len(self.eye), dim))
        T[count : count + dim] = x - self.gamma * np.dot(hessian, x)  # (3)
        c[count : count + dim] = self.gamma * linear
        B[count : count + dim] = np.sqrt(2 * self.gamma) * np.eye(dim)
        T[count + dim :] = x
        return Recursion(T, c, B)

    def turn(self, agent: int | None) -> Recursion:
        """Eq. (4), or a round in which nothing changes."""
        count, dim = len(self.s.b), self.s.shape[1]
        T, c = self.eye.copy(), np.zeros(len(self.eye))
        if agent is not None:
            T[self._block(agent)] = self.last  # (4)
            if not (self.is_gradient and agent == self.first):
                hessian, linear = self._potential(agent)
                solve = np.linalg.inv(np.eye(dim) + self.gamma * hessian)
                T[count : count + dim] = solve @ self.y  # (4)
                c[count : count + dim] = self.gamma * solve @ linear
        return Recursion(T, c, np.zeros((len(self.eye), dim)))

    def _block(self, agent: int) -> slice:
        dim = self.s.shape[1]
        return slice(agent * dim, (agent + 1) * dim)

    def _potential(self, agent: int) -> tuple[np.ndarray, np.ndarray]:
        """H_i and b_i."""
        block = self._block(agent)
        return self.s.H[block, block], self.s.b[block]

"""D-ADMMS: consensus ADMM with noise in the proximal step (Tzikas et al., 2024).

With d_i neighbours, penalty rho and noise n_i, agent i solves in round k + 1

    p_i = p_i + rho (d_i x_i - sum_j x_j)            (p_i = 0 in the first round)   (1)
    x_i' = argmin_x f_i(x) + rho d_i |x|^2 - l_i'x,                                 (2)
    l_i  = rho (d_i x_i + sum_j x_j) - p_i - n_i

which is Algorithm 1 of the paper with the dual update (1) of round k moved to where its messages
are used again: one exchange a round. The laws of the noise, with w ~ N(0, I):

    paper      n_i = sqrt(2) d_i w_i                     w_i drawn by each agent    (3)
    private    n_i = 2 sqrt(rho d_i) w_i                 w_i drawn by each agent    (4)
    coherent   n_i = 2 d_i sqrt(rho / sum_j d_j) w       one w for all              (5)

Summed over the network, (1) and (2) are an implicit Euler step of Langevin dynamics on sum_i f_i
with step 1 / (2 rho sum_j d_j), which needs Var(sum_i n_i) = 4 rho sum_j d_j: true of (4) and (5),
and of (3) only at rho = d/2 on a d-regular graph. Under (5) nothing but unequal curvature makes
agents disagree. Half-noise output records

    s_i = x_i - n_i' / (4 rho d_i),     n_i' the noise of the next round            (6)

whose variance is right to second order in the step instead of to first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_choice, check_positive
from starlings.network import Inbox
from starlings.problem import Agent
from starlings.proximal import proximal_point
from starlings.rounds import Round
from starlings.samplers.base import Card, ExchangesPositions, Info, choice

NOISE_LAWS = ("paper", "private", "coherent")
OUTPUTS = ("iterate", "half-noise")


class DADMMSState(NamedTuple):
    """The least that the next round needs."""

    position: Any
    """x_i."""
    dual: Any
    """p_i of the round before."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DADMMS(ExchangesPositions):
    """Noisy consensus ADMM.

    Args:
        rho: the penalty. The step of the network's average is 1 / (4 rho |E|): larger is slower
            and less biased.
        noise: "coherent" (the default) draws from the posterior at every agent; it needs a seed
            that all agents share, so whoever knows the seed can subtract the noise. "private"
            gives the right average and over-dispersed agents. "paper" is Algorithm 1 as printed,
            with the wrong variance unless rho = degree / 2.
        output: "half-noise" (the default) records eq. (6), "iterate" records x_i.
    """

    rho: Any
    noise: str = choice(default="coherent")
    output: str = choice(default="half-noise")

    card: ClassVar[Card] = Card(
        title="D-ADMMS",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="coherent, half-noise: second order in the step 1/(4 rho |E|); "
        "private: agents over-dispersed; paper: wrong variance unless rho = degree/2",
        reference="Tzikas, Romao, Pilanci, Abate, Kochenderfer 2024",
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)
        check_choice(NOISE_LAWS, noise=self.noise)
        check_choice(OUTPUTS, output=self.output)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> DADMMSState:
        """Start at `position` with p_i = 0."""
        return DADMMSState(position, jnp.zeros_like(position))

    def step(
        self, agent: Agent, state: DADMMSState, inbox: Inbox, round: Round
    ) -> tuple[DADMMSState, Info]:
        """One round of eqs. (1) and (2)."""
        noise = self._noise(agent, round, state.position)
        return admm_step(self.rho, agent, state, inbox, round, noise)

    def draw(self, agent: Agent, state: DADMMSState, upcoming: Round) -> jax.Array:
        """x_i, or eq. (6)."""
        if self.output == "iterate":
            return state.position
        noise = self._noise(agent, upcoming, state.position)
        return state.position - _per_degree(noise / (4 * self.rho), agent.degree)  # (6)

    def _noise(self, agent, round, like):
        degree = agent.degree
        if self.noise == "paper":
            return jnp.sqrt(2.0) * degree * round.private_noise(like)  # (3)
        if self.noise == "private":
            return 2 * jnp.sqrt(self.rho * degree) * round.private_noise(like)  # (4)
        share = jnp.sqrt(_per_degree(self.rho, agent.total_degree))
        return 2 * degree * share * round.shared_noise(like)  # (5)


def admm_step(rho, agent: Agent, state: DADMMSState, inbox: Inbox, round: Round, noise):
    """Eqs. (1) and (2) with a given noise; C-ADMM is the same with none."""
    own = agent.degree * state.position
    first = round.index == 1
    dual = jnp.where(first, 0.0, state.dual + rho * (own - inbox.sum))  # (1)
    linear = rho * (own + inbox.sum) - dual - noise
    solution = proximal_point(agent, 2 * rho * agent.degree, linear, start=state.position)  # (2)
    info = Info(residual=solution.residual, iterations=solution.iterations)
    return DADMMSState(solution.point, dual), info


def _per_degree(value, degree):
    """value / degree, and zero for an agent without neighbours."""
    return jnp.where(degree > 0, value / jnp.maximum(degree, 1), 0.0)

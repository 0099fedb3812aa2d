"""D-ADMMS: consensus ADMM with noise in the proximal step (Tzikas et al., 2024).

With d_i neighbours, penalty rho and noise n_i, agent i solves in round k + 1

    p_i = p_i + rho (d_i x_i - sum_j x_j)            (p_i = 0 in the first round)   (1)
    x_i' = argmin_x f_i(x) + rho d_i |x|^2 - l_i'x,                                 (2)
    l_i  = rho (d_i x_i + sum_j x_j) - p_i - n_i

which is Algorithm 1 of the paper with the dual update (1) of round k moved to the next round, which
uses the same messages: one exchange in each round. The laws of the noise, with w ~ N(0, I):

    paper      n_i = sqrt(2) d_i w_i                     w_i drawn by each agent    (3)
    private    n_i = 2 sqrt(rho d_i) w_i                 w_i drawn by each agent    (4)
    coherent   n_i = 2 s_i sqrt(rho sum_j d_j) w         one w for all,             (5)
               with the share s_i = d_i / sum_j d_j of agent i
    curvature  n_i = (5) + R_i w_i,  R_i R_i' = Hess f_i(x_i), with private w_i     (7)
    coherent-curvature   n_i = (5) + Hess f_i(x_i) v,   one v ~ N(0, I) for all     (8)

Summed over the network, (1) and (2) are an implicit Euler step of Langevin dynamics on sum_i f_i
with step 1 / (2 rho sum_j d_j), which needs Var(sum_i n_i) = 4 rho sum_j d_j: true of (4) and (5),
and of (3) only at rho = d/2 on a d-regular graph. Under (5) nothing but unequal curvature makes
agents disagree. Half-noise output records

    s_i = x_i - n_i' / (4 rho d_i),     n_i' the noise of the next round            (6)

whose variance is right to second order in the step instead of to first. Under (7) and (8) the sum
of the noises has the covariance sum_i Hess f_i besides, just what implicit Euler loses: the average
of the iterates then has exactly the posterior's covariance at any rho, if the potentials are equal
and quadratic. (8) needs coordinates in which sum_i Hess f_i = I, such as those of `tuning`, and
keeps the agents together; (7) works in any coordinates, and scatters the agents.

With a penalty g every agent has its share of it, and (2) becomes

    x_i' = argmin_x f_i(x) + g(x) / N + rho d_i |x|^2 - l_i'x,                              (9)

see `solvers.composite`. The average then makes implicit steps on sum_i f_i + g: proximal maps of g,
after the noise. Under a `Lasso`, iterates have coordinates that are exactly zero, as often as a
step of that length reaches zero; in a support, they are in it, and on its edge as often. Half-noise
output (6) moves them away from there again by the noise of half a step.

Where agents have local parameters, see `local_proximal` for the step that takes the place of (2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import LocalParametersError, check_choice, check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.penalties import Penalty, check_fits, check_is_penalty
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler, UnitPosterior
from starlings.samplers.local_proximal import (
    Split,
    local_noise,
    local_proximal_point,
    local_step,
)
from starlings.solvers.proximal import prepared, proximal_point

ADMM_NOISE_LAWS = ("paper", "private", "coherent", "curvature", "coherent-curvature")
"""The laws of the noise, eqs. (3) to (5), (7) and (8)."""
OUTPUTS = ("iterate", "half-noise")
"""What is recorded: x_i, or eq. (6)."""


class DADMMSState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i, and then the agent's local parameters, if there are any."""
    dual: Any
    """p_i of the round before, of the size of x_i."""


@pytree
@dataclass(frozen=True)
class DADMMS(Sampler):
    """Noisy consensus ADMM.

    Args:
        rho: the penalty. The step of the network's average is 1 / (4 rho |E|): larger is slower
            and less biased.
        noise: "coherent" (the default) draws from the posterior at every agent; it needs a seed
            that all agents share, so whoever knows the seed can subtract the noise. "private"
            gives the right average and over-dispersed agents. "paper" is Algorithm 1 as printed,
            with the wrong variance unless rho = degree / 2. "curvature" and
            "coherent-curvature" add eqs. (7) and (8) to "coherent", for the output "iterate".
        output: "half-noise" (the default) records eq. (6), "iterate" records x_i.
        penalty: g of eq. (9), such as `starlings.Lasso(2.0)` or `starlings.Box(0.0, 1.0)`, in the
            model's unconstrained coordinates; None for none.
        local_scale: the unit of local parameters, if there are any: how much wider their posterior
            is than that of shared ones, about. See `starlings.samplers.local_proximal`.
    """

    rho: Any
    noise: str = choice(default="coherent")
    output: str = choice(default="half-noise")
    penalty: Penalty | None = None
    local_scale: Any = 1.0

    draws_local: ClassVar[bool] = True
    card: ClassVar[Card] = Card(
        title="D-ADMMS",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="coherent, half-noise: second order in the step 1/(4 rho |E|); "
        "private: agents too wide; paper: wrong variance unless rho = degree/2",
        reference="Tzikas, Romao, Pilanci, Abate, Kochenderfer 2024",
        masked_as="sum",
        public_code="the proximal step of agent i reads agents 0 to d_i - 1 in place of its "
        "neighbours; agents are moved one after the other, also those of its D-SGLD, D-SGHMC and "
        "D-ULA",
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho, local_scale=self.local_scale)
        check_choice(ADMM_NOISE_LAWS, noise=self.noise)
        check_choice(OUTPUTS, output=self.output)
        check_is_penalty(self.penalty, may_be_none=True)
        if "curvature" in self.noise and self.output == "half-noise":
            raise ValueError(
                f"noise={self.noise!r} includes the correction of half-noise output; "
                "take output='iterate' with it."
            )

    @property
    def noises(self) -> tuple[str, ...]:
        """Private noise for eqs. (3) and (4), shared for (5) and (8), and both for (7)."""
        laws = {"paper": ("private",), "private": ("private",), "curvature": ("shared", "private")}
        return laws.get(self.noise, ("shared",))

    def gradients_per_round(self, problem: Problem) -> float:
        """A proximal step, and the Hessian of eqs. (7) and (8) where it is needed."""
        return 2.0 if "curvature" in self.noise and not problem.is_quadratic else 1.0

    @classmethod
    def tuned(cls, unit: UnitPosterior, **choices: Any) -> DADMMS:
        """A sampler with the penalty that makes the wanted step."""
        return cls(unit.rho, **choices)

    @classmethod
    def published(cls, problem: Problem, network: Network) -> DADMMS:
        """Algorithm 1 as printed, with the penalty of its experiments."""
        return cls(5.0, noise="paper", output="iterate")

    def init(self, agent: Agent, position: jax.Array, round: Round) -> DADMMSState:
        """Start at `position` with p_i = 0."""
        return DADMMSState(position, jnp.zeros_like(Split.of(agent, position).shared))

    def message(self, state: DADMMSState) -> jax.Array:
        """x_i, and nothing of local parameters."""
        return state.position[: state.dual.size]

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse a penalty for other parameters, and what local parameters do not allow."""
        check_fits(self.penalty, problem, self.card.title)
        if problem.num_local and ("curvature" in self.noise or self.penalty is not None):
            raise LocalParametersError(
                f"noise={self.noise!r} with penalty={self.penalty!r} cannot be used where "
                "parameters are local: take noise='coherent' or 'private', and no penalty."
            )

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of (2), if the potential is quadratic and there is no penalty."""
        if agent.num_local:
            return agent
        return admm_prepared(self.rho, agent, self.penalty)

    def step(
        self, agent: Agent, state: DADMMSState, inbox: Inbox, round: Round
    ) -> tuple[DADMMSState, Info]:
        """One round of eqs. (1) and (2)."""
        noise = self._noise(agent, round, state.position)
        if agent.num_local:
            step = local_step(self.rho, self.local_scale, agent)
            return _round_with_local(self.rho, step, agent, state, inbox, round, noise)
        if self.noise == "curvature":
            noise = noise + _curvature_noise(agent, round, state.position)  # (7)
        elif self.noise == "coherent-curvature":
            shared = jax.random.normal(round.shared_key(), noise.shape, noise.dtype)
            noise = noise + agent.hessian(state.position) @ shared  # (8)
        return admm_step(self.rho, agent, state, inbox, round, noise, self.penalty)

    def draw(self, agent: Agent, state: DADMMSState, upcoming: Round) -> jax.Array:
        """The position x_i, or s_i of eq. (6)."""
        if self.output == "iterate":
            return state.position
        noise = self._noise(agent, upcoming, state.position)
        x, u = Split.of(agent, state.position)
        shared = x - _per_degree(noise / (4 * self.rho), agent.degree)  # (6)
        if not agent.num_local:
            return shared
        step = local_step(self.rho, self.local_scale, agent)
        own = local_noise(step, agent, upcoming, state.position)
        return jnp.concatenate([shared, u + own / 2])  # (5) of `local_proximal`

    def _noise(self, agent, round, like):
        degree, shared = agent.degree, Split.of(agent, like).shared
        if self.noise not in ("paper", "private"):
            return coherent_noise(self.rho, agent, round, shared)
        private = Split.of(agent, round.private_noise(like)).shared
        if self.noise == "paper":
            return jnp.sqrt(2.0) * degree * private  # (3)
        return 2 * jnp.sqrt(self.rho * degree) * private  # (4)


def coherent_noise(rho, agent: Agent, round: Round, like: jax.Array) -> jax.Array:
    """The coherent noise n_i of eq. (5), of the shape and type of `like`."""
    return 2 * agent.share * jnp.sqrt(rho * agent.total_degree) * round.shared_noise(like)  # (5)


def _curvature_noise(agent: Agent, round: Round, position: jax.Array) -> jax.Array:
    """The noise R_i w_i of eq. (7), with the positive part of the Hessian."""
    if agent.quadratic is not None:
        values, vectors = agent.quadratic.curvatures, agent.quadratic.basis
    else:
        values, vectors = jnp.linalg.eigh(agent.hessian(position))
    # R_i is the symmetric root, which does not depend on the choice of eigenvectors.
    entries = vectors.T @ round.private_noise(position)
    return vectors @ (jnp.sqrt(jnp.maximum(values, 0.0)) * entries)


def admm_prepared(rho, agent: Agent, penalty: Penalty | None) -> Agent:
    """The agent with the matrix of (2), which (9) has no use for."""
    return prepared(agent, 2 * rho * agent.degree) if penalty is None else agent


def admm_step(
    rho,
    agent: Agent,
    state: DADMMSState,
    inbox: Inbox,
    round: Round,
    noise,
    penalty: Penalty | None = None,
):
    """One round of eqs. (1) and (2), or (9), with a given noise; without noise it is C-ADMM."""
    dual, linear = _dual_and_linear(rho, agent, state, state.position, inbox, round, noise)
    share = None if penalty is None else penalty.part(1 / agent.num_agents)
    curvature, start = 2 * rho * agent.degree, state.position
    solution = proximal_point(agent, curvature, linear, start, penalty=share)  # (2), (9)
    info = Info(residual=solution.residual, iterations=solution.iterations)
    return DADMMSState(solution.point, dual), info


def _round_with_local(
    rho, step, agent: Agent, state: DADMMSState, inbox: Inbox, round: Round, noise
):
    """One round of eq. (1), and of the proximal step of an agent with local parameters."""
    x = Split.of(agent, state.position).shared
    dual, linear = _dual_and_linear(rho, agent, state, x, inbox, round, noise)
    solution = local_proximal_point(rho, step, agent, linear, round, state.position)
    info = Info(residual=solution.residual, iterations=solution.iterations)
    return DADMMSState(solution.point, dual), info


def _dual_and_linear(rho, agent: Agent, state: DADMMSState, x, inbox: Inbox, round: Round, noise):
    """p_i of eq. (1), and l_i of eq. (2)."""
    own = agent.degree * x
    gain = jnp.where(round.index == 1, 0.0, rho)
    dual = state.dual + gain * (own - inbox.sum)  # (1)
    return dual, rho * (own + inbox.sum) - dual - noise


def _per_degree(value, degree):
    """The value divided by the degree; zero for an agent without neighbours."""
    return jnp.where(degree > 0, value / jnp.maximum(degree, 1), 0.0)

"""C-ADMM: consensus ADMM without noise (Mateos, Bazerque, Giannakis 2010; Shi et al. 2014).

Equations (1) and (2) of `dadmms` with n_i = 0: every agent converges to the mode of
exp(-sum_i f_i), for every rho > 0, at a linear rate where the f_i are strongly convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.penalties import Penalty, check_fits, check_is_penalty
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler
from starlings.samplers.dadmms import DADMMSState, admm_prepared, admm_step


@pytree
@dataclass(frozen=True)
class CADMM(Sampler):
    """Consensus ADMM, which finds the mode and draws nothing: the paper's baseline.

    Args:
        rho: the penalty.
        penalty: g of eq. (9) of `dadmms`, such as `starlings.Lasso(2.0)`: it then finds the mode of
            the posterior with this penalty. None for none.
    """

    rho: Any
    penalty: Penalty | None = None

    draws_nothing = True
    card: ClassVar[Card] = Card(
        title="C-ADMM",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="not a sampler: converges to the mode, with no spread",
        reference="Mateos, Bazerque, Giannakis 2010; Shi, Ling, Yuan, Wu, Yin 2014",
        masked_as="sum",
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)
        check_is_penalty(self.penalty, may_be_none=True)

    @classmethod
    def published(cls, problem: Problem, network: Network) -> CADMM:
        """The penalty of Tzikas et al. (2024)."""
        return cls(5.0)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> DADMMSState:
        """Start at `position` with p_i = 0."""
        return DADMMSState(position, jnp.zeros_like(position))

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse a penalty for other parameters."""
        check_fits(self.penalty, problem, self.card.title)

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of the steps, if there is one."""
        return admm_prepared(self.rho, agent, self.penalty)

    def step(
        self, agent: Agent, state: DADMMSState, inbox: Inbox, round: Round
    ) -> tuple[DADMMSState, Info]:
        """One round of eqs. (1) and (2) of `dadmms` without noise."""
        return admm_step(self.rho, agent, state, inbox, round, 0.0, self.penalty)

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
from starlings.network import Inbox
from starlings.problem.agent import Agent
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler
from starlings.samplers.dadmms import DADMMSState, admm_step
from starlings.solvers.proximal import prepared


@pytree
@dataclass(frozen=True)
class CADMM(Sampler):
    """Consensus ADMM, which finds the mode and draws nothing: the paper's baseline.

    Args:
        rho: the penalty.
    """

    rho: Any

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

    def init(self, agent: Agent, position: jax.Array, round: Round) -> DADMMSState:
        """Start at `position` with p_i = 0."""
        return DADMMSState(position, jnp.zeros_like(position))

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of (2), if the potential is quadratic."""
        return prepared(agent, 2 * self.rho * agent.degree)

    def step(
        self, agent: Agent, state: DADMMSState, inbox: Inbox, round: Round
    ) -> tuple[DADMMSState, Info]:
        """One round of eqs. (1) and (2) of `dadmms` without noise."""
        return admm_step(self.rho, agent, state, inbox, round, noise=0.0)

"""P-ULA: the proximal unadjusted Langevin algorithm (Pereyra 2016).

With all rows at one place, the potential U = f + g of their posterior and a penalty g, and a step
delta,

    x' = prox_{(delta/2) U}(x) + sqrt(delta) xi,      xi ~ N(0, I)                          (1)

    prox_{(delta/2) U}(x) = argmin_z  f(z) + g(z) + |z - x|^2 / delta                       (2)

which is an implicit Euler step of Langevin dynamics of length delta / 2, before its noise. It needs
no gradient of U, and is stable at every step where U is convex. On a quadratic U of curvature m the
draws have the variance delta / (1 - (1 + delta m / 2)^-2), which is (1 + 3 delta m / 4) / m to
first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox
from starlings.problem import Agent
from starlings.problem.penalties import Penalty, check_is_penalty
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState
from starlings.samplers.one_place import OnePlaceSampler
from starlings.solvers.objective import Minimum
from starlings.solvers.proximal import prepared, proximal_point


@pytree
@dataclass(frozen=True)
class PULA(OnePlaceSampler):
    """Proximal steps and noise, at one place.

    Args:
        step_size: delta, the variance of the noise in every coordinate: twice a Langevin step.
        penalty: g, such as `starlings.Lasso(2.0)` or `starlings.Box(0.0, 1.0)`; None for none.
    """

    step_size: Any
    penalty: Penalty | None = None

    noises = ("private",)
    card: ClassVar[Card] = Card(
        title="P-ULA",
        exchanged="nothing: all rows are at one place",
        floats_per_parameter=0,
        bias="too wide, first order in the step",
        reference="Pereyra 2016",
        not_masked="it runs at one place, and sends nothing",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_is_penalty(self.penalty, may_be_none=True)

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of (2), if the potential is quadratic and there is no penalty."""
        return agent if self.penalty is not None else prepared(agent, 2 / self.step_size)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (1)."""
        x = state.position
        mean = proximal_mean(agent, self.penalty, x, self.step_size)
        position = mean.point + jnp.sqrt(self.step_size) * round.private_noise(x)  # (1)
        return PositionState(position), Info(mean.residual, mean.iterations)


def proximal_mean(agent: Agent, penalty: Penalty | None, x: jax.Array, delta: Any) -> Minimum:
    """The minimum of eq. (2), searched for from x."""
    return proximal_point(agent, 2 / delta, 2 * x / delta, start=x, penalty=penalty)  # (2)

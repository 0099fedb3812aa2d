"""P-MALA: the proximal Metropolis-adjusted Langevin algorithm (Pereyra 2016).

P-ULA proposes, and a Metropolis-Hastings decision corrects it. With the potential U = f + g of all
rows at one place, and with the mean m(x) = prox_{(delta/2) U}(x) of a proposal from x,

    y = m(x) + sqrt(delta) xi,      xi ~ N(0, I)                                            (1)

    x' = y   if  log u < U(x) - U(y) + (|y - m(x)|^2 - |x - m(y)|^2) / 2 delta,             (2)
    x' = x   otherwise,             u uniform in (0, 1)

exp(-U) stays exactly what it is, at every delta, and whatever the search for m has found, since it
begins at x and so depends on x alone. Where a penalty is a support, candidates outside are
rejected: the support must have an inside, as a `Box` and a `Ball` have and a `Simplex` has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.penalties import Penalty, check_is_penalty
from starlings.problem.supports import Simplex
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info
from starlings.samplers.one_place import OnePlaceSampler
from starlings.samplers.pula import proximal_mean
from starlings.solvers.proximal import prepared


class PMALAState(NamedTuple):
    """A point, and what the next decision needs of it."""

    position: Any
    """x."""
    mean: Any
    """m(x)."""
    energy: Any
    """U(x), infinite where it is not a number."""


@pytree
@dataclass(frozen=True)
class PMALA(OnePlaceSampler):
    """P-ULA with decisions that make it exact, at one place.

    Args:
        step_size: delta, the variance of the noise of a candidate in every coordinate. It says how
            many candidates are taken, and nothing about the law.
        penalty: g, such as `starlings.Lasso(2.0)` or `starlings.Box(0.0, 1.0)`; None for none.
    """

    step_size: Any
    penalty: Penalty | None = None

    card: ClassVar[Card] = Card(
        title="P-MALA",
        exchanged="nothing: all rows are at one place",
        floats_per_parameter=0,
        bias="none",
        reference="Pereyra 2016",
        not_masked="it runs at one place, and sends nothing",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_is_penalty(self.penalty, may_be_none=True)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse several agents, and a penalty that nothing but a rejection can come of."""
        super().check(problem, network)
        if isinstance(self.penalty, Simplex):
            raise ValueError(
                "P-MALA rejects every candidate where the penalty is a `Simplex`, which has no "
                'inside: take `DADMMS(rho, output="iterate", penalty=...)`, whose draws are in it.'
            )

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of m(x), if the potential is quadratic and there is no penalty."""
        return agent if self.penalty is not None else prepared(agent, 2 / self.step_size)

    def gradients_per_round(self, problem: Problem) -> float:
        """A proximal step and a value of the potential."""
        return 2.0

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PMALAState:
        """Start at `position`."""
        return self._at(agent, position)[0]

    def step(
        self, agent: Agent, state: PMALAState, inbox: Inbox, round: Round
    ) -> tuple[PMALAState, Info]:
        """A candidate, eq. (1), and the decision on it, eq. (2)."""
        kick = jnp.sqrt(self.step_size) * round.private_noise(state.mean)
        candidate, info = self._at(agent, state.mean + kick)  # (1)
        back = state.position - candidate.mean
        log_ratio = state.energy - candidate.energy  # (2)
        log_ratio += (kick @ kick - back @ back) / (2 * self.step_size)
        threshold = -jax.random.exponential(round.batch_key(), dtype=kick.dtype)  # log u
        is_taken = log_ratio > threshold  # not where it is not a number
        return jax.tree.map(lambda new, old: jnp.where(is_taken, new, old), candidate, state), info

    def _at(self, agent: Agent, x: jax.Array) -> tuple[PMALAState, Info]:
        """m(x) and U(x), and a report about the search for m(x)."""
        mean = proximal_mean(agent, self.penalty, x, self.step_size)
        energy = agent.potential(x)
        if self.penalty is not None:
            energy += self.penalty.value(x)
        energy = jnp.where(jnp.isnan(energy), jnp.inf, energy)
        return PMALAState(x, mean.point, energy), Info(mean.residual, mean.iterations)

"""Global consensus Monte Carlo (Rendell, Johansen, Lee, Whiteley 2021).

The hub has the prior mu(z), and site j has its part of the likelihood and a variable x_j of its
own, which is tied to z with the variance lambda:

    mu(z) prod_j N(x_j; z, lambda) exp(-f_j(x_j))                                           (1)

Given z, the sites draw side by side, and given them, the hub draws with the prior:

    x_j ~ exp(-f_j(x) - |x - z|^2 / (2 lambda))                                             (2)
    z   ~ mu(z) exp(-b |z|^2 / (2 lambda) + z' sum_j x_j / lambda)                          (3)

with b sites. Both are drawn exactly where potentials are quadratic, and else by Metropolis steps
that leave them invariant, see `samplers.conditional`. As in split Gibbs, z has the posterior as
lambda goes to zero, and moves less then; but the prior is not softened, since no copy of z stands
between the two.

What is expected of z under (1) differs from the posterior by first order in lambda, which
`estimate_at_zero` takes off: the authors' bias correction, by a weighted regression of estimates on
lambda. They get estimates at many lambda at once, from sequential Monte Carlo, as
`starlings.consensus_sequence` does; a run of this sampler alone has one lambda.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.problem import Agent, Problem
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.conditional import drawn_near, passes_through_rows
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState, num_sites
from starlings.samplers.units import Units
from starlings.solvers.proximal import prepared


@pytree
@dataclass(frozen=True)
class GlobalConsensusMC(HubSampler):
    """Sites draw near the hub from the likelihood of their rows, and the hub with the prior.

    It needs `starlings.with_hub(problem, prior="hub")`.

    Args:
        variance: lambda, by which the variables of the sites are tied to the hub's. The smaller,
            the nearer is the hub to the posterior, and the slower does it move.
    """

    variance: Any

    prior_at = "hub"
    card: ClassVar[Card] = Card(
        title="Global consensus Monte Carlo",
        exchanged="position; positions of the sites",
        floats_per_parameter=1,
        bias="first order in lambda: over-dispersed, and sites with many rows count less; "
        "a regression on lambda takes it off",
        reference="Rendell, Johansen, Lee, Whiteley 2021",
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(variance=self.variance)

    @property
    def noises(self) -> tuple[str, ...]:
        """Private noise for eqs. (2) and (3)."""
        return ("private",)

    def gradients_per_round(self, problem: Problem) -> float:
        """Those of a draw from eq. (2), in every second round."""
        return passes_through_rows(problem) / 2

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of the mode of (2) or (3), if the potential is quadratic."""
        return prepared(agent, jnp.where(agent.place, num_sites(agent), 1) / self.variance)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[GlobalConsensusMC]:
        """Ties of variance g / M."""
        return [cls(float(variance), **fixed) for variance in units.steps]

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> jax.Array:
        """x_j, which starts where its site does."""
        return position

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Eq. (2)."""
        own = self._drawn(agent, 1, heard, state.memory, round)  # (2)
        return HubState(heard, own, own)

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eq. (3)."""
        position = self._drawn(agent, num_sites(agent), total, state.position, round)  # (3)
        return HubState(position, position, state.memory)

    def _drawn(
        self, agent: Agent, ties: Any, total: jax.Array, x: jax.Array, round: Round
    ) -> jax.Array:
        """The next point from x, with so many ties to points with this sum."""
        pull, linear = ties / self.variance, total / self.variance
        noise, key = round.private_noise(x), round.batch_key()
        return drawn_near(agent, pull, linear, x, noise, key)[0]

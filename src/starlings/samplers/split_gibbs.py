"""Split Gibbs, SP and SPA (Vono, Dobigeon, Chainais 2019; Vono, Paulin, Doucet 2022).

Each of b sites has a copy z_i of the parameters x, tied to them with the standard deviation rho:

    exp(-sum_i f_i(z_i) - sum_i |x - z_i|^2 / (2 rho^2))                                    (1)

Given x, the sites draw their copies side by side, and given them, the hub draws x:

    z_i ~ exp(-f_i(z) - |x - z|^2 / (2 rho^2)),     x ~ N(mean_i z_i, rho^2 / b)            (2)

The first of these is drawn exactly where f_i is quadratic, and else by Metropolis steps that leave
it invariant, see `samplers.conditional`. SPA adds u_i ~ N(0, alpha^2) to what x is tied by:

    z_i ~ exp(-f_i(z) - |x + u_i - z|^2 / (2 rho^2)),                                       (3)
    u_i ~ N(s (z_i - x), s rho^2),     s = alpha^2 / (alpha^2 + rho^2),                     (4)
    x   ~ N(mean_i (z_i - u_i), rho^2 / b)                                                  (5)

of which SP is the case alpha = 0. In this law x and z_i are tied as in (1) with the variance
rho^2 + alpha^2. With f_i = L_i |z|^2 / 2 the precision of x is then

    sum_i 1 / (1 / L_i + rho^2 + alpha^2)                                                   (6)

which comes to that of the posterior as rho and alpha go to zero. With alpha = 0 a cycle shrinks the
distance to it by mean_i 1 / (1 + rho^2 L_i), so that the exactness of small rho is paid in rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_positive
from starlings.problem import Agent, Problem
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.conditional import drawn_near, passes_through_rows
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState, num_sites
from starlings.samplers.units import Units
from starlings.solvers.proximal import prepared


class SplitMemory(NamedTuple):
    """What a site has of its own."""

    copy: Any
    """z_i."""
    offset: Any
    """u_i; 0 in SP."""


@pytree
@dataclass(frozen=True)
class SplitGibbs(HubSampler):
    """Sites draw copies of the parameters near those of the hub, which draws near their mean.

    Args:
        rho: the standard deviation by which copies are tied. The smaller, the nearer is the hub to
            the posterior, and the slower does it move.
        alpha: the standard deviation of the offsets u_i of SPA; None for SP.
    """

    rho: Any
    alpha: Any = None

    card: ClassVar[Card] = Card(
        title="Split Gibbs",
        exchanged="position; copies, in SPA without their offsets",
        floats_per_parameter=1,
        bias="first order in rho^2 + alpha^2: over-dispersed, and sites with many rows count less",
        reference="Vono, Dobigeon, Chainais 2019; Vono, Paulin, Doucet 2022",
        public_code="copies that are not Gaussian are drawn by a proximal Langevin step without "
        "correction, whose noise has twice its standard deviation",
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)
        if self.alpha is not None:
            check_positive(alpha=self.alpha)

    @property
    def noises(self) -> tuple[str, ...]:
        """Private noise for eqs. (3) and (5)."""
        return ("private",)

    def gradients_per_round(self, problem: Problem) -> float:
        """Those of a draw from eq. (3), in every second round."""
        return passes_through_rows(problem) / 2

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of the mode of (3), if the potential is quadratic."""
        return prepared(agent, 1 / self.rho**2)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[SplitGibbs]:
        """Ties of variance rho^2 = g / M, the length of a Langevin step."""
        return [cls(float(rho), **fixed) for rho in np.sqrt(units.steps)]

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> SplitMemory:
        """Copies start where their sites do, without offsets."""
        return SplitMemory(position, jnp.zeros_like(position))

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Eqs. (3) and (4)."""
        pull, (copy, offset) = 1 / self.rho**2, state.memory
        kick, key = jax.random.split(round.batch_key())
        linear = pull * (heard + offset)
        copy, _ = drawn_near(agent, pull, linear, copy, round.private_noise(copy), key)  # (3)
        if self.alpha is not None:
            share = self.alpha**2 / (self.alpha**2 + self.rho**2)
            noise = jax.random.normal(kick, copy.shape, copy.dtype)
            offset = share * (copy - heard) + jnp.sqrt(share) * self.rho * noise  # (4)
        return HubState(heard, copy - offset, SplitMemory(copy, offset))

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eq. (5)."""
        size = num_sites(agent)
        position = total / size + self.rho / jnp.sqrt(size) * round.private_noise(total)  # (5)
        return HubState(position, position, state.memory)

"""The base of gradient-based samplers: minibatches, and noise of the right total variance.

With N agents, the average of the noise u_i over the network has variance 1/N in every coordinate:

    private    u_i = w_i,           w_i ~ N(0, I) drawn by each agent for itself             (1)
    coherent   u_i = w / sqrt(N),   the same w ~ N(0, I) at every agent                      (2)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from starlings.errors import check_choice, check_count
from starlings.problem import Agent, Problem
from starlings.random.addresses import Round
from starlings.samplers.base import Sampler

LANGEVIN_NOISE_LAWS = ("private", "coherent")
"""The laws of the noise, eqs. (1) and (2)."""


class LangevinSampler(Sampler):
    """A sampler with the fields `step_size`, `noise` and `batch_size`."""

    step_field = "step_size"
    noise: str
    batch_size: int | None

    @property
    def noises(self) -> tuple[str, ...]:
        """Private noise for eq. (1), shared noise for eq. (2)."""
        return ("shared",) if self.noise == "coherent" else ("private",)

    def check_choices(self) -> None:
        """Check `noise` and `batch_size`, the fields that select code."""
        check_choice(LANGEVIN_NOISE_LAWS, noise=self.noise)
        if self.batch_size is not None:
            check_count(1, batch_size=self.batch_size)

    def gradients_per_round(self, problem: Problem) -> float:
        """One, or the size of a minibatch over the average number of rows of an agent."""
        return 1.0 if self.batch_size is None else self.batch_size / float(problem.num_rows.mean())

    def unit_noise(self, agent: Agent, round: Round, like: jax.Array) -> jax.Array:
        """The noise u_i, of the shape and type of `like`."""
        if self.noise == "private":
            return round.private_noise(like)  # (1)
        return round.shared_noise(like) / jnp.sqrt(agent.num_agents)  # (2)

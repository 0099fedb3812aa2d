"""The base of samplers that run at one place, where all rows are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.penalties import Penalty, check_fits
from starlings.samplers.base import Sampler


class OnePlaceSampler(Sampler):
    """A sampler of one potential U = f + g, that of the only agent and a penalty.

    A subclass has the field `penalty`: g, or None for none.
    """

    needs_one_place = True
    step_field = "step_size"
    penalty: Penalty | None

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse several agents, and a penalty for other parameters."""
        if network.size > 1:
            raise ValueError(
                f"{self.card.title} runs at one place, and this network has {network.size} agents: "
                "where rows may be pooled, give `problem.pooled()` and `Network.path(1)`."
            )
        check_fits(self.penalty, problem, self.card.title)

    def message(self, state: Any) -> jax.Array:
        """Nothing: there is nobody to send it to."""
        return jnp.zeros(0, state.position.dtype)

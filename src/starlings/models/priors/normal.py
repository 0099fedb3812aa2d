"""The prior of the ready-made regressions: one normal distribution for all coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.parameters import Parameters


@dataclass(frozen=True)
class NormalPrior:
    """Coefficients beta ~ N(0, std^2 I) and, if there is a scale, scale ~ |N(0, scale_std^2)|."""

    std: float
    """Standard deviation of every coefficient, in units of the coefficients."""
    scale_name: str | None = None
    """Name of the scale parameter; None for a model without one."""
    scale_std: float = 1.0
    """Standard deviation of the normal variable whose absolute value is the scale."""

    def __call__(self, p: dict[str, Any]) -> jax.Array:
        """Log-density of the parameters, normalised."""
        size = p["beta"].size
        density = -0.5 * jnp.sum((p["beta"] / self.std) ** 2)
        density -= size * (jnp.log(self.std) + 0.5 * jnp.log(2 * jnp.pi))
        if self.scale_name is not None:
            density += half_normal(p[self.scale_name], self.scale_std)
        return density

    def draw(self, rng: np.random.Generator, parameters: Parameters) -> dict[str, Any]:
        """Parameters by name, drawn from this prior."""
        shape = parameters.blocks["beta"].shape
        drawn: dict[str, Any] = {"beta": rng.normal(0.0, self.std, shape)}
        if self.scale_name is not None:
            drawn[self.scale_name] = abs(rng.normal(0.0, self.scale_std))
        return drawn


def half_normal(value: jax.Array, std: float) -> jax.Array:
    """Log-density of |N(0, std^2)| at a positive value."""
    return -0.5 * (value / std) ** 2 + 0.5 * jnp.log(2 / jnp.pi) - jnp.log(std)

"""Coordinates of a site's own for lock-step HMC, in which local and shared parameters are apart.

With c and L those of the shared parameters, and x0 a reference that all sites know,

    x = c + L q,      u_i = m_i + B_i (x - x0) + S_i D_i w_i                                (1)

where m_i, B_i and S_i come from Laplace's approximation at x0 (see `solvers.laplace`), and D_i are
the standard deviations that the site's own chains showed. See `hierarchical` for what this is for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.methods.phase import SplitPhase
from starlings.problem.agent import Agent
from starlings.problem.coordinates import Frame
from starlings.runtime.buckets import Agents, grouped
from starlings.runtime.checkpoint import OWN
from starlings.solvers.laplace import Conditional, conditional

PRIOR_DRAWS = 5.0
"""Weight, in draws, of the standard deviation 1 towards which D_i is shrunk."""


@dataclass
class Sites:
    """The local agents in the coordinates (1), and what changes these in the warm-up."""

    agents: Agent
    """The local agents, in the coordinates of the model."""
    keys: Any
    """The keys of private noise, (chain, agent)."""
    centre: np.ndarray
    """c, (shared,)."""
    scale: np.ndarray
    """L, (shared, shared)."""
    moved: Agents = field(init=False)
    """The local agents in the coordinates (1)."""
    frame: Frame = field(init=False)
    """These coordinates, with the agent as first axis."""
    found: Conditional = field(init=False)
    """m_i, B_i and S_i, with the agent as first axis."""
    spread: np.ndarray = field(init=False)
    """The diagonal of D_i, (agent, local)."""
    moments: np.ndarray = field(init=False)
    """The number, the sum and the sum of squares of positions w seen, (agent, 3, local)."""

    def __post_init__(self) -> None:
        count, local, shared = len(self.agents.num_rows), self.agents.num_local, len(self.centre)
        root = np.broadcast_to(np.eye(local), (count, local, local))
        slope = np.zeros((count, local, shared))
        self.found = Conditional(np.zeros((count, local)), slope, root)
        self.spread, self.moments = np.ones((count, local)), np.zeros((count, 3, local))
        self.refer_to(np.zeros(shared))

    def refer_to(self, reference: np.ndarray) -> None:
        """Take the coordinates (1) for the reference x0 = c + L `reference`."""
        x0 = self.centre + self.scale @ reference
        new = Conditional(*map(np.asarray, _conditionals(self.agents, x0, self.found.mode)))
        flat = [part.reshape(len(part), -1) for part in new]
        is_known = np.isfinite(np.hstack(flat)).all(axis=1)
        known = [is_known.reshape(-1, *[1] * (part.ndim - 1)) for part in new]
        self.found = Conditional(*map(np.where, known, new, self.found))
        self._take_frame(x0)

    def learn_spread(self) -> None:
        """Take D_i from the positions that were seen since the last time."""
        count, total, square = np.moveaxis(self.moments, 1, 0)
        count = np.maximum(count, 1.0)
        variance = np.maximum(square / count - (total / count) ** 2, 0.0)
        pooled = (count * variance + PRIOR_DRAWS) / (count + PRIOR_DRAWS)
        self.spread = self.spread * np.sqrt(pooled)
        self.moments = np.zeros_like(self.moments)

    def observe(self, positions: Any) -> None:
        """Note positions w (chain, agent, local)."""
        w = np.asarray(positions)
        sums = np.full(w.shape[1:], float(len(w))), w.sum(axis=0), (w**2).sum(axis=0)
        self.moments = self.moments + np.stack(sums, axis=1)

    def _take_frame(self, x0: np.ndarray) -> None:
        (mode, slope, root), shared = self.found, len(self.centre)
        dim = shared + mode.shape[1]
        centre, scale = np.zeros((len(mode), dim)), np.zeros((len(mode), dim, dim))
        centre[:, :shared], scale[:, :shared, :shared] = self.centre, self.scale
        centre[:, shared:] = mode + slope @ (self.centre - x0)  # (1)
        scale[:, shared:, :shared] = slope @ self.scale  # (1)
        scale[:, shared:, shared:] = root * self.spread[:, None, :]  # (1)
        self.set_frame(centre, scale)

    def set_frame(self, centre: np.ndarray, scale: np.ndarray) -> None:
        """Move the agents to the coordinates z = centre + scale (q, w)."""
        parts = (centre, scale, np.zeros_like(centre), np.zeros_like(scale))
        self.frame = Frame(*map(jnp.asarray, parts))
        self.moved = grouped(replace(self.agents, frame=self.frame))

    def arrays(self) -> dict[str, np.ndarray]:
        """All that changes, as named arrays."""
        parts = {"centre": self.frame.centre, "scale": self.frame.scale, "spread": self.spread}
        parts |= {"moments": self.moments, **self.found._asdict()}
        return {f"{OWN}site_{name}": np.asarray(value) for name, value in parts.items()}

    def restore(self, named: dict[str, np.ndarray]) -> None:
        """Go back to where these were the `arrays`."""
        own = {name.removeprefix(f"{OWN}site_"): value for name, value in named.items()}
        self.found = Conditional(*(own[name] for name in Conditional._fields))
        self.spread, self.moments = own["spread"], own["moments"]
        self.set_frame(own["centre"], own["scale"])


@jax.jit
def _conditionals(agents: Agent, x: Any, starts: Any) -> Conditional:
    return jax.vmap(conditional, in_axes=(0, None, 0))(agents, x, starts)


@jax.jit
def original_positions(frame: Frame, phase: SplitPhase) -> Any:
    """The model's flat vectors, (chain, agent, dim)."""

    def of_agent(own_frame, w):
        return jax.vmap(lambda q, own: own_frame.to_original(jnp.concatenate([q, own])))(
            phase.position, w
        )

    return jax.vmap(of_agent)(frame, phase.own.position.swapaxes(0, 1)).swapaxes(0, 1)


@jax.jit
def relocated(before: Frame, after: Frame, phase: SplitPhase) -> Any:
    """Local positions (chain, agent, local) in other coordinates with the same c and L."""
    shared, local = phase.position.shape[1], original_positions(before, phase)

    def of_agent(own_frame, z):
        lower, root = own_frame.scale[shared:, :shared], own_frame.scale[shared:, shared:]
        left = z[:, shared:] - own_frame.centre[shared:] - phase.position @ lower.T
        return jnp.linalg.solve(root, left.T).T

    return jax.vmap(of_agent)(after, local.swapaxes(0, 1)).swapaxes(0, 1)

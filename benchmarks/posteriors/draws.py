"""Draws of every agent, by any method, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import starlings as st
from starlings.diagnostics.nested_rhat import recorded_superchains


@dataclass(frozen=True)
class Draws:
    """Named draws, each of shape (chain, draw, agent, ...), on the constrained scale."""

    named: dict[str, np.ndarray]
    network_rounds: int | None = None
    """Network rounds of the whole run, all included; None for a method without rounds."""
    bytes_sent: float | None = None
    """Bytes sent by all agents together, all included; None if nothing is sent."""
    seconds: float | None = None
    """CPU seconds of such a run where nothing is compiled; None if it was not timed."""
    first_seconds: float | None = None
    """CPU seconds of the first run, in which programs are compiled; None if it was not timed."""
    superchains: np.ndarray | None = None
    """The superchain of every chain; None where no chains began in groups."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """What the result says of itself."""
    warnings: list[str] = field(default_factory=list)
    """What the run warned of."""

    @classmethod
    def of(cls, result: st.Result) -> Draws:
        """The draws of a run of the network."""
        named = {str(name): v.to_numpy() for name, v in result.posterior.data_vars.items()}
        if all(np.array_equal(v, np.broadcast_to(v[:, :, :1], v.shape)) for v in named.values()):
            named = {name: v[:, :, :1] for name, v in named.items()}  # the same at all agents
        return cls(
            named,
            int(result.attrs["network_rounds"]),
            float(result.attrs["bytes_sent"]),
            superchains=recorded_superchains(result.attrs),
            attributes=dict(result.attrs),
        )

    @property
    def lead(self) -> tuple[int, int, int]:
        """Chains, draws and agents."""
        chains, draws, agents = next(iter(self.named.values())).shape[:3]
        return chains, draws, agents

"""Draws of every agent, by any method, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import starlings as st


@dataclass(frozen=True)
class Draws:
    """Named draws, each of shape (chain, draw, agent, ...), on the constrained scale."""

    named: dict[str, np.ndarray]
    rounds: float | None = None
    """Rounds of all chains together, after burn-in; None for a method without rounds."""
    bytes_sent: float | None = None
    """Bytes sent by all agents together, after burn-in; None if nothing is sent."""

    @classmethod
    def of(cls, result: st.Result) -> Draws:
        """The draws of a run of the network."""
        named = {str(name): v.to_numpy() for name, v in result.posterior.data_vars.items()}
        sizes, attrs = result.posterior.sizes, result.attrs
        rounds = sizes["draw"] * int(attrs["thin"])
        sent = float(result.sample_stats["bytes_sent"].isel(draw=-1).sum())
        share = rounds / (rounds + int(attrs["burn_in"]))
        return cls(named, float(rounds * sizes["chain"]), sent * share)

    @property
    def lead(self) -> tuple[int, int, int]:
        """Chains, draws and agents."""
        chains, draws, agents = next(iter(self.named.values())).shape[:3]
        return chains, draws, agents

"""What a result says of the methods on sums: their names, settings and traffic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from starlings.network.gossip import Gossip


@dataclass(frozen=True)
class ImportanceWeights:
    """Draws by importance weights."""

    candidates: int
    """Candidates of all batches."""
    batches: int
    """Batches of candidates, each of which took one sum over the network."""
    draws_by: str = "resampling"
    """"resampling", by smoothed weights, or "metropolis", by an independence chain."""
    draws_nothing: ClassVar[bool] = False

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True)
class LockStepHMC:
    """Draws by lock-step Hamiltonian Monte Carlo."""

    step: float
    """Length of a leapfrog, in posterior standard deviations."""
    trajectory_length: float
    """Length of the longest trajectories, in posterior standard deviations."""
    draws_nothing: ClassVar[bool] = False

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True)
class OneShot:
    """Draws that every agent makes by itself, combined by one sum."""

    combination: str
    """One of `starlings.methods.one_shot.COMBINATIONS`."""
    draws_of_each_agent: int
    """Draws that every agent makes from its own potential, of all chains."""
    draws_nothing: ClassVar[bool] = False

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True)
class SumTraffic:
    """What the agents have sent when a draw is made, by a method on sums."""

    shares: np.ndarray
    """The part of all messages that each agent sends, (agent,)."""
    messages: np.ndarray
    """Messages of all agents until each draw, (draw,)."""
    sizes: np.ndarray
    """Bytes of all agents until each draw, (draw,)."""

    @classmethod
    def of(cls, gossip: Gossip, messages: Any, floats: Any) -> SumTraffic:
        """The traffic of sums over a network; messages and numbers until each draw are given."""
        total = max(1, int(gossip.messages_by_agent.sum()))
        counts = np.atleast_1d(messages), 8 * np.atleast_1d(floats)
        return cls(gossip.messages_by_agent / total, *counts)

    def until(
        self, draws: np.ndarray, agents: np.ndarray, broadcasts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return messages and bytes of some agents until each of these draws, (draw, 1, agent)."""
        places, shares = np.minimum(draws, len(self.messages) - 1), self.shares[None, agents]
        counts = (self.messages[places], self.sizes[places])
        messages, sizes = (np.rint(np.multiply.outer(c, shares)).astype(int) for c in counts)
        return messages, sizes

"""What all agents have sent: rounds, messages, numbers, and what the numbers of each were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """A count of what all agents have sent so far."""

    rounds: int = 0
    messages: int = 0
    """Messages of all agents, one for each neighbour that an agent sends to."""
    floats: int = 0
    """Numbers in those messages."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Numbers of its own that each agent sent or put into sums, by what they are."""
    senders: dict[str, list[str]] = field(default_factory=dict)
    """The names of the agents that sent numbers of a kind, where not all did."""

    @property
    def bytes(self) -> int:
        """The size of those numbers, of 8 bytes each."""
        return 8 * self.floats

    def add(self, rounds: int, messages: int, floats_each: int) -> None:
        """Count rounds in which `messages` of `floats_each` numbers were sent in all."""
        self.rounds += rounds
        self.messages += messages
        self.floats += messages * floats_each

    def note(self, what: str, numbers: int, senders: Sequence[str] | None = None) -> None:
        """Note that each agent, or each of some, has sent so many numbers of its own."""
        self.kinds[what] = self.kinds.get(what, 0) + numbers
        if senders is not None:
            self.senders[what] = sorted({*self.senders.get(what, ()), *senders})

    def copy(self) -> Ledger:
        """An equal count that goes on by itself."""
        kinds, senders = dict(self.kinds), {k: list(v) for k, v in self.senders.items()}
        return Ledger(self.rounds, self.messages, self.floats, kinds, senders)

"""A tap on everything that one MPI process gives to the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.runtime.callback import exchange_on_host
from starlings.runtime.mpi.communicator import MPICommunicator

CALLS = ("sum", "broadcast", "first", "gather")
"""The methods that take what is sent, other than `exchange`."""


class Tap:
    """Keeps what is sent by each method of the communicator, in a context."""

    def __init__(self) -> None:
        self.sent: dict[str, list[Any]] = {}
        self.original = {name: getattr(MPICommunicator, name) for name in (*CALLS, "exchange")}

    def __enter__(self) -> Tap:
        for name in CALLS:
            setattr(MPICommunicator, name, self._tapped(name))
        original = self.original["exchange"]

        def exchange(communicator, messages):
            heard = exchange_on_host(self._heard, messages, len(messages))
            return original(communicator, heard)

        MPICommunicator.exchange = exchange
        return self

    def __exit__(self, *_: Any) -> None:
        for name, original in self.original.items():
            setattr(MPICommunicator, name, original)

    def _tapped(self, name: str) -> Any:
        def call(communicator, value, *arguments, **named):
            self.sent.setdefault(name, []).append(value)
            return self.original[name](communicator, value, *arguments, **named)

        return call

    def _heard(self, messages: np.ndarray) -> np.ndarray:
        self.sent.setdefault("exchange", []).append(messages.copy())
        return messages

    def check_nothing_in_the_clear(self, draws: np.ndarray) -> None:
        """Only `gather`, of the draws of a run that is over, has shown a number of a single site.

        Args:
            draws: positions of all agents that must not be seen elsewhere, such as the result's.
        """
        gathered = self.sent.pop("gather")
        assert len(gathered) == 2, "draws and residuals, once"
        known = {np.float64: np.unique(draws), np.float32: np.unique(draws.astype(np.float32))}
        for name, values in self.sent.items():
            for value in values:
                self._check(name, value, known)
        self.sent.clear()

    def _check(self, name: str, value: Any, known: dict[Any, np.ndarray]) -> None:
        if not isinstance(value, np.ndarray):
            assert value is None or isinstance(value, (bool, int, bytes)), (name, type(value))
            return
        for dtype, positions in known.items():
            for offset in (0, 4):
                data = np.ascontiguousarray(value).tobytes()[offset:]
                data = data[: len(data) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize]
                seen = np.frombuffer(data, dtype)
                assert not np.isin(seen[seen != 0], positions).any(), f"{name} in the clear"
        if name == "sum":  # counts, keys, and limbs of masked numbers
            assert (value == np.rint(value)).all()
            assert (value >= 0).all()

"""What rounds cost: messages, bytes, gradients and seconds, of one chain.

After k rounds, with m_i(k) the messages of agent i and n the numbers in a message,

    messages = sum_i m_i(k),     bytes = 8 n messages,     gradients = g(k)                    (1)

with g(k) the times that an agent has gone through its rows. What tuning sent comes on top. Where an
agent may be silent, messages are counted in chains, and are the mean over these.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from starlings.comparison.samplers.settings import Trial
from starlings.comparison.samplers.simulated import Simulated
from starlings.samplers import Sampler

FLOAT_BYTES = np.dtype(np.float64).itemsize
"""Bytes of a number."""
COSTS = ("round", "messages", "bytes", "gradients", "seconds")
"""The columns of costs."""


def costs(
    trial: Trial,
    sampler: Sampler,
    rounds: np.ndarray,
    pace: float,
    counted: Simulated | None = None,
) -> pd.DataFrame:
    """A row for each of some rounds after the start, eq. (1).

    Args:
        trial: what is run, with what its tuning has cost.
        sampler: the sampler with its settings.
        rounds: numbers of rounds after the start.
        pace: seconds for a round, measured; nan if no round was run.
        counted: chains that include these rounds, and may have counted their messages.
    """
    problem, network, spent = trial.place.problem, trial.place.network, trial.spent
    messages = sampler.messages_until(np.asarray(rounds), network).sum(axis=-1)
    if counted is not None and counted.messages is not None:
        messages = np.interp(rounds, counted.rounds, counted.messages)
    numbers = sampler.floats(problem.dim)
    gradients = sampler.gradients_until(np.asarray(rounds), problem)
    return pd.DataFrame(
        {
            "round": np.asarray(rounds) + spent.rounds,
            "messages": messages + spent.messages,
            "bytes": FLOAT_BYTES * (messages * numbers + spent.floats),
            "gradients": gradients + trial.iterations,
            "seconds": np.asarray(rounds) * pace,
        }
    )

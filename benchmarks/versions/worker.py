"""One version of the library as a process: it reads the name of a case and a number of rounds from
each line of its input, runs them, and answers with the seconds that they took.

It uses nothing but public names that have not changed since version 0.1, so that it can run with
the sources of an older version: `python worker.py SOURCES`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

SOURCES = 1
"""Place of the folder of sources among the arguments."""


def cases() -> dict[str, Callable[[], tuple]]:
    """What is timed: problem, network, sampler, number of chains and precision, by name."""
    import starlings as st

    def gaussian(agents: int, dim: int) -> st.Problem:
        random = np.random.default_rng(0)
        directions, linear = random.normal(size=(2, agents, dim))
        hessians = np.eye(dim) + directions[:, :, None] * directions[:, None, :] / dim
        return st.models.gaussian(hessians, linear)

    def logistic(agents: int, rows: int = 50) -> st.Problem:
        random = np.random.default_rng(0)
        X = random.normal(size=(agents * rows, 2))
        y = (random.random(len(X)) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)
        return st.models.logistic_regression(X, y, np.repeat(np.arange(agents), rows))

    def quadratic(
        agents: int, dim: int, chains: int, noise: str, graph=st.Network.ring
    ) -> Callable:
        sampler = st.DADMMS(5.0, noise=noise)
        return lambda: (gaussian(agents, dim), graph(agents), sampler, chains, "float64")

    def newton(agents: int, chains: int) -> Callable:
        return lambda: (
            logistic(agents),
            st.Network.ring(agents),
            st.DADMMS(5.0),
            chains,
            "float64",
        )

    return {
        "gaussian ring-20 d2 1-chain private": quadratic(20, 2, 1, "private"),
        "gaussian ring-20 d2 1-chain": quadratic(20, 2, 1, "coherent"),
        "gaussian ring-20 d2 100-chains": quadratic(20, 2, 100, "coherent"),
        "gaussian ring-100 d8 100-chains": quadratic(100, 8, 100, "coherent"),
        "gaussian ring-1000 d8 100-chains": quadratic(1000, 8, 100, "coherent"),
        "gaussian ring-10000 d8 1-chain": quadratic(10_000, 8, 1, "coherent"),
        "gaussian ring-100000 d2 1-chain": quadratic(100_000, 2, 1, "coherent"),
        "gaussian complete-100 d8 10-chains": quadratic(
            100, 8, 10, "coherent", st.Network.complete
        ),
        "logistic ring-20 1-chain": newton(20, 1),
        "logistic ring-20 100-chains": newton(20, 100),
        "midpoint ring-100 d8 10-chains": lambda: (
            gaussian(100, 8),
            st.Network.ring(100),
            st.MidpointADMMS(5.0),
            10,
            "float64",
        ),
        "D-SGLD ring-100 d8 10-chains": lambda: (
            gaussian(100, 8),
            st.Network.ring(100),
            st.DSGLD(0.001),
            10,
            "float64",
        ),
    }


def seconds(case: tuple, rounds: int) -> float:
    """Wall time of a run of `rounds` rounds that keeps one draw."""
    import starlings as st

    problem, network, sampler, chains, precision = case
    began = time.perf_counter()
    how = {"draws": 1, "burn_in": 0, "thin": rounds, "progress": False, "check": False}
    st.sample(problem, network, sampler, chains=chains, precision=precision, **how)
    return time.perf_counter() - began


def main() -> None:
    """Answer every line of the input with one number."""
    sys.path.insert(0, sys.argv[SOURCES])
    makers, made = cases(), {}
    for line in sys.stdin:
        name, rounds = line.rstrip("\n").rsplit("|", 1)
        if name not in made:
            made.clear()  # one case in memory at a time
            made[name] = makers[name]()
        print(seconds(made[name], int(rounds)), flush=True)


if __name__ == "__main__":
    main()

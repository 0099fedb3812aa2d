"""Lossy links: asynchronous D-ADMMS, which goes on, beside D-ADMMS, which waits.

Every message takes one interval, or is lost with some probability. Waiting, an agent sends a
message again in each interval until it arrives, and makes round k once those of all neighbours are
in; with tries G_ij, which are geometric, agent i ends round k at

    T_i^k = max over the neighbours j and i itself of (T_j^(k-1) + G_ij),     G_ii = 1        (1)

Steps in an interval are then k / T^k; those of asynchronous D-ADMMS are its ticks. Its figures are
simulated; those of waiting are exact, as nothing is lost in the end. All potentials are Gaussian,
and the step is 0.1 in units of the posterior's curvature.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import starlings as st
from starlings.theory import Moments, law

from .tables import wide_console

STEP, DIM, THIN = 0.1, 2, 7
NETWORKS = {
    "ring of 5": st.Network.ring(5),
    "ring of 20": st.Network.ring(20),
    "star of 20": st.Network.star(20),
    "path of 20": st.Network.path(20),
    "complete graph of 20": st.Network.complete(20),
}
LOSSES = (0.1, 0.3, 0.5)


class Figures(NamedTuple):
    """How right draws are, and how many steps are made."""

    w2: float
    """The worst agent's W2 distance from the posterior, in posterior sd."""
    ratio: float
    """Mean variance over that of the posterior."""
    steps: float
    """Langevin steps in the time that a message takes."""


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Print a table, and return its rows."""
    chains, losses = (50, LOSSES[1:2]) if quick else (1000, LOSSES)
    names = list(NETWORKS)[:1] if quick else list(NETWORKS)
    heads = ("W2", "variance ratio", "steps an interval")
    columns = [f"{head}, {way}" for way in ("on", "wait") for head in heads]
    table = Table("network", "loss", *columns)
    rows = []
    start = time.perf_counter()
    for name in names:
        for loss in losses:
            on, wait = (how(NETWORKS[name], loss, chains) for how in (going_on, waiting))
            rows.append({"network": name, "loss": loss, "on": on, "wait": wait})
            cells = [f"{value:.3f}" for value in (*on, *wait)]
            table.add_row(name, f"{loss:.1f}", *cells)
    console = wide_console()
    console.print(table)
    console.print(f"{chains} chains each, {time.perf_counter() - start:.0f} s in all")
    return rows


def problem_of(agents: int) -> st.Problem:
    """Gaussian potentials of ten random rows each, whose posterior has the covariance I."""
    random = np.random.default_rng(0)
    X = random.normal(size=(agents, 10, DIM))
    H = np.einsum("nri,nrj->nij", X, X) / 10
    b = np.einsum("nij,nj->ni", H, random.normal(size=(agents, DIM)))
    L = np.linalg.cholesky(np.linalg.inv(H.sum(axis=0)))
    return st.models.gaussian(L.T @ H @ L, b @ L)


def penalty(network: st.Network) -> float:
    """The rho for `STEP`."""
    return 1 / (4 * STEP * network.num_edges)


def going_on(network: st.Network, loss: float, chains: int) -> Figures:
    """Asynchronous D-ADMMS, simulated."""
    problem, lossy = problem_of(network.size), network.lossy(loss)
    how = {"chains": chains, "burn_in": 250, "thin": THIN, "draws": 60, "check": False}
    start = problem.exact_posterior()[0]
    sampler = st.AsyncDADMMS(penalty(network))
    result = st.sample(problem, lossy, sampler, initial=start, progress=False, **how)
    draws = result.posterior["x"].values.reshape(-1, network.size, DIM)
    covariance = np.cov(draws.reshape(len(draws), -1).T)
    return _figures(Moments(draws.mean(axis=0), covariance), problem, lossy.pace)


def waiting(network: st.Network, loss: float, chains: int) -> Figures:
    """D-ADMMS on links where lost messages are sent again: its exact law, and eq. (1)."""
    problem = problem_of(network.size)
    exact = law(problem, network, st.DADMMS(penalty(network))).stationary()
    return _figures(exact, problem, _steps_waiting(network, loss))


def _figures(moments: Moments, problem: st.Problem, steps: float) -> Figures:
    mean, covariance = problem.exact_posterior()
    w2 = moments.worst_agent_w2(mean, covariance) / np.sqrt(np.trace(covariance))
    return Figures(w2, float(np.diag(moments.covariance).mean()), steps)


def _steps_waiting(network: st.Network, loss: float, rounds: int = 2000) -> float:
    """k / T^k after many rounds of eq. (1)."""
    random = np.random.default_rng(1)
    receivers, senders = network.adjacency.nonzero()
    done = np.zeros(network.size)
    for _ in range(rounds):
        arrives = done[senders] + random.geometric(1 - loss, len(senders))
        done = done + 1
        np.maximum.at(done, receivers, arrives)  # (1)
    return rounds / float(done.max())

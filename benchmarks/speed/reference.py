"""Against plain implementations: agent-rounds per second of the library, of NumPy and of CVXPY.

All three do D-ADMMS on the same rows (see `plain_numpy` for the equations). One agent-round is one
agent of one chain in one round:

    agent-rounds per second = agents x chains / seconds per round                              (1)
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import starlings as st

from .plain_numpy import NumpyRun, noise_of
from .problems import FAMILIES, RHO, Regression
from .timing import LibraryRun, Run, Settings, alternated, median_ratio, typical

TITLE = "Against plain implementations"
COLUMNS = {
    "family": ("regression", "s"),
    "graph": ("graph", "s"),
    "law": ("noise", "s"),
    "agents": ("agents", "d"),
    "chains": ("chains", "d"),
    "ours": ("starlings", ",.0f"),
    "numpy": ("NumPy", ",.0f"),
    "cvxpy": ("CVXPY", ",.0f"),
    "cvxpy_cpu_ms": ("CVXPY, CPU ms", ".1f"),
    "over_numpy": ("over NumPy", ".1f"),
    "over_cvxpy": ("over CVXPY", ",.0f"),
    "compile_seconds": ("compile s", ".1f"),
}
OVER_CVXPY = {"linear": 20_000, "logistic": 2_000}
"""The targets: times as many agent-rounds per second as CVXPY."""
TEXT = f"""\
The published implementation solves one CVXPY problem for every agent, chain and round. An
agent-round is one agent of one chain in one round. The columns `starlings`, `NumPy` and `CVXPY`
are agent-rounds per second: of this library, of the same algorithm written with NumPy arrays over
all agents and chains, and of a transcription with CVXPY (solver Clarabel), of which one chain is
timed since its chains follow one another. `CVXPY, CPU ms` is CPU time in milliseconds for one
agent-round; `over NumPy` and `over CVXPY` are how many times as fast starlings is. JAX uses all
cores, NumPy and CVXPY one. The noise `paper` is the published one, drawn by every agent;
`coherent` is the library's default. Targets: {OVER_CVXPY["linear"]:,} times CVXPY on the linear and
{OVER_CVXPY["logistic"]:,} times on the logistic regression with 100 chains of a ring of 20 and the
published noise, and never slower than NumPy."""
TARGET_SETTING = ("ring", "paper", 20, 100)
"""The graph, noise, agents and chains at which `OVER_CVXPY` is wanted."""
LAWS = ("paper", "coherent")
"""The laws of the noise that are measured."""
SIZES = [("ring", agents, chains) for agents in (5, 20, 100) for chains in (1, 100)]
SIZES.append(("complete", 20, 100))
QUICK_SIZES = [("ring", 5, 1), ("ring", 20, 100)]
GRAPHS = {"ring": st.Network.ring, "complete": st.Network.complete}


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Measure every regression, size and law of the noise."""
    sizes = QUICK_SIZES if settings.quick else SIZES
    cases = product(FAMILIES, sizes, LAWS)
    return [row(family, *size, law, settings) for family, size, law in cases]


def row(
    family: str, graph: str, agents: int, chains: int, law: str, settings: Settings
) -> dict[str, Any]:
    """Time the three implementations on one problem, in turns."""
    from .plain_cvxpy import CvxpyRun

    regression, network = Regression.of(family, agents), GRAPHS[graph](agents)
    shape = (agents, chains, regression.problem.dim)
    start = np.random.default_rng(1).normal(size=shape)
    sampler = st.DADMMS(RHO, noise=law, output="iterate")
    ours = LibraryRun(regression.problem, network, sampler, chains)
    noise, one = (
        noise_of(law, network, RHO, shape),
        noise_of(law, network, RHO, (agents, 1, shape[2])),
    )
    runs: dict[str, Run] = {
        "ours": ours,
        "numpy": NumpyRun(regression, network, RHO, noise, start),
        "cvxpy": CvxpyRun(regression, network, RHO, one, start[:, 0].copy()),
    }
    laps = alternated(runs, settings)
    at_once = {"ours": agents * chains, "numpy": agents * chains, "cvxpy": agents}
    cells = {"family": family, "graph": graph, "law": law, "agents": agents, "chains": chains}
    cells |= {name: at_once[name] / typical(laps[name]).wall for name in runs}  # (1)
    cells["cvxpy_cpu_ms"] = 1000 * typical(laps["cvxpy"]).cpu / agents
    cells["over_numpy"] = median_ratio(laps["numpy"], laps["ours"])
    cells["over_cvxpy"] = chains * median_ratio(laps["cvxpy"], laps["ours"])
    cells["compile_seconds"] = ours.compile_seconds
    return cells | {"targets": targets(family, graph, law, agents, chains)}


def targets(
    family: str, graph: str, law: str, agents: int, chains: int
) -> dict[str, list[float | None]]:
    """The targets of a row: never slower than NumPy, and `OVER_CVXPY` at the paper's size."""
    wanted: dict[str, list[float | None]] = {"over_numpy": [1.0, None]}
    if (graph, law, agents, chains) == TARGET_SETTING:
        wanted["over_cvxpy"] = [OVER_CVXPY[family], None]
    return wanted

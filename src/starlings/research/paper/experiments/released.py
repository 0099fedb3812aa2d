"""What the released code computes instead of Algorithm 1, on rings.

The published curves come from code that differs from Algorithm 1 in two ways, emulated here and
nowhere else. In the sweep over agents i = 0, 1, ... with d_i neighbours,

    x_i = argmin_x f_i(x) + p_i'x + rho sum_j |x - (x_i + x_j)/2 + w_i / (sqrt(2) rho)|^2      (1)

(i) j runs over the agents 0, ..., d_i - 1 and not over the neighbours of i;
(ii) x_i is written in place, so that agents later in the sweep see it in the same round.

The dual variables are updated after the sweep, with the right neighbours. f_i is quadratic,
f_i(x) = x'H_i x / 2 - b_i'x, so that (1) is

    (H_i + 2 rho d_i) x_i = b_i - p_i + rho sum_j (x_i + x_j) - sqrt(2) d_i w_i                (2)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from starlings.problem import Problem
from starlings.research.paper.curves import REPLICATES, Path, Start, band, exact_paths
from starlings.research.paper.data import linear_problem, topology
from starlings.research.paper.experiment import Experiment, Report, Settings
from starlings.research.paper.experiments.linear import RHO, paper_dadmms
from starlings.research.paper.style import METHODS, log_axis, panel_grid
from starlings.samplers import CADMM

TRIALS = 100
"""Trials behind each published number."""
REPEATS = 40
"""Emulated runs of that many trials: their mean and spread are what is compared."""

RINGS = {
    "N = 5, n = 50": (5, 50, 99),
    "N = 20, n = 10": (20, 10, 49),
    "N = 100, n = 200": (100, 200, 49),
}
"""Agents, rows of each and rounds of the stored results; the file of 20 agents fits 10 rows."""

# W2 of the average after PUBLISHED_ROUNDS, quoted from the result files in the authors' repository
# (sisl/Distributed_ADMM_Sampler, Results/Bay_Lin_Reg/Data, cyclic graphs).
PUBLISHED_ROUNDS = (1, 3, 5, 10, 20, 49)
PUBLISHED = {
    ("N = 5, n = 50", "ADMM"): (4.160, 2.920, 1.991, 0.738, 0.379, 0.381),
    ("N = 5, n = 50", "D-ADMMS"): (4.167, 2.920, 1.988, 0.682, 0.189, 0.180),
    ("N = 20, n = 10", "ADMM"): (4.498, 4.182, 3.817, 2.959, 1.710, 0.448),
    ("N = 20, n = 10", "D-ADMMS"): (4.514, 4.148, 3.770, 2.930, 1.707, 0.254),
    ("N = 100, n = 200", "ADMM"): (2.316, 0.584, 0.080, 0.078, 0.047, 0.045),
    ("N = 100, n = 200", "D-ADMMS"): (2.335, 0.592, 0.081, 0.082, 0.028, 0.025),
}


def emulate(
    problem: Problem,
    *,
    noise: float,
    rounds: int,
    trials: int,
    seed: int,
    wrong_neighbours: bool = True,
    in_place: bool = True,
) -> np.ndarray:
    """Averages over the agents (round, trial, dim) of the released code on a ring, from round 0.

    `noise` scales w_i: 0 is ADMM, 1 D-ADMMS. Without both defects this is Algorithm 1.
    """
    size, dim = problem.num_agents, problem.dim
    ring = np.stack([np.arange(size) - 1, np.arange(size) + 1], axis=1) % size
    summed_over = np.tile([0, 1], (size, 1)) if wrong_neighbours else ring
    random = np.random.default_rng(seed)
    x = random.normal(size=(trials, size, dim))
    p = np.zeros_like(x)
    averages = [x.mean(axis=1)]
    for _ in range(rounds):
        w = noise * random.normal(size=x.shape)
        _sweep(problem, x, p, w, summed_over, in_place)
        p += RHO * (2 * x - x[:, ring].sum(axis=2))
        averages.append(x.mean(axis=1))
    return np.array(averages)


def _sweep(problem, x, p, w, summed_over, in_place) -> None:
    """Eq. (2) for one agent after the other, written into x."""
    degree, seen = 2, x if in_place else x.copy()
    H, b = problem.quadratic.hessian, problem.quadratic.linear
    inverse = np.linalg.inv(H + 2 * RHO * degree * np.eye(problem.dim))
    for i, neighbours in enumerate(summed_over):
        pull = RHO * (degree * seen[:, i] + seen[:, neighbours].sum(axis=1))
        x[:, i] = (b[i] - p[:, i] + pull - np.sqrt(2) * degree * w[:, i]) @ inverse[i]


def compute(settings: Settings, report: Report) -> pd.DataFrame:
    """For each ring and method: Algorithm 1, the emulation and the published numbers."""
    tables = []
    for done, ((ring, method), numbers) in enumerate(PUBLISHED.items()):
        report(done, len(PUBLISHED))
        published = pd.DataFrame({"round": PUBLISHED_ROUNDS, "expected": numbers})
        curves = {"published": published, **estimated_curves(ring, method, settings.seed)}
        for name, table in curves.items():
            tables.append(table.assign(ring=ring, method=method, curve=name))
    report(len(PUBLISHED), len(PUBLISHED))
    return pd.concat(tables, ignore_index=True)


def estimated_curves(ring: str, method: str, seed: int) -> dict[str, pd.DataFrame]:
    """What 100 trials show of Algorithm 1 and of the released code: expectation and band."""
    num_agents, rows_each, rounds = RINGS[ring]
    problem, network = linear_problem(num_agents, rows_each), topology("ring", num_agents)
    posterior = problem.exact_posterior()
    sampler = CADMM(rho=RHO) if method == "ADMM" else paper_dadmms()
    exact = exact_paths(problem, network, sampler, rounds, Start())["average"]
    refits = exact.refitted(TRIALS, REPLICATES, np.random.default_rng(seed))
    noise = 0.0 if method == "ADMM" else 1.0
    draws = emulate(problem, noise=noise, rounds=rounds, trials=REPEATS * TRIALS, seed=seed)
    groups = draws.reshape(rounds + 1, REPEATS, TRIALS, problem.dim).swapaxes(0, 1)
    return {
        "Algorithm 1": band(refits.w2(*posterior)),
        "released code": band(Path.fitted(groups).w2(*posterior)),
    }


def draw(table: pd.DataFrame) -> Figure:
    """Rings across, ADMM and D-ADMMS down."""
    names = ["ADMM", "D-ADMMS"]
    figure, axes = panel_grid(
        2,
        3,
        titles=list(RINGS),
        xlabel="round",
        ylabels=[f"{name}, W2 of average" for name in names],
        sharex="col",
        sharey="col",
    )
    for row, method in enumerate(names):
        for column, ring in enumerate(RINGS):
            here = table[(table["method"] == method) & (table["ring"] == ring)]
            draw_panel(axes[row, column], here, {"Algorithm 1": METHODS[method].line, **LINES})
    lines = {f"{name}, Algorithm 1": METHODS[name].line for name in names}
    lines |= {"released code (emulated)": LINES["released code"], "published": LINES["published"]}
    handles = [Line2D([], [], label=name, **line) for name, line in lines.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def draw_panel(axis: Axes, here: pd.DataFrame, lines: Mapping[str, dict[str, Any]]) -> None:
    """Expectations as lines with the bands of 100 trials, and the published numbers."""
    for name, line in lines.items():
        curve = here[here["curve"] == name]
        colour = line["color"]
        axis.fill_between(curve["round"], curve["low"], curve["high"], color=colour, alpha=0.2)
        axis.plot(curve["round"], curve["expected"], **line)
    log_axis(axis)


LINES: dict[str, dict[str, Any]] = {
    "released code": {"color": "0.55", "linestyle": (0, (2, 1))},
    "published": {"color": "0.25", "linestyle": "", "marker": "x", "markeredgewidth": 2},
}
"""The lines of curves that are no method; Algorithm 1 has the line of its method."""

EXPERIMENTS = [
    Experiment(
        name="fig-released",
        title="Algorithm 1, the released code, and the published numbers, on rings",
        paper="The published curves of ADMM and D-ADMMS on rings are presented as runs of "
        "Algorithm 1.",
        compute=compute,
        draw=draw,
    )
]

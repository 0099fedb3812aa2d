"""Short runs of every sampler on every form of network and potential, for `draws.npz`.

Two commands write the whole file anew; the second one adds the cases in `CLUSTER` to it, which run
on two processes:

    python -m tests.golden.cases tests/golden/draws.npz
    mpiexec -n 2 python -m tests.golden.cases tests/golden/draws.npz mpi

The second command with further arguments, the keys of cases, runs those cases only.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import networkx as nx
import numpy as np

import starlings as st
from starlings.runtime.mpi.cluster import Cluster
from tests.mpi import placed

LENGTHS = {"draws": 4, "burn_in": 20, "thin": 3, "seed": 11, "progress": False, "check": False}


def linear_problem(agents: int = 6, dim: int = 3) -> st.Problem:
    """Linear regression with known noise, so quadratic, with 2 to 22 rows a site."""
    rng = np.random.default_rng(1)
    sites = np.repeat(np.arange(agents), 2 + 4 * np.arange(agents))
    X = rng.normal(size=(len(sites), dim))
    y = X.sum(axis=1) + rng.normal(size=len(sites))
    return st.models.linear_regression(X, y, sites, noise_std=1.0)


def logistic_problem(agents: int = 6) -> st.Problem:
    """Logistic regression with 2 to 162 rows a site, which the loop puts into groups."""
    rng = np.random.default_rng(2)
    sites = np.repeat(np.arange(agents), 2 + 32 * np.arange(agents))
    X = rng.normal(size=(len(sites), 2))
    y = (rng.random(len(sites)) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(float)
    return st.models.logistic_regression(X, y, sites)


def student_problem(agents: int = 6) -> st.Problem:
    """Student-t regression with unknown scale: neither quadratic nor a generalised linear model."""
    rng = np.random.default_rng(3)
    sites = np.repeat(np.arange(agents), 5 + 2 * np.arange(agents))
    X = rng.normal(size=(len(sites), 2))
    y = X.sum(axis=1) + rng.standard_t(4, size=len(sites))
    return st.models.student_t_regression(X, y, sites)


PROBLEMS = {"linear": linear_problem, "logistic": logistic_problem, "student": student_problem}
NETWORKS: dict[str, Callable[[], st.Network]] = {
    "ring": lambda: st.Network.ring(6),
    "star": lambda: st.Network.star(6),
    "complete": lambda: st.Network.complete(6),
    "irregular": lambda: st.Network(
        nx.Graph([(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 4), (4, 5)])
    ),
}
SAMPLERS = {
    "dadmms": st.DADMMS(2.0),
    "dadmms iterate": st.DADMMS(2.0, output="iterate"),
    "dadmms private": st.DADMMS(2.0, noise="private"),
    "dadmms paper": st.DADMMS(2.0, noise="paper", output="iterate"),
    "dadmms curvature": st.DADMMS(2.0, noise="curvature", output="iterate"),
    "dadmms coherent-curvature": st.DADMMS(2.0, noise="coherent-curvature", output="iterate"),
    "cadmm": st.CADMM(2.0),
    "midpoint": st.MidpointADMMS(2.0),
    "dsgld": st.DSGLD(0.002),
    "dsgld coherent batch": st.DSGLD(0.002, noise="coherent", batch_size=2),
    "dsghmc": st.DSGHMC(0.01, friction=7.0, batch_size=2),
    "dula": st.DULA(0.001, consensus_step=0.05),
    "dula decay": st.DULA(st.Decay(0.001, exponent=0.3), consensus_step=st.Decay(0.05)),
    "metropolis sum": st.Metropolis(0.3, flood_rounds=5, decision="sum"),
    "metropolis vote": st.Metropolis(0.3, flood_rounds=5),
}
Case = tuple[str, str, str, int, str]
"""Problem, network, sampler, chains and precision."""


def _cases() -> list[Case]:
    """Every sampler on every kind of potential; D-ADMMS on every network, alone and with others."""
    cases: list[Case] = [("linear", "irregular", name, 3, "float64") for name in SAMPLERS]
    cases += [("logistic", "ring", name, 2, "float64") for name in SAMPLERS]
    cases += [("linear", net, "dadmms", chains, "float64") for net in NETWORKS for chains in (1, 3)]
    cases += [("linear", net, "midpoint", 1, "float64") for net in NETWORKS]
    cases += [("student", "star", name, 2, "float64") for name in ("dadmms", "dsgld", "dula")]
    cases += [
        ("linear", "ring", "dadmms", 40, "float64"),
        ("linear", "star", "dsgld", 1, "float64"),
    ]
    cases += [("linear", "ring", name, 2, "float32") for name in ("dadmms", "dsghmc")]
    return list(dict.fromkeys(cases))


CASES = _cases()
TUNED = [
    ("linear", "irregular", "auto"),
    ("logistic", "ring", "auto"),
    ("logistic", "star", "midpoint"),
    ("student", "ring", "curvature"),
    ("linear", "ring", "metropolis"),
    ("linear", "star", "metropolis-vote"),
]
CLUSTER: list[Case] = [
    ("linear", "irregular", "dadmms", 2, "float64"),
    ("linear", "ring", "dsghmc", 2, "float64"),
    ("logistic", "star", "dadmms private", 2, "float64"),
    ("linear", "complete", "midpoint", 2, "float64"),
    ("linear", "ring", "metropolis sum", 2, "float64"),
]


def name_of(*case: object) -> str:
    """The key of a case in `draws.npz`."""
    return " | ".join(map(str, case))


def flat(result: st.Result) -> np.ndarray:
    """All parameters of a result, (chain, draw, agent, entry)."""
    draws = [v.values.reshape(*v.shape[:3], -1) for v in result.posterior.data_vars.values()]
    return np.concatenate(draws, axis=-1)


def drawn(problem: st.Problem, network: st.Network, case: Case) -> np.ndarray | None:
    """The draws of one case; None at all but the first of several processes."""
    _, _, sampler, chains, precision = case
    how = {"initial": np.full(problem.dim, 0.5)} if "metropolis" in sampler else {}
    settings = {"chains": chains, "precision": precision, **LENGTHS, **how}
    result = st.sample(problem, network, SAMPLERS[sampler], **settings)
    return None if result is None else flat(result)


def tuned(kind: str, network: str, exactness: str) -> np.ndarray:
    """The draws of a run that tunes itself."""
    how = {**LENGTHS, "chains": 2, "exactness": exactness}
    return flat(st.sample(PROBLEMS[kind](), NETWORKS[network](), **how))


def resumed(folder: Path) -> np.ndarray:
    """The draws of a run of 3 draws that is gone on with to 8."""
    problem, network = PROBLEMS["linear"](), NETWORKS["irregular"]()
    how = {**LENGTHS, "chains": 2, "checkpoint": folder / "run", "checkpoint_every": 7}
    st.sample(problem, network, SAMPLERS["dadmms"], **{**how, "draws": 3})
    again = st.sample(problem, network, SAMPLERS["dadmms"], **{**how, "draws": 8}, resume=True)
    return flat(again)


def all_draws() -> dict[str, np.ndarray]:
    """The draws of every case in one process."""
    found = {}
    for case in CASES:
        draws = drawn(PROBLEMS[case[0]](), NETWORKS[case[1]](), case)
        assert draws is not None
        found[name_of(*case)] = draws
    found |= {name_of("tuned", *case): tuned(*case) for case in TUNED}
    with tempfile.TemporaryDirectory() as folder:
        found["resumed"] = resumed(Path(folder))
    return found


def cluster_draws(cluster: Cluster, cases: Iterable[Case]) -> dict[str, np.ndarray]:
    """The draws of these cases on the processes of an MPI job; nothing at all but the first."""
    found = {}
    for case in cases:
        problem, network = placed(cluster, PROBLEMS[case[0]](), NETWORKS[case[1]]())
        draws = drawn(problem, network, case)
        if draws is not None:
            found[name_of("mpi", *case)] = draws
    return found


def add_cluster_draws(path: Path, names: Sequence[str]) -> None:
    """Add the cases of `CLUSTER` with these keys, or all of them, to a file of draws."""
    with Cluster() as cluster:
        wanted = [case for case in CLUSTER if not names or name_of("mpi", *case) in names]
        found = cluster_draws(cluster, wanted)
        if cluster.is_first:
            before = dict(np.load(path)) if path.exists() else {}
            np.savez_compressed(path, **{**before, **found})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    path, *options = sys.argv[1:]
    if options[:1] == ["mpi"]:
        add_cluster_draws(Path(path), options[1:])
    else:
        np.savez_compressed(path, **all_draws())

"""A study from its file to its draws, on one machine or on all processes of an MPI job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlings.results.result import Result
from starlings.sampling import sample
from starlings.study.study import Study
from starlings.system.progress import say

if TYPE_CHECKING:
    from starlings.runtime.mpi.cluster import Cluster


def run_alone(plan: Study, settings: dict[str, Any], quiet: bool) -> Result:
    """All sites in this process."""
    say(_title(plan), not quiet)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    return sample(problem, network, plan.make_sampler(), **settings, progress=not quiet)


def run_on(cluster: Cluster, plan: Study, settings: dict[str, Any], quiet: bool) -> Result | None:
    """Every process its own sites, of which it reads no others; the first gets the result."""
    progress = cluster.is_first and not quiet  # whose terminal is behind the launcher
    say(_title(plan), progress)
    survey = cluster.broadcast(plan.source.survey() if cluster.is_first else None)
    network = plan.make_network(survey.sites)
    partition = cluster.partition(network, survey.rows)
    network = cluster.place(network, partition)
    cluster.where = f", which holds {_listed(network.local_names)}"
    say(str(partition), progress)
    problem = plan.make_problem(network.local_names, cluster.merged).part_of(survey.sites)
    return sample(problem, network, plan.make_sampler(), **settings, progress=progress)


def _title(plan: Study) -> str:
    """What is run, before the rows are read."""
    model = plan.model
    where = plan.data.folder if plan.data.file is None else plan.data.file
    return (
        f"{plan.path}: {model.kind} of {model.outcome} on {_few(model.covariates)}; rows in {where}"
    )


def _few(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _listed(sites: list[str]) -> str:
    shown = _few(sites)
    return f"the site {shown}" if len(sites) == 1 else f"{len(sites)} sites: {shown}"

"""A study from its file to its draws, on one machine or on all processes of an MPI job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from starlings.results import Result
from starlings.sampling import sample
from starlings.study import Study

if TYPE_CHECKING:
    from starlings.runtimes.mpi import Cluster


def run_alone(plan: Study, settings: dict[str, Any], quiet: bool) -> Result:
    """All sites in this process."""
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    progress = False if quiet else None
    return sample(problem, network, plan.make_sampler(), **settings, progress=progress)


def run_on(cluster: Cluster, plan: Study, settings: dict[str, Any], quiet: bool) -> Result | None:
    """Every process its own sites, of which it reads no others; the first gets the result."""
    survey = cluster.told(plan.source.survey() if cluster.is_first else None)
    network = plan.make_network(survey.sites)
    partition = cluster.partition(network, survey.rows)
    network = cluster.place(network, partition)
    cluster.where = f", which holds {_listed(network.held_names)}"
    if cluster.is_first and not quiet:
        print(partition, file=sys.stderr)
    problem = plan.make_problem(network.held_names, cluster.merged).part_of(survey.sites)
    progress = cluster.is_first and not quiet  # whose terminal is behind the launcher
    return sample(problem, network, plan.make_sampler(), **settings, progress=progress)


def _listed(sites: list[str], most: int = 5) -> str:
    shown = ", ".join(sites[:most]) + (", ..." if len(sites) > most else "")
    return f"the site {shown}" if len(sites) == 1 else f"{len(sites)} sites: {shown}"

"""A study from its file to its draws, on one machine or on all processes of an MPI job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlings.errors import PrivacyError
from starlings.network import Network
from starlings.problem import Problem
from starlings.results.result import Result
from starlings.sampling import sample
from starlings.sampling.private import agreeing_network, check_rails, rails_of
from starlings.study.schema import first_names
from starlings.study.study import Study
from starlings.system.progress import print_status

if TYPE_CHECKING:
    from starlings.runtime.mpi.cluster import Cluster


def run_locally(plan: Study, settings: dict[str, Any], quiet: bool) -> Result:
    """Run a study with all sites in this process.

    Args:
        plan: the study.
        settings: keywords for `starlings.sample`.
        quiet: whether to report no progress.
    """
    print_status(_title(plan), not quiet)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    return sample(problem, network, plan.make_sampler(), **settings, progress=not quiet)


def run_on(cluster: Cluster, plan: Study, settings: dict[str, Any], quiet: bool) -> Result | None:
    """Run a study on all processes of an MPI job; the first one gets the result, the others None.

    A process reads only the rows of its own sites. Where messages are masked, no process tells the
    others how many rows a site has, and the sites are divided as if they were alike.
    """
    is_masked = settings.get("privacy", "none") != "none"
    if plan.model.standardise and is_masked:
        raise PrivacyError(
            f"{plan.path}: `standardise` tells all processes the sums of each covariate at every "
            'site, which privacy = "totals" does not allow. Standardise the columns beforehand, '
            "with means and standard deviations that all sites may know."
        )
    progress = cluster.is_first and not quiet  # the launcher shows stderr of all processes mixed
    print_status(_title(plan), progress)
    survey = plan.source.survey() if cluster.is_first else None
    sites = cluster.broadcast(None if survey is None else survey.sites)
    network = plan.make_network(sites)
    rows = None if survey is None or is_masked else survey.rows
    partition = cluster.partition(network, rows)
    network = cluster.place(network, partition)
    cluster.where = f", which holds {_listed(network.local_names)}"
    print_status(str(partition), progress)
    if plan.has_formula:
        problem, network = _agreed(plan, network, str(settings.get("privacy", "none")))
        settings = settings | {"privacy": "none"}  # it is masked already
    else:
        problem = plan.make_problem(network.local_names, cluster.merged).part_of(sites)
    return sample(problem, network, plan.make_sampler(), **settings, progress=progress)


def _agreed(plan: Study, network: Network, privacy: str) -> tuple[Problem, Network]:
    """The problem of this process, agreed by sums over a network, masked if it has to be."""
    draft, rails = plan.draft(network.local_names), rails_of(network, privacy)
    if rails is not None:
        draft = draft.checked(rails, network.size, is_masked=privacy != "none")
    network = agreeing_network(network, privacy)
    problem = plan.problem_of(draft, network)
    check_rails(problem, network, rails)
    return problem, network


def _title(plan: Study) -> str:
    """The first line of progress, which is shown before the rows are read."""
    where = plan.data.folder or plan.data.file or plan.source.path
    return f"{plan.path}: {plan.model.title}; rows in {where}"


def _listed(sites: list[str]) -> str:
    """How many sites, and the first of them."""
    shown = first_names(sites)
    return f"the site {shown}" if len(sites) == 1 else f"{len(sites)} sites: {shown}"

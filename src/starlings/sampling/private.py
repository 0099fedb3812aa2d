"""`privacy="totals"`: masked messages, and the guard rails of the sites."""

from __future__ import annotations

import math

from starlings.errors import check_choice
from starlings.network import Network
from starlings.network.budget import Budget
from starlings.network.opening import FLOAT_BYTES, KEY, LIMIT, count_smallest, count_sum
from starlings.privacy.guard_rails import GuardRails
from starlings.privacy.keys import KEY_BYTES
from starlings.privacy.secrecy import Secrecy
from starlings.problem import Problem

PRIVACY = ("none", "totals")
"""The values of the argument `privacy` of `sample`."""
MOMENTS = "moments and extremes of covariates"
"""What sites tell each other to standardise covariates, in the account of what leaves a site."""
MOMENTS_OF_COLUMN = 5
"""Numbers for each covariate: rows, sum, squared deviations, least and greatest value."""


def private_network(problem: Problem, network: Network, privacy: str, *others: Problem) -> Network:
    """The network, with masked messages if `privacy` is "totals"; a broken guard rail is an error.

    The limits in a site's file hold for all runs, and its defaults for masked ones.

    Args:
        problem: the model and the rows of the local sites.
        network: the network, with its nodes in the order of the problem's sites. It may be masked
            and limited already, where sites have agreed on that themselves.
        privacy: one of `PRIVACY`.
        others: further models of the same sites, which are checked too.
    """
    check_choice(PRIVACY, privacy=privacy)
    rails = GuardRails.of_file()
    if privacy == "totals":
        rails = rails or GuardRails()
    elif rails is not None and network.secrecy is None:
        rails.check_masks()
    if rails is not None:
        for each in (problem, *others):
            of_processes, measured = network.communicator.size, measured_columns(each)
            rails.check(network.size, each.dim, each.shards, of_processes, measured)
    most = network.communicator.first(None if rails is None else rails.most_rounds)
    budget = Budget(min(network.budget.most, math.inf if most is None else most))
    budget.spend(network.opening.rounds)
    network = network.limited(budget)
    count_smallest(network)
    network.opening.note(LIMIT, 1)
    _count_standardising(problem, network)
    if privacy == "none":
        return network
    _count_keys(network)
    return network.masked(Secrecy.agreed(network, rails))


def _count_keys(network: Network) -> None:
    """Count the sum and the smallest value of `Secrecy.agreed`."""
    count_sum(network, network.size * KEY_BYTES)  # one number for each byte
    count_smallest(network)
    network.opening.note(KEY, KEY_BYTES // FLOAT_BYTES)
    network.opening.note(LIMIT, 1)


def _count_standardising(problem: Problem, network: Network) -> None:
    """Count the sum by which the sites of a study have standardised their covariates."""
    columns = problem.description.get("standardised", {})
    if columns:
        count_sum(network, network.size * MOMENTS_OF_COLUMN * len(columns))
        network.opening.note(MOMENTS, MOMENTS_OF_COLUMN * len(columns))


def measured_columns(problem: Problem) -> tuple[str, ...]:
    """The columns that are known not to be categories: the outcome of one of our regressions."""
    return ("y",) if problem.description.get("kind") == "regression" else ()


def privacy_of(network: Network) -> str:
    """One of `PRIVACY`: whether the messages of a network are masked."""
    return "none" if network.secrecy is None else "totals"

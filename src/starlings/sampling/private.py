"""`privacy="totals"`: masked messages, and the guard rails of the sites."""

from __future__ import annotations

import math

import jax

from starlings.errors import check_choice
from starlings.formulas.agreement import COUNTS
from starlings.network import Network
from starlings.network.budget import Budget
from starlings.network.gossip import Gossip
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
    rails = rails_of(network, privacy)
    for each in (problem, *others):
        check_rails(each, network, rails)
    network = _limited(network, rails)
    _count_standardising(problem, network)
    if privacy == "none":
        _count_agreement(problem, network, is_masked=network.secrecy is not None)
        return network
    network = _masked(network, rails)
    _count_agreement(problem, network, is_masked=True)
    return network


def agreeing_network(network: Network, privacy: str) -> Network:
    """The network on which sites agree on a problem; masked already if `privacy` is "totals".

    The problem is then sampled on it with privacy="none", which leaves the masks as they are.
    """
    rails = rails_of(network, privacy)
    if privacy == "none":
        return network.limited(network.budget)
    return _masked(_limited(network, rails), rails)


def rails_of(network: Network, privacy: str) -> GuardRails | None:
    """The limits that hold for a run; None if there are none."""
    check_choice(PRIVACY, privacy=privacy)
    rails = GuardRails.of_file()
    if privacy == "totals":
        return rails or GuardRails()
    if rails is not None and network.secrecy is None:
        rails.check_masks()
    return rails


def check_rails(problem: Problem, network: Network, rails: GuardRails | None) -> None:
    """Refuse a problem that breaks a limit at a local site."""
    if rails is not None:
        of_processes, measured = network.communicator.size, measured_columns(problem)
        rails.check(network.size, problem.dim, problem.shards, of_processes, measured)


def _limited(network: Network, rails: GuardRails | None) -> Network:
    """The network with a budget of rounds, of the limits of all processes the strictest."""
    most = network.communicator.first(None if rails is None else rails.most_rounds)
    budget = Budget(min(network.budget.most, math.inf if most is None else most))
    budget.spend(network.opening.rounds)
    network = network.limited(budget)
    count_smallest(network)
    network.opening.note(LIMIT, 1)
    return network


def _masked(network: Network, rails: GuardRails | None) -> Network:
    """The network with masked messages, under keys that are agreed now."""
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


def _count_agreement(problem: Problem, network: Network, is_masked: bool) -> None:
    """Count the sums by which sites agree on a formula, where they were not made on this network.

    Between sites that is done beforehand, with the same account.
    """
    sums = problem.description.get("regression", {}).get("sums", [])
    if not sums or COUNTS in network.opening.kinds or network.num_edges == 0:
        return
    with jax.enable_x64(True):
        gossip = Gossip(network, network.opening)
    for kinds in sums:
        gossip.note(kinds, 0)
        gossip.count_sum(sum(kinds.values()), is_masked)


def measured_columns(problem: Problem) -> tuple[str, ...]:
    """The columns that are known not to be categories: the outcome of one of our regressions."""
    return ("y",) if problem.description.get("kind") == "regression" else ()


def privacy_of(network: Network) -> str:
    """One of `PRIVACY`: whether the messages of a network are masked."""
    return "none" if network.secrecy is None else "totals"

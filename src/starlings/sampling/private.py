"""`privacy="totals"`: masked messages, and the guard rails of the sites."""

from __future__ import annotations

from starlings.errors import check_choice
from starlings.network import Network
from starlings.privacy.guard_rails import GuardRails
from starlings.privacy.secrecy import Secrecy
from starlings.problem import Problem

PRIVACY = ("none", "totals")
"""The values of the argument `privacy` of `sample`."""


def private_network(problem: Problem, network: Network, privacy: str) -> Network:
    """The network, with masked messages if `privacy` is "totals"; a broken guard rail is an error.

    Args:
        problem: the model and the rows of the local sites.
        network: the network, with its nodes in the order of the problem's sites.
        privacy: one of `PRIVACY`.
    """
    check_choice(PRIVACY, privacy=privacy)
    if privacy == "none":
        return network
    rails = GuardRails.of_this_machine()
    rails.check(network.size, problem.dim, problem.shards)
    return network.masked(Secrecy.agreed(network, rails))


def privacy_of(network: Network) -> str:
    """One of `PRIVACY`: whether the messages of a network are masked."""
    return "none" if network.secrecy is None else "totals"

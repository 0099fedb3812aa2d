"""What left each site in a run: every kind of number, how many, who could read it, what follows.

A run records how many numbers of each kind an agent has sent. Who could read them depends on
whether messages were masked (`privacy="totals"`): then nobody reads more than totals of them.

The result itself leaves the site too. Samplers that run in rounds make other draws at every agent,
and those of one agent say as much as its messages, masked or not: whoever has the result has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

CONSEQUENCES = {
    "derivatives": "gradients and Hessians of a small site determine its rows",
    "potentials": "the fit of the site's rows at some points",
    "potentials at shared candidates": "thousands of values of a function of the rows, which "
    "determine few rows",
    "potentials and gradients along trajectories": "gradients at many points, which determine the "
    "rows of a small site",
    "draws": "draws of an agent: with shared noise, its gradients",
    "gradients at draws": "gradients at many points, which determine the rows of a small site",
    "summary of one site's draws": "mean, covariance and some draws of one agent, which the pilot "
    "run tells to all: with shared noise, gradients of that site",
    "draws, for consensus": "draws from the posterior of the site's own rows",
    "draws, for parametric": "mean and covariance of the posterior of the site's own rows",
    "draws, for nonparametric": "draws from the posterior of the site's own rows, at every site",
    "draws, for semiparametric": "draws from the posterior of the site's own rows, at every site",
    "mean and sd of draws": "a summary of the draws of an agent",
    "distance from the average": "how far an agent's draws are from the others'",
    "smallest penalty": "one number about the curvature of the site's fit",
    "log-ratios of densities": "the fit of the site's rows at some points",
    "sums over rows": "how well the model predicts the site's rows, as sums",
    "messages of the sampler": "positions of the sampler: with shared noise, the site's gradients "
    "in every round, which determine the rows of a small site",
}
"""What is known to follow from numbers of each kind, for somebody who reads those of one site."""
TOTALS = "nothing about one site beyond what the total over all sites says"
NEIGHBOUR_TOTALS = "nothing about one site beyond what the total over a site's neighbours says"
"""What follows where messages are masked."""
MESSAGES = "messages of the sampler"
"""The same as in `starlings.network.gossip`: reading a result imports nothing that sends."""
RESULT = "draws of the site's agent, in the result"
"""The draws by a sampler whose agents do not all make the same ones."""
RESULT_READERS = "process 0 and whoever gets the result"
RESULT_CONSEQUENCE = (
    "positions of the site's agent: with shared noise, its gradients, which determine the rows of "
    "a small site; masks do not hide them"
)
COLUMNS = ("kind", "numbers", "readable by", "what follows")


def disclosed(attrs: Mapping[str, Any], sites: list[str]) -> pd.DataFrame:
    """Return one row for each site and kind of number that left it; the index is the site.

    Args:
        attrs: the attributes of a result.
        sites: the names of the agents.
    """
    if "disclosed" not in attrs:
        raise ValueError(
            "this result does not say what left its sites: an older version of starlings made it."
        )
    kinds = json.loads(attrs["disclosed"])
    is_masked = attrs.get("privacy") == "totals"
    rows = [_row(kind, numbers, is_masked) for kind, numbers in kinds.items()]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    index = pd.Index([site for site in sites for _ in rows], name="site")
    return pd.concat([table] * len(sites), ignore_index=True).set_index(index)


def _row(kind: str, numbers: int, is_masked: bool) -> tuple[str, int, str, str]:
    is_message = kind == MESSAGES
    if kind == RESULT:
        return kind, numbers, RESULT_READERS, RESULT_CONSEQUENCE
    if is_masked:
        follows = NEIGHBOUR_TOTALS if is_message else TOTALS
        return kind, numbers, "nobody by itself", follows
    reader = "its neighbours" if is_message else "its neighbours on the way to the centre"
    return kind, numbers, reader, CONSEQUENCES.get(kind, "not examined")


def disclosed_in_words(attrs: Mapping[str, Any]) -> list[str]:
    """Return a few lines on what left each site, for the summary of a run."""
    if "disclosed" not in attrs:
        return []
    kinds = json.loads(attrs["disclosed"])
    in_result = kinds.pop(RESULT, 0)
    listed = ", ".join(f"{numbers:,} {kind}" for kind, numbers in kinds.items())
    if attrs.get("privacy") == "totals":
        ending = "all masked, so that nobody could read more than totals of them"
    else:
        ending = "not masked: neighbours of a small site can work out its rows from such numbers"
    lines = [f"Numbers that left each site: {listed}; {ending}"]
    if in_result:
        lines.append(
            f"The result has {in_result:,} numbers of each site's own draws, in the clear: whoever "
            "gets it can work out the rows of a small site, even of a masked run"
        )
    return lines

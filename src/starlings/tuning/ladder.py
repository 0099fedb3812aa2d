"""The ladder of exactness: which sampler a tuned run uses, from cheapest to exact.

    rung             per round and neighbour   bias on a Gaussian posterior
    coherent         d floats                  eta/4 of the sd
    half-noise       d floats                  eta^2/8 of the sd (the default)
    curvature        d floats                  none
    midpoint         2 d floats                none, in half the rounds
    metropolis       1 float                   none, nor on any other posterior; a sum over the
                                               network for each candidate
    metropolis-vote  1 float                   the same; a vote by flood, half the rounds for each
                                               candidate and more of them refused

with eta the step in units of the posterior's curvature and d the number of parameters. "auto" is
half-noise where the proximal steps can be long enough (an eta of `SMALLEST_STEP`, some twenty
rounds for a draw, or where less is wanted most of that), and Metropolis where the potentials are
too far from convex for it.

What a sampler gives on the Gaussian approximation is known before it runs, if its exact law is
known, from the law on N agents that carry d_i / sum_j d_j of the curvature one each: `prediction`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np

from starlings.models import gaussian
from starlings.network import Network
from starlings.samplers import DADMMS, Metropolis, MidpointADMMS, Sampler
from starlings.theory.laws import has_law, law

RUNGS: Mapping[str, Callable[..., Sampler]] = {
    "coherent": partial(DADMMS.tuned, noise="coherent", output="iterate"),
    "half-noise": partial(DADMMS.tuned, noise="coherent", output="half-noise"),
    "curvature": partial(DADMMS.tuned, noise="coherent-curvature", output="iterate"),
    "midpoint": MidpointADMMS.tuned,
    "metropolis": partial(Metropolis.tuned, decision="sum"),
    "metropolis-vote": partial(Metropolis.tuned, decision="factorised"),
}
EXACT_RUNGS = ("metropolis", "metropolis-vote")
"""Rungs that are exact on any posterior, and cannot diverge."""
EXACTNESS = ("auto", *RUNGS)
SMALLEST_STEP, SMALLEST_SHARE = 0.1, 0.8
""""auto" takes half-noise if the step eta that proximal steps allow is at least the smaller of
SMALLEST_STEP and SMALLEST_SHARE times the step that was wanted."""
LARGEST_PREDICTED = 50
"""Number of agents up to which the exact law is computed agent by agent; two stand for more."""


class Prediction(NamedTuple):
    """What the exact law says of a sampler on the Gaussian approximation; nan if it is unknown."""

    w2: float
    """The worst agent's W2 distance from the posterior, in posterior sd."""
    rounds_per_draw: float
    """Rounds per effective draw: the largest autocorrelation time of an agent."""


def automatic_rung(step: float, wanted_step: float) -> str:
    """The rung that "auto" stands for, where proximal steps allow `step` of the wanted one."""
    shortest = min(SMALLEST_STEP, SMALLEST_SHARE * wanted_step)
    return "half-noise" if step >= shortest else "metropolis"


def prediction(network: Network, sampler: Sampler, rung: str) -> Prediction:
    """The exact law's answer; an exact rung has no bias, and its pace is found by a pilot run."""
    if rung in EXACT_RUNGS:
        return Prediction(0.0, np.nan)
    if not has_law(sampler):
        return Prediction(np.nan, np.nan)
    if network.size > LARGEST_PREDICTED and rung in RUNGS:
        return _of_law(Network.path(2), _on_two_agents(sampler, network))
    if network.size > LARGEST_PREDICTED:
        return Prediction(np.nan, np.nan)
    return _of_law(Network(nx.convert_node_labels_to_integers(network.graph)), sampler)


def _on_two_agents(sampler: Sampler, network: Network) -> Sampler:
    """Consensus ADMM on two agents with the same step: alike agents move alike on every graph."""
    rho = vars(sampler)["rho"]
    return replace(sampler, rho=rho * network.num_edges)  # type: ignore[type-var]


def _of_law(network: Network, sampler: Sampler) -> Prediction:
    shares = network.degrees / network.degrees.sum()
    exact = law(gaussian(shares[:, None, None]), network, sampler)
    worst = exact.stationary().worst_agent_w2(np.zeros(1), np.eye(1))
    rounds = max(float(exact.autocorrelation_rounds(i)[0]) for i in range(network.size))
    return Prediction(worst, rounds)

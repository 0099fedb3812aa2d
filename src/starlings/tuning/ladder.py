"""The ladder of exactness: which sampler a tuned run uses, from cheapest to exact.

    rung             per round and neighbour   bias on a Gaussian posterior
    coherent         d floats                  eta/4 of the sd
    half-noise       d floats                  eta^2/8 of the sd (the default)
    curvature        d floats                  none
    midpoint         2 d floats                none, in half the rounds
    metropolis       1 float                   none, nor on any other posterior; a sum over the
                                               network for each candidate
    metropolis-vote  1 float                   none, nor on any other posterior; a vote for each
                                               candidate, in half the rounds, that refuses more

with eta the step in units of the posterior's curvature and d the number of parameters. "auto" is
half-noise where the proximal steps can be long enough (an eta of `SMALLEST_STEP`, at which a draw
takes about twenty rounds, or most of the wanted eta if that is less), and Metropolis where the
potentials are too far from convex for it.

The law of a sampler's draws on the Gaussian approximation, if it is registered in
`starlings.theory`, is computed before the run: on N agents with one parameter, each of which
carries d_i / sum_j d_j of the curvature one. See `prediction`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import networkx as nx
import numpy as np

from starlings.models import gaussian
from starlings.network import Network
from starlings.samplers import DADMMS, Metropolis, MidpointADMMS, Sampler, UnitPosterior
from starlings.theory.laws import has_law, law

SMALLEST_STEP = 0.1
SMALLEST_SHARE = 0.8
""""auto" takes half-noise if the longest step eta at which proximal steps are safe is at least
the smaller of SMALLEST_STEP (in units of the posterior's curvature) and SMALLEST_SHARE times the
wanted step."""
PACE_DIGITS = 6
"""Decimal places of predicted rounds per draw: numbers of rounds follow from them, and rounding
errors, other ones at every site, must not decide on these."""
LARGEST_PREDICTED = 50
"""Number of agents up to which the exact law is computed agent by agent; above it a network of two
agents replaces theirs."""


class Rule(NamedTuple):
    """How the settings of a sampler follow from the posterior in tuned coordinates."""

    name: str
    """The rung of the ladder, or the name of a class of samplers."""
    make: Callable[[UnitPosterior], Sampler]
    """The rule `tuned` of a class, with its choices."""
    is_exact: bool = False
    """Whether draws are exact on any posterior, so that a run cannot diverge."""
    is_alike_on_every_graph: bool = False
    """Whether agents with equal shares move alike on every graph, so that two of them, with the
    same step, have the law of any number."""

    @classmethod
    def of_class(cls, sampler: type[Sampler]) -> Rule:
        """The rule of a class of samplers that is asked for by name."""
        return cls(sampler.__name__, sampler.tuned)


_LADDER = (
    Rule(
        "coherent",
        partial(DADMMS.tuned, noise="coherent", output="iterate"),
        is_alike_on_every_graph=True,
    ),
    Rule(
        "half-noise",
        partial(DADMMS.tuned, noise="coherent", output="half-noise"),
        is_alike_on_every_graph=True,
    ),
    Rule(
        "curvature",
        partial(DADMMS.tuned, noise="coherent-curvature", output="iterate"),
        is_alike_on_every_graph=True,
    ),
    Rule("midpoint", MidpointADMMS.tuned, is_alike_on_every_graph=True),
    Rule("metropolis", partial(Metropolis.tuned, decision="sum"), is_exact=True),
    Rule("metropolis-vote", partial(Metropolis.tuned, decision="factorised"), is_exact=True),
)
RUNGS: Mapping[str, Rule] = {rule.name: rule for rule in _LADDER}
"""The rungs by name, from the cheapest to the most exact."""
EXACTNESS = ("auto", *RUNGS)
"""The values of the argument `exactness`."""


class Prediction(NamedTuple):
    """What the exact law says of a sampler on the Gaussian approximation; nan if it is unknown."""

    w2: float
    """The worst agent's W2 distance from the posterior, in posterior sd."""
    rounds_per_draw: float
    """Rounds per effective draw: the largest autocorrelation time of an agent."""


UNKNOWN = Prediction(np.nan, np.nan)
"""The prediction for a sampler whose law is not known."""


def automatic_rung(step: float, wanted_step: float) -> str:
    """The rung that "auto" stands for, if the longest safe step is `step`."""
    shortest = min(SMALLEST_STEP, SMALLEST_SHARE * wanted_step)
    return "half-noise" if step >= shortest else "metropolis"


def prediction(rule: Rule, unit: UnitPosterior, sampler: Sampler) -> Prediction:
    """What the exact law of a sampler, made by a rule from `unit`, says of its draws.

    An exact sampler has no bias; its rounds per draw are found by a pilot run. Where messages are
    lost the law is not known, but a draw takes as much longer as the network's pace says.
    """
    found, network = _without_loss(rule, unit, sampler), unit.gossip.network
    if network.faults is None:
        return found
    return Prediction(np.nan, round(found.rounds_per_draw / network.pace, PACE_DIGITS))


def _without_loss(rule: Rule, unit: UnitPosterior, sampler: Sampler) -> Prediction:
    """The prediction where no message is lost."""
    network = unit.gossip.network
    if rule.is_exact:
        return Prediction(0.0, np.nan)
    if not has_law(sampler):
        return UNKNOWN
    if network.size <= LARGEST_PREDICTED:
        return _by_law(Network(nx.convert_node_labels_to_integers(network.graph)), sampler)
    if rule.is_alike_on_every_graph:
        on_one_edge = unit._replace(rho=unit.rho * network.num_edges)  # which has the same step
        return _by_law(Network.path(2), rule.make(on_one_edge))
    return UNKNOWN


def _by_law(network: Network, sampler: Sampler) -> Prediction:
    """The law of one parameter, of whose unit curvature every agent carries its share."""
    exact = law(gaussian(network.shares[:, None, None]), network, sampler)
    worst = exact.stationary().worst_agent_w2(np.zeros(1), np.eye(1))
    rounds = max(float(exact.autocorrelation_rounds(i)[0]) for i in range(network.size))
    return Prediction(worst, round(rounds, PACE_DIGITS))

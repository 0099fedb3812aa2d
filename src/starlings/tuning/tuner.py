"""Centre, scale, shares and penalty without a coordinator and without a hyper-parameter to guess.

All that is global is a sum over the agents, formed by `gossip`:

1. the mode c, by Newton's method on such sums (see `mode`);
2. the metric L with L L' = (sum_i Hess f_i(c))^-1, so that x = c + L z has unit curvature      (1)
   everywhere near the mode; agent 0 broadcasts its c and L, so that all agents have equal bits;
3. the shares: every agent tilts its potential so that it carries d_i / sum_j d_j of the gradient
   and the curvature at c (see `starlings.problem.coordinates`). Under coherent noise agents that
   are alike move alike, so that what remains of their disagreement comes from third derivatives;
4. the penalty, from the wanted Langevin step eta in units of the posterior's curvature,

       rho = 1 / (4 |E| eta),   at least max_i -lambda_min(Hess g_i(z)) / d_i                   (2)

   over points z ~ N(0, I) that all agents draw from one seed, or that a pilot run found: the floor
   keeps the proximal step, of curvature 2 rho d_i, well posed where a potential is not convex.

For a Gaussian posterior the agents then are exactly alike, on any graph, and the law of each rung
of the `ladder` is known exactly before it runs: with half-noise output, per unit of the target's,

       variance = 1 + eta^2 / (4 (1 + eta/2)),     autocorrelation time = 1 + 2/eta rounds      (3)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from starlings.errors import TuningError, check_choice, check_positive
from starlings.network import Network
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.problem.local import refuse_local
from starlings.samplers import Sampler, UnitPosterior
from starlings.solvers.laplace import Marginal
from starlings.solvers.pooled.directions import flat_direction
from starlings.solvers.pooled.mode import default_starts, find_mode
from starlings.solvers.pooled.potential import NetworkPotential
from starlings.tuning.ladder import EXACTNESS, RUNGS, Rule, automatic_rung, prediction
from starlings.tuning.shares import even_shares, shared_points, smallest_penalty
from starlings.tuning.tuning import NEGLIGIBLE_TILT, Tuning

STEP = 0.125
"""The default of the wanted Langevin step eta, in units of the posterior's curvature."""
INVOLVED = 0.1
"""Share of the largest entry of a flat direction from which on a parameter is named in an error."""


class Goal(NamedTuple):
    """What is asked of tuning."""

    exactness: str = "auto"
    """The rung of the `ladder`; without effect if `sampler` is given."""
    sampler: type[Sampler] | None = None
    """A class of samplers to be tuned by its own rule, instead of a rung."""
    step: float = STEP
    """The wanted step eta, in units of the posterior's curvature."""

    def rule(self, step: float) -> Rule:
        """The rule by which the sampler is made, if the longest safe step is `step`."""
        if self.sampler is not None:
            return Rule.of_class(self.sampler)
        is_auto = self.exactness == "auto"
        return RUNGS[automatic_rung(step, self.step) if is_auto else self.exactness]


class Coordinates(NamedTuple):
    """Coordinates x = centre + scale z that are equal at all agents."""

    centre: np.ndarray
    """c, in unconstrained coordinates, (dim,)."""
    scale: np.ndarray
    """L of eq. (1); a vector stands for a diagonal matrix."""
    points: np.ndarray | None = None
    """Points z (point, dim) that represent the posterior; None for points drawn from N(0, I)."""
    is_at_mode: bool = False
    """Whether the centre is the mode and the scale has the curvature there, so that the sums of all
    agents' derivatives are known without asking them."""


def tune(
    problem: Problem,
    network: Network,
    start: Any = None,
    step: float = STEP,
    exactness: str = "auto",
    sampler: type[Sampler] | None = None,
) -> Tuning:
    """Find the mode, the metric, the shares and the penalty of a problem on a connected network.

    Args:
        problem: the model and the rows of every site, in the model's own coordinates.
        network: who talks to whom.
        start: where the search for the mode begins, as a flat unconstrained vector; by default at
            the origin, and at random points if it gets stuck there.
        step: the wanted Langevin step eta, in units of the posterior's curvature.
        exactness: the rung of the ladder: "auto", "coherent", "half-noise", "curvature",
            "midpoint", "metropolis" or "metropolis-vote".
        sampler: a class of samplers with a rule `tuned` of its own, instead of a rung.
    """
    check_choice(EXACTNESS, exactness=exactness)
    check_positive(step=step)
    refuse_local(problem, "tuning")
    network = network.matched_to(problem.sites)
    if network.num_edges == 0:
        raise ValueError(
            "tuning needs a network with edges, since a single agent has no other to agree with; "
            "give a sampler with its settings instead."
        )
    with jax.enable_x64(True):
        gossip, goal = Gossip(network), Goal(exactness, sampler, step)
        return tuned_from(problem, gossip, *coordinates_at_mode(problem, gossip, start), goal)


def tuned_from(
    problem: Problem, gossip: Gossip, coordinates: Coordinates, iterations: int, goal: Goal
) -> Tuning:
    """What `tune` returns, from the coordinates at the mode and the iterations they took."""
    with jax.enable_x64(True):
        return replace(tuned_at(problem, gossip, coordinates, goal), newton_iterations=iterations)


def coordinates_at_mode(
    problem: Problem, gossip: Gossip, start: Any = None
) -> tuple[Coordinates, int]:
    """The coordinates of the Gaussian approximation at the mode, and the search's iterations.

    Where parameters are local they are those of the shared ones, with the local ones integrated out
    by Laplace's approximation at every site: see `solvers.laplace`.

    Where a Gaussian stands in for absent sites they are known, and nothing is sent: the potentials
    there, without those sites, minus the totals with them, would be the absent sites' own numbers.
    """
    if problem.absent is not None and problem.absent.mode is not None:
        return Coordinates(*problem.absent.mode, is_at_mode=True), 0
    agents, count = problem.agents(gossip.network), problem.num_shared
    integrated = Marginal(replace(agents, quadratic=None)) if problem.num_local else agents
    starts = default_starts(count) if start is None else list(np.atleast_2d(start)[:, :count])
    mode = find_mode(NetworkPotential(integrated, gossip), starts, problem.point_as_text)
    _refuse_flat(problem, mode.hessian)
    found = Coordinates(mode.point, mode.scale, is_at_mode=True)  # (1)
    if gossip.network.on_mode is not None:
        gossip.network.on_mode(found)
    return found, mode.iterations


def _refuse_flat(problem: Problem, hessian: np.ndarray) -> None:
    """Refuse parameters that neither rows nor prior distinguish: the metric would be rounding."""
    entries = flat_direction(hessian)
    if entries is None:
        return
    labels = problem.parameters.flat_labels()
    names = [labels[k] for k in np.flatnonzero(entries > INVOLVED * entries.max())]
    raise TuningError(
        "the posterior is flat, as far as 16 digits can tell, in a direction of "
        f"{', '.join(names)}: rows and prior cannot tell these apart. Leave one of them out, give "
        "them a narrower prior (a smaller `prior_std`), or scale the columns to similar sizes."
    )


def tuned_at(problem: Problem, gossip: Gossip, coordinates: Coordinates, goal: Goal) -> Tuning:
    """The shares, the penalty and the sampler for coordinates that all agents have."""
    network, (centre, scale, points, is_at_mode) = gossip.network, coordinates
    tilts = even_shares(gossip, problem.affine(centre, scale).agents(network), is_at_mode)
    agents = problem.affine(centre, scale, *tilts, NEGLIGIBLE_TILT).agents(network)
    points = shared_points(problem.dim) if points is None else points
    is_even = is_at_mode and problem.is_quadratic  # then every agent has a positive share
    floor = 0.0 if is_even else smallest_penalty(gossip, agents, points)
    rho = max(1 / (4 * network.num_edges * goal.step), floor)  # (2)
    step = 1 / (4 * network.num_edges * rho)
    rule, unit = goal.rule(step), UnitPosterior(problem.dim, agents, gossip, step, rho)
    sampler: Any = rule.make(unit)
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"`tuned` of {rule.name} must return a sampler, such as `cls(step_size=unit.step)`, "
            f"got {sampler!r}."
        )
    predicted = prediction(rule, unit, sampler)
    return Tuning(
        centre,
        scale,
        *tilts,
        step=step,
        wanted_step=goal.step,
        sampler=sampler,
        rung=rule.name,
        exactness=goal.exactness,
        sent=gossip.ledger,
        predicted_w2=predicted.w2,
        predicted_rounds_per_draw=predicted.rounds_per_draw,
    )

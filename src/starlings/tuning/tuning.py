"""Centre, scale, shares and penalty without a coordinator and without a hyper-parameter to guess.

All that is global is a sum over the agents, made by `gossip`:

1. the mode c, by Newton's method on such sums (see `mode`);
2. the metric L with L L' = (sum_i Hess f_i(c))^-1, so that x = c + L z has unit curvature      (1)
   everywhere near the mode; agent 0's c and L flood the network, the same in every bit;
3. the shares: every agent tilts its potential so that it carries d_i / sum_j d_j of the gradient
   and the curvature at c (see `frames`). Under coherent noise agents that are alike move alike, so
   that what is left of their disagreement comes from third derivatives only;
4. the penalty, from the wanted Langevin step eta in units of the posterior's curvature,

       rho = 1 / (4 |E| eta),   at least max_i -lambda_min(Hess g_i(z)) / d_i                   (2)

   over points z ~ N(0, I) that all agents draw from one seed, or that a pilot run found: the floor
   keeps the proximal step, of curvature 2 rho d_i, well posed where a potential is not convex.

For a Gaussian posterior the agents then are exactly alike, on any graph, and what a rung of the
`ladder` gives is known exactly before it runs: with half-noise output, per unit of the target's,

       variance = 1 + eta^2 / (4 (1 + eta/2)),     autocorrelation time = 1 + 2/eta rounds      (3)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import TuningError, check_choice, check_positive
from starlings.network import Network
from starlings.network.gossip import Gossip, Ledger
from starlings.problem import Agent, Problem
from starlings.problem.coordinates import frame
from starlings.samplers import Sampler, UnitPosterior
from starlings.samplers.names import BUILT_IN
from starlings.tuning.ladder import EXACTNESS, RUNGS, automatic_rung, prediction
from starlings.tuning.mode import (
    agreed,
    derivatives_at,
    find_mode,
    flat_direction,
    hessian_of,
    inverse_root,
    summed,
)

STEP = 0.125
"""The wanted Langevin step eta, in units of the posterior's curvature."""
NEGLIGIBLE_TILT = 1e-3
"""What may be left of the sum of all tilts, in coordinates of unit curvature: a mean or a variance
of the posterior would change by as much. Rounding leaves some 1e-16, and more where rows can
hardly tell two parameters apart."""
POINTS = 200
"""Number of points at which the curvatures of the agents are looked at."""
OTHER_STARTS = (0.1, 1.0, 1.0, 1.0, 3.0)
"""Standard deviations of random starts for the search of the mode."""


class Goal(NamedTuple):
    """What is asked of tuning."""

    exactness: str = "auto"
    """The rung of the `ladder`; of no account where a sampler is named."""
    sampler: type[Sampler] | None = None
    """A class of samplers to be tuned by its own rule, instead of a rung."""
    step: float = STEP
    """The wanted step eta, in units of the posterior's curvature."""

    def rung(self, step: float) -> str:
        """The rung, or the name of the class, if proximal steps allow this step."""
        if self.sampler is not None:
            return self.sampler.__name__
        return automatic_rung(step, self.step) if self.exactness == "auto" else self.exactness

    def make(self, rung: str, unit: UnitPosterior) -> Sampler:
        """The sampler of a rung, or of the class."""
        return RUNGS[rung](unit) if self.sampler is None else self.sampler.tuned(unit)


class Place(NamedTuple):
    """Coordinates x = centre + scale z that all agents have agreed on."""

    centre: np.ndarray
    """c, unconstrained."""
    scale: np.ndarray
    """L of eq. (1); a vector stands for a diagonal matrix."""
    points: np.ndarray | None = None
    """Points z that stand for the posterior; None for points drawn from N(0, I)."""


@dataclass(frozen=True)
class Tuning:
    """What was agreed on, what it cost, and what it promises."""

    centre: np.ndarray
    """c, unconstrained."""
    scale: np.ndarray
    """L of eq. (1); a vector stands for a diagonal matrix."""
    tilt_slope: np.ndarray
    """The tilt b_i of every local agent, (agent, dim), which it keeps to itself."""
    tilt_curvature: np.ndarray
    """The tilt A_i of every local agent, (agent, dim, dim), or (agent, dim) if it is diagonal."""
    step: float
    """eta, in units of the posterior's curvature."""
    wanted_step: float
    """What was asked for, or what a pilot run left of it; the floor on rho may leave less."""
    sampler: Sampler
    """The sampler, with its settings."""
    rung: str
    """The rung of the ladder that was taken, or the name of the class that was asked for."""
    exactness: str
    """The rung that was asked for, maybe "auto"."""
    newton_iterations: int
    """Iterations of the search for the mode."""
    pilots: int
    """Pilot runs after which coordinates or step were chosen again, see `pilot`."""
    sent: Ledger
    """Rounds, messages and floats of all agents together, pilot runs included."""
    predicted_w2: float
    """The worst agent's W2 distance from a Gaussian posterior, in posterior sd; nan if unknown."""
    predicted_rounds_per_draw: float
    """The largest autocorrelation time there, in rounds; nan where only a pilot run can tell."""

    def problem(self, problem: Problem) -> Problem:
        """The same posterior in coordinates of unit curvature, evenly shared."""
        tilts = (self.tilt_slope, self.tilt_curvature)
        return problem.affine(self.centre, self.scale, *tilts, NEGLIGIBLE_TILT)

    def coordinates(self, positions: np.ndarray) -> np.ndarray:
        """Unconstrained positions (..., dim) as the z of these coordinates."""
        return frame(self.centre, self.scale, 0).from_original(positions)

    def summary(self) -> str:
        """One line for people."""
        text = (
            f"tuned in {self.sent.rounds} rounds (Newton iterations: {self.newton_iterations}): "
            f"{self.sampler.card.title}, step = {self.step:.3g}"
        )
        if not np.isnan(self.predicted_w2):
            text += f"; predicted for the worst agent W2 = {self.predicted_w2:.3f} sd"
        if not np.isnan(self.predicted_rounds_per_draw):
            text += f", {self.predicted_rounds_per_draw:.0f} rounds per effective draw"
        return text

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What all agents share, in terms that JSON has, and what each keeps to itself."""
        own = {"tilt_slope": self.tilt_slope, "tilt_curvature": self.tilt_curvature}
        shared = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
        settings = {"kind": type(self.sampler).__name__, **vars(self.sampler)}
        agreed_on = {"centre": self.centre.tolist(), "scale": self.scale.tolist()}
        return {**shared, **agreed_on, "sampler": settings, "sent": asdict(self.sent)}, own

    @classmethod
    def from_parts(
        cls, shared: dict[str, Any], own: dict[str, np.ndarray], asked: type[Sampler] | None = None
    ) -> Tuning:
        """What `parts` was made from; `asked` is the class of samplers that was to be tuned."""
        kinds = {kind.__name__: kind for kind in BUILT_IN.values()}
        settings = dict(shared["sampler"])
        kind = kinds[settings.pop("kind")] if asked is None else asked
        settings.pop("kind", None)
        again = {
            "centre": np.array(shared["centre"]),
            "scale": np.array(shared["scale"]),
            "sampler": kind(**settings),
            "sent": Ledger(**shared["sent"]),
        }
        return cls(**{**shared, **own, **again})

    def record(self) -> dict[str, Any]:
        """What belongs to a saved result: not the tilts, which are the agents' own."""
        names = ("step", "rung", "exactness", "newton_iterations", "pilots")
        predictions = ("predicted_w2", "predicted_rounds_per_draw")
        agreed_on = {"centre": self.centre.tolist(), "scale": self.scale.tolist()}
        chosen = {name: getattr(self, name) for name in names + predictions}
        return agreed_on | chosen | asdict(self.sent)


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
        start: where the search for the mode begins, as a flat unconstrained vector.
        step: the wanted Langevin step eta, in units of the posterior's curvature.
        exactness: the rung of the `ladder`.
        sampler: a class of samplers with a rule `tuned` of its own, instead of a rung.
    """
    check_choice(EXACTNESS, exactness=exactness)
    check_positive(step=step)
    network = network.matched_to(problem.sites)
    if network.num_edges == 0:
        raise ValueError(
            "tuning needs a network with edges; an agent alone has nobody to agree with."
        )
    with jax.enable_x64(True):
        gossip, agents = Gossip(network), problem.agents(network)
        starts = default_starts(problem.dim) if start is None else [np.asarray(start, float)]
        centre, hessian, iterations = find_mode(gossip, agents, starts, problem.in_words)
        _refuse_flat(problem, hessian)
        scale = agreed(gossip, inverse_root(hessian))  # (1)
        goal = Goal(exactness, sampler, step)
        return tuned_at(problem, gossip, Place(centre, scale), goal, iterations)


def default_starts(dim: int) -> list[np.ndarray]:
    """Where to look for the mode: at the origin, and if the search gets stuck there, elsewhere."""
    random = np.random.default_rng(0)
    return [np.zeros(dim), *(size * random.standard_normal(dim) for size in OTHER_STARTS)]


def _refuse_flat(problem: Problem, hessian: np.ndarray) -> None:
    """Parameters that neither rows nor prior can tell apart leave the metric to rounding errors."""
    part = flat_direction(hessian)
    if part is None:
        return
    labels = problem.parameters.flat_labels()
    names = [labels[k] for k in np.flatnonzero(part > 0.1 * part.max())]
    raise TuningError(
        "the posterior is flat, as far as 16 digits can tell, in a direction of "
        f"{', '.join(names)}: rows and prior cannot tell these apart. Leave one of them out, give "
        "them a narrower prior (a smaller `prior_std`), or scale the data's columns to like sizes."
    )


def tuned_at(
    problem: Problem, gossip: Gossip, place: Place, goal: Goal, iterations: int, pilots: int = 0
) -> Tuning:
    """The shares, the penalty and the sampler for coordinates that are agreed on."""
    network, here = gossip.network, (place.centre, place.scale)
    tilts = even_shares(gossip, problem.affine(*here).agents(network))
    agents = problem.affine(*here, *tilts, NEGLIGIBLE_TILT).agents(network)
    points = shared_points(problem.dim) if place.points is None else place.points
    floor = smallest_penalty(gossip, agents, points)
    rho = max(1 / (4 * network.num_edges * goal.step), floor)  # (2)
    step = 1 / (4 * network.num_edges * rho)
    rung = goal.rung(step)
    sampler = goal.make(rung, UnitPosterior(problem.dim, agents, gossip, step, rho))
    w2, rounds_per_draw = prediction(network, sampler, rung)
    return Tuning(
        *here,
        *tilts,
        step=step,
        wanted_step=goal.step,
        sampler=sampler,
        rung=rung,
        exactness=goal.exactness,
        newton_iterations=iterations,
        pilots=pilots,
        sent=gossip.ledger,
        predicted_w2=w2,
        predicted_rounds_per_draw=rounds_per_draw,
    )


def shared_points(dim: int) -> np.ndarray:
    """Standard normal points, (point, dim), that are the same at every agent."""
    return np.random.default_rng(0).standard_normal((POINTS, dim))


def even_shares(gossip: Gossip, agents: Agent) -> tuple[np.ndarray, np.ndarray]:
    """The tilts of all agents at z = 0, eq. (2) of `frames`; each uses its own and the sums."""
    assert agents.frame is not None
    origin = np.zeros(agents.frame.centre.shape[1])
    own = _, own_gradient, own_hessian = derivatives_at(agents, origin)
    _, gradient, hessian = summed(gossip, own)
    share = np.asarray(agents.share)
    slope = own_gradient - share[:, None] * gradient
    shares = share.reshape(-1, *[1] * hessian.ndim)
    return slope, own_hessian - shares * hessian


def smallest_penalty(gossip: Gossip, agents: Agent, points: np.ndarray) -> float:
    """The floor of eq. (2): each agent finds its own, and the largest floods the network."""
    quadratic = agents.quadratic
    curvatures = _lowest_curvature(agents, points) if quadratic is None else quadratic.curvatures
    lowest = np.asarray(curvatures).reshape(len(agents.degree), -1).min(axis=1)
    needed = np.maximum(-lowest, 0.0) / np.asarray(agents.degree)
    return float(gossip.max(needed[:, None])[0, 0])


@jax.jit
def _lowest_curvature(agents: Agent, points: Any) -> jax.Array:
    """The lowest eigenvalue (or diagonal entry) of every agent's Hessian over some points."""

    def at_point(agent, point):
        hessian = hessian_of(agent, point)
        return hessian.min() if hessian.ndim == 1 else jnp.linalg.eigvalsh(hessian)[0]

    def one(agent):
        return jax.lax.map(lambda point: at_point(agent, point), points).min()

    return jax.vmap(one)(agents)

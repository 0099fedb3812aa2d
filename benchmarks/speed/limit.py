"""Against the limit: a round of D-ADMMS over the least that it has to do, in the same run.

A round on quadratic potentials cannot avoid its noise, a sum over neighbours and a product with the
matrix of the proximal map:

    x_i <- M_i (rho sum_j x_j - n_i),      M_i = (H_i + 2 rho d_i)^-1                           (1)

with n_i drawn by the library's own generator: in its round, or a round ahead where the compiler
would otherwise draw it again for every number that it goes into, in the order in memory that the
compiler or the library chooses. A logistic regression cannot avoid k gradients and Hessians of all
agents and chains, k the Newton iterations of a proximal step from a warm start,

    g_i = X_i'(s_i - y_i),    K_i = X_i' diag(s_i (1 - s_i)) X_i,    s_i = sigmoid(X_i z_i)     (2)

each evaluated from one pass over the logits. There are two ways to write either product. Of all
ways the fastest is the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import starlings as st
from starlings.random.addresses import Round
from starlings.runtime import loop

from .problems import RHO, Regression, gaussian
from .timing import LibraryRun, Run, Settings, alternated, median_ratio, typical

TITLE = "Against the limit"
COLUMNS = {
    "potentials": ("potentials", "s"),
    "law": ("noise", "s"),
    "agents": ("agents", ",d"),
    "chains": ("chains", "d"),
    "dim": ("dim", "d"),
    "microseconds": ("round, µs", ",.1f"),
    "limit_microseconds": ("limit, µs", ",.1f"),
    "over_limit": ("over limit", ".2f"),
    "iterations": ("Newton iterations", ".2f"),
    "slowest_iterations": ("of the slowest", ".2f"),
}
OVER_LIMIT, ITERATIONS = 2.0, 3.5
"""The targets: the most times the limit, and the most Newton iterations of a proximal step."""
TEXT = f"""\
The time of a round divided by the time of only what a round cannot avoid (the limit), measured in
the same run. On quadratic potentials this is drawing the same noise with the same generator, one
sum over neighbours and one product of a matrix and a vector for every agent and chain. For the
logistic regression it is as many fused evaluations of gradient and Hessian as a proximal step takes
Newton iterations: the mean over agents, chains and rounds. `of the slowest` are the iterations of
the slowest agent and chain of a round, for which the remaining ones wait. The limit is the fastest
of several ways to write this. Targets: at
most {OVER_LIMIT:g} times the limit, and {ITERATIONS:g} Newton iterations or fewer."""
LAWS = ("coherent", "private")
"""The laws of the noise that are measured."""
DRAWN = ("in place", "ahead", "ahead, in order")
"""When the noise is drawn: in its round, or a round ahead, also in the order of memory."""
SIZES = [(20, 100, 2), (100, 100, 2), (1000, 100, 8), (100_000, 1, 2)]
QUICK_SIZES = [(20, 10, 2)]
"""Agents, chains and dimension of quadratic potentials, in a full and in a quick run."""
LOGISTIC_SIZES, QUICK_LOGISTIC_SIZES = [(20, 100), (100, 100)], [(5, 4)]
"""Agents and chains of a logistic regression, in a full and in a quick run."""
COUNTED_ROUNDS = 50
"""Rounds before Newton iterations are counted, and rounds in which they are."""
TINY = 1e-9
"""The length of a step that makes the evaluations of a loop depend on each other, so that the
compiler leaves none out, and moves the point by next to nothing."""


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Measure quadratic potentials of several sizes, then logistic regressions."""
    sizes = QUICK_SIZES if settings.quick else SIZES
    logistic = QUICK_LOGISTIC_SIZES if settings.quick else LOGISTIC_SIZES
    rows = [quadratic_row(*size, law, settings) for size in sizes for law in LAWS]
    return rows + [logistic_row(*size, settings) for size in logistic]


def quadratic_row(
    agents: int, chains: int, dim: int, law: str, settings: Settings
) -> dict[str, Any]:
    """Time a ring of Gaussian targets against eq. (1)."""
    problem, network = gaussian(agents, dim), st.Network.ring(agents)
    sampler = st.DADMMS(RHO, noise=law, output="iterate")
    ours = LibraryRun(problem, network, sampler, chains)
    curvature = 2 * RHO * network.degrees[:, None, None] * np.eye(dim)
    inverse = np.linalg.inv(problem.quadratic.hessian + curvature)
    neighbours = network.adjacency.indices.reshape(agents, 2)
    carry = positions_and_noise(law, ours)
    arrays = (inverse, neighbours, ours.keys)
    limits = {
        f"{way}, {when}": Looped(partial(unavoidable_round, law, way, when), arrays, carry)
        for way, when in product(PRODUCTS, DRAWN)
    }
    cells = {"potentials": "quadratic", "law": law} | compared(ours, limits, 1.0, settings)
    return cells | {"targets": {"over_limit": [None, OVER_LIMIT]}}


def logistic_row(agents: int, chains: int, settings: Settings) -> dict[str, Any]:
    """Time the paper's logistic regression on a ring against eq. (2)."""
    regression, network = Regression.of("logistic", agents), st.Network.ring(agents)
    sampler = st.DADMMS(RHO, output="iterate")
    ours = LibraryRun(regression.problem, network, sampler, chains)
    ours(COUNTED_ROUNDS)
    mean, slowest = newton_iterations(ours)
    rows, carry = (regression.x, regression.y), positions_by_agent(ours)
    limits = {way: Looped(partial(evaluation, way), rows, carry) for way in HESSIANS}
    cells = {"potentials": "logistic", "law": "coherent", "iterations": mean}
    cells |= {"slowest_iterations": slowest} | compared(ours, limits, mean, settings)
    targets = {"over_limit": [None, OVER_LIMIT], "iterations": [None, ITERATIONS]}
    return cells | {"targets": targets}


def compared(
    ours: LibraryRun, limits: dict[str, Run], each: float, settings: Settings
) -> dict[str, Any]:
    """Sizes, times and the ratio to the fastest way; a round needs it `each` times."""
    chains, agents, dim = ours.state.states.position.shape
    laps = alternated({"ours": ours} | limits, settings)
    fastest = min(limits, key=lambda way: typical(laps[way]).wall)
    return {
        "agents": agents,
        "chains": chains,
        "dim": dim,
        "microseconds": 1e6 * typical(laps["ours"]).wall,
        "limit_microseconds": 1e6 * each * typical(laps[fastest]).wall,
        "limit_by": fastest,
        "over_limit": median_ratio(laps["ours"], laps[fastest]) / each,
    }


def newton_iterations(run: LibraryRun, rounds: int = COUNTED_ROUNDS) -> tuple[float, float]:
    """Newton iterations in the next rounds of a run: of all agents and chains, and of the slowest.

    The first number is the mean over agents, chains and rounds; the second is the mean over rounds
    of the largest number in the round.
    """
    fixed = (run.sampler, run.agents, run.wiring, run.keys)
    with jax.enable_x64(run.double):
        indices = run.state.round + 1 + jnp.arange(rounds)
        iterations = np.asarray(_iterations(*fixed, run.state.states, indices))
    return float(iterations.mean()), float(iterations.max(axis=(1, 2)).mean())


@jax.jit
def _iterations(sampler, agents, wiring, keys, states, indices):
    """Newton iterations (round, chain, agent) of the rounds with these numbers."""

    def turn(states, index):
        return loop.one_round(sampler, agents, wiring, states, index, keys)

    return jax.lax.scan(turn, states, indices)[1].iterations


class Looped:
    """A compiled loop of `carry = work(*arrays, index, carry)`, in double precision."""

    def __init__(self, work: Callable[..., Any], arrays: tuple[Any, ...], carry: Any) -> None:
        @jax.jit
        def loop(arrays, carry, rounds):
            return jax.lax.fori_loop(1, rounds + 1, partial(work, *arrays), carry)

        self.loop, self.arrays, self.carry = loop, arrays, carry

    def __call__(self, rounds: int) -> None:
        """Go on for so many rounds from where the last call ended."""
        with jax.enable_x64(True):
            self.carry = jax.block_until_ready(self.loop(self.arrays, self.carry, rounds))


def unavoidable_round(law, way, when, inverse, neighbours, keys, index, carry):
    """Eq. (1) on positions (agent, dim, chain) of a graph where all have as many neighbours."""
    positions, drawn = carry
    received = sum(positions[column] for column in neighbours.T)
    if when != "in place":
        positions = PRODUCTS[way](inverse, RHO * received - drawn)
        coming = noise(law, keys, index + 1, positions)
        return positions, loop.in_order(coming) if when != "ahead" else coming
    drawn_now = noise(law, keys, index, positions)
    return PRODUCTS[way](inverse, RHO * received - drawn_now), drawn


def positions_and_noise(law: str, run: LibraryRun) -> tuple[jax.Array, jax.Array]:
    """The positions of a run and the noise of round 1, where `unavoidable_round` starts."""
    positions = positions_by_agent(run)
    with jax.enable_x64(True):
        return positions, noise(law, run.keys, 1, positions)


def positions_by_agent(run: LibraryRun) -> jax.Array:
    """The positions of a run, (agent, dim, chain)."""
    with jax.enable_x64(True):
        return jnp.moveaxis(run.state.states.position, 0, -1).copy()


def noise(law, keys, index, positions):
    """Standard normal numbers of the library's own generator, (agent or 1, dim, chain)."""
    agent_keys, network_keys = keys
    like = positions[0, :, 0]

    def shared(key):
        return Round(index, key, key).shared_noise(like)[None]

    def private(key):
        return Round(index, key, key).private_noise(like)

    if law == "coherent":
        return jax.vmap(shared, out_axes=-1)(network_keys)
    return jax.vmap(jax.vmap(private), out_axes=-1)(agent_keys)


def evaluation(way, x, y, index, positions):
    """Eq. (2) at points (agent, dim, chain), used so that no compiler leaves it out."""
    probability = jax.nn.sigmoid(x @ positions)
    gradient = jnp.einsum("ird,irc->idc", x, probability - y[:, :, None])
    hessian = HESSIANS[way](probability * (1 - probability), x)
    return positions - TINY * (gradient + hessian.sum(axis=1))


def by_terms(matrices, vectors):
    """M_i x_i as a sum over the columns of M_i."""
    dims = range(vectors.shape[1])
    return sum(matrices[:, :, b, None] * vectors[:, b, None, :] for b in dims)


def hessian_of_products(weights, x):
    """K_i of eq. (2), (agent, dim, dim, chain), from the products of all pairs of columns."""
    agents, rows, dim = x.shape
    columns = x.swapaxes(1, 2)
    products = (columns[:, :, None] * columns[:, None]).reshape(agents, dim * dim, rows)
    return (products @ weights).reshape(agents, dim, dim, -1)


PRODUCTS = {"contraction": jnp.matmul, "terms": by_terms}
HESSIANS = {
    "contraction": lambda weights, x: jnp.einsum("irc,ira,irb->iabc", weights, x, x),
    "products": hessian_of_products,
}

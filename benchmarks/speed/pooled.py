"""Against what one would pick on one machine: NUTS on the pooled rows.

Both sides prepare (tuning by the agents; Stan's windows), and then make draws with as many chains.
Counted in passes over all rows,

    network    one for every round and Newton iteration (a gradient and a Hessian), or for every
               round where potentials are quadratic                                            (1)
    NUTS       one for every leapfrog step                                                     (2)

and effective draws are those of the worst agent and parameter (bulk, by ArviZ).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import starlings as st
from starlings.solvers.pooled.mode import local_mode
from starlings.tuning import tune
from starlings.tuning.pilot import refine

from ..posteriors.score import convergence
from .limit import newton_iterations
from .problems import Regression
from .timing import LibraryRun, Settings

TITLE = "Against pooled NUTS"
COLUMNS = {
    "case": ("case", "s"),
    "method": ("method", "s"),
    "rows": ("rows", ",d"),
    "dim": ("dim", "d"),
    "preparation_seconds": ("preparation, s", ".2f"),
    "sampling_seconds": ("sampling, s", ".2f"),
    "effective_draws": ("effective draws", ",.0f"),
    "draws_per_second": ("per second", ",.0f"),
    "draws_per_gradient": ("per gradient", ".3f"),
    "r_hat": ("R-hat", ".3f"),
    "compile_seconds": ("compile s", ".1f"),
}
CHAINS, DRAWS, WARMUP = 16, 400, 500
"""Chains of both methods, draws of each chain, and steps of warm-up of NUTS."""
BURN_IN = 100
"""Rounds of burn-in of the network, in cycles of its sampler."""
TEXT = f"""\
Users who may pool the rows would choose NUTS: here it is by BlackJAX, with the same number of
chains, {CHAINS}. `preparation` is tuning by the agents, or the {WARMUP} warm-up steps of NUTS in
Stan's windows. `effective draws` are bulk effective sample sizes of the worst agent and parameter;
`per second` divides them by the time of sampling, in which the burn-in of the network is included
and compiling is not. `per gradient` divides them by the passes over all rows: a round of the
network counts one for every Newton iteration, NUTS one for every leapfrog step. All agents are
simulated on this one machine.

Use NUTS where rows may be pooled on one machine: a few gradients make a nearly independent draw,
and no step size biases it. Use the network where rows have to stay at their sites, or where every
site should have the draws. An independent draw then takes a dozen rounds or more, with a proximal
step of every agent in each; the table shows what that costs."""
QUICK_DRAWS = 50
"""Draws of each chain in a quick run."""
AGENTS = 20
"""Agents of the ring."""

Draw = Callable[[int], tuple[np.ndarray, Callable[[], float]]]
"""Maps a seed to draws (chain, draw, ...) and a function that counts their gradients.

The function is called after the clock has stopped.
"""


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Measure both methods on every case."""
    cases = ["linear"] if settings.quick else list(CASES)
    return [row for name in cases for row in both(name, settings)]


def both(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Time the network and NUTS on one case, in turns."""
    problem = CASES[name]()
    draws = QUICK_DRAWS if settings.quick else DRAWS
    methods = {"starlings": partial(prepare_network, problem, draws)}
    methods["pooled NUTS"] = partial(prepare_nuts, problem, draws)
    trials = {method: [trial(prepare, 0)] for method, prepare in methods.items()}  # compiles
    for repeat in range(settings.repeats):
        for method, prepare in methods.items():
            trials[method].append(trial(prepare, repeat + 1))
    shape = {"case": name, "rows": int(problem.num_rows.sum()), "dim": problem.dim}
    return [shape | {"method": method} | summary(trials[method]) for method in methods]


def trial(prepare: Callable[[int], Draw], seed: int) -> dict[str, float]:
    """Prepare and draw once, and time both."""
    began = time.perf_counter()
    draw = prepare(seed)
    ready = time.perf_counter()
    draws, gradients = draw(seed)
    done = time.perf_counter()
    effective, r_hat = convergence(draws)
    return {
        "preparation_seconds": ready - began,
        "sampling_seconds": done - ready,
        "effective_draws": effective,
        "draws_per_second": effective / (done - ready),
        "draws_per_gradient": effective / gradients(),
        "r_hat": r_hat,
    }


def summary(trials: list[dict[str, float]]) -> dict[str, float]:
    """Medians of all trials but the first, which also compiled."""
    first, *later = trials
    figures = {key: median(one[key] for one in later) for key in first}
    spent = [key for key in first if key.endswith("_seconds")]
    compiling = sum(first[key] - figures[key] for key in spent)
    return figures | {"compile_seconds": max(0.0, compiling)}


def prepare_network(problem: st.Problem, draws: int, seed: int) -> Draw:
    """Let the agents of a ring tune themselves, as in `starlings.sample`; gradients by eq. (1)."""
    network = st.Network.ring(problem.num_agents).matched_to(problem.sites)
    tuning = refine(problem, tune(problem, network), network, seed)
    moved, sampler = tuning.problem(problem), tuning.sampler
    cycle = sampler.cycle
    thin = cycle * max(1, round(tuning.predicted_rounds_per_draw / 2 / cycle))
    burn_in = BURN_IN * cycle

    def gradients() -> float:
        iterations, _ = newton_iterations(LibraryRun(moved, network, sampler, CHAINS))
        return (burn_in + draws * thin) * CHAINS * max(1.0, iterations)

    def draw(seed: int) -> tuple[np.ndarray, Callable[[], float]]:
        run = {"draws": draws, "chains": CHAINS, "thin": thin, "burn_in": burn_in, "seed": seed}
        result = st.sample(moved, network, sampler, **run, check=False, progress=False)
        return result.posterior["beta"].to_numpy(), gradients

    return draw


def prepare_nuts(problem: st.Problem, draws: int, seed: int) -> Draw:
    """Adapt NUTS by Stan's windows, starting at the mode; gradients by eq. (2)."""
    pooled = problem.pooled()
    with jax.enable_x64(True):
        agent = jax.tree.map(lambda stack: stack[0], pooled.agents())
        keys = jax.random.split(jax.random.key(seed), CHAINS)
        adapted = jax.block_until_ready(
            _adapted(agent, keys, jnp.asarray(local_mode(pooled).point))
        )

    def draw(seed: int) -> tuple[np.ndarray, Callable[[], float]]:
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(seed + 2**32), CHAINS)
            positions, steps = map(np.asarray, _drawn(agent, keys, *adapted, draws))
        return positions, lambda: float(steps.sum())

    return draw


@jax.jit
def _adapted(agent, keys, start):
    """The state, step and metric of every chain after the windows."""
    import blackjax

    windows = blackjax.window_adaptation(
        blackjax.nuts, lambda z: -agent.potential(z), is_mass_matrix_diagonal=False
    )

    def one(key):
        (state, tuned), _ = windows.run(key, start, num_steps=WARMUP)
        return state, {k: tuned[k] for k in ("step_size", "inverse_mass_matrix")}

    return jax.vmap(one)(keys)


@partial(jax.jit, static_argnames="draws")
def _drawn(agent, keys, states, tuned, draws):
    """Positions (chain, draw, dim) and leapfrog steps (chain, draw)."""
    import blackjax

    def one(key, state, tuned):
        kernel = blackjax.nuts(lambda z: -agent.potential(z), **tuned)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(key, draws))[1]

    return jax.vmap(one)(keys, states, tuned)


def wide() -> st.Problem:
    """A logistic regression with 100 rows at each of the agents, in eight dimensions."""
    random = np.random.default_rng(3)
    x = random.normal(size=(100 * AGENTS, 8))
    y = (random.logistic(size=len(x)) < x @ np.linspace(-1, 1, 8)).astype(float)
    return st.models.logistic_regression(x, y, np.arange(len(x)) % AGENTS, intercept=False)


CASES: dict[str, Callable[[], st.Problem]] = {
    "linear": lambda: Regression.of("linear", AGENTS).problem,
    "logistic": lambda: Regression.of("logistic", AGENTS).problem,
    "logistic, 8 dimensions": wide,
}

"""What whole runs of every sampler have to do: rules that go through `starlings.sample`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from starlings import theory
from starlings.problem import Agent
from starlings.pytrees import pytree
from starlings.samplers import Sampler
from starlings.sampling import sample
from starlings.testing.trial import (
    TRIAL_SEED,
    Trial,
    draws_of,
    first_states,
    may_be_silent,
    one_round,
    require,
)
from starlings.theory import Moments

COMPARED_CHAINS, COMPARED_DRAWS = 3, 20
"""Chains, and draws of each, of the runs that are compared with each other."""
GROUPING_ROUNDING = 1e-12
"""Largest relative difference between runs that differ in how sums are grouped."""
PLAIN_ROUNDING = 1e-9
"""Largest difference from the plain loop, in standard deviations of the posterior or less: proximal
steps on potentials that are not quadratic are solved to the square of 6e-6."""
LAW_CHAINS = 20_000
"""Independent chains from which means and covariances are compared with a law. A variance that is
10 % wrong at one agent is then some 10 standard errors off, and the limit is about 5.6."""
LAW_ROUNDS = (1, 4, 12)
"""The rounds after which they are compared."""
FALSE_ALARM = 1e-5
"""Probability with which a sampler that has the law is refused."""
COMMON_START = "all agents have to start at one point, and the rule starts them at different ones"
"""Why some rules are not tried with samplers that set `common_start`."""
ALONE = "the network on which it is tried has one agent"
"""Why reading of the inbox is not tried with samplers that run at one place."""
FORGOTTEN = 1e-9
"""Largest change of the draws of an agent that starts 1 further away and forgets that at once: it
is rounding."""
FORGETS_START = (
    "draws do not depend on where they start, and other data are tried on quadratic potentials only"
)
"""Why reading of the inbox is not tried with some samplers on some problems."""
READS_ROWS = (
    "draws depend neither on where they start nor on the quadratic form of the data, but on rows"
)
"""Why reading of the inbox is not tried with some samplers that use minibatches."""


def drawn(trial: Trial, sampler: Sampler, **settings: Any) -> np.ndarray:
    """The draws of a run, (chain, draw, agent, parameter)."""
    short = {"draws": COMPARED_DRAWS, "chains": COMPARED_CHAINS, "burn_in": 0, "seed": TRIAL_SEED}
    quiet = {"check": False, "progress": False}
    result = sample(trial.problem, trial.network, sampler, **{**short, **quiet, **settings})
    return _flat({str(name): result.posterior[name].values for name in result.posterior.data_vars})


def _flat(values: Mapping[str, Any]) -> np.ndarray:
    """Named arrays of shape (chain, draw, agent, ...) as one, with their entries along an axis."""
    columns = (np.reshape(value, (*np.shape(value)[:3], -1)) for value in values.values())
    return np.concatenate(list(columns), axis=-1)


def one_trace_serves_all_settings(trial: Trial, sampler: Sampler) -> None:
    """Burn-in, thinning, another seed and other numbers in the fields do not recompile."""
    traces = []

    class Counted(type(sampler)):  # type: ignore[misc]
        """Counts how often its step is traced."""

        def step(self, *arguments: Any) -> Any:
            """Count, and step."""
            traces.append(1)
            return super().step(*arguments)

    pytree(Counted)
    fields = sampler.settings()
    other = jax.tree.map(lambda leaf: 0.9 * leaf if isinstance(leaf, float) else leaf, fields)
    for settings, seed in ((fields, 1), (other, 2)):
        drawn(trial, Counted(**settings), draws=37, burn_in=23, thin=2, seed=seed)
    require(
        len(traces) == 1,
        f"`step` was traced {len(traces)} times for two runs: fields that are numbers must not "
        "select code; make those that do with `starlings.choice`.",
    )


def draws_depend_on_the_seed_alone(trial: Trial, sampler: Sampler) -> None:
    """The same draws again, for any number of chains and any thinning; others for another seed."""

    def run(**settings: Any) -> np.ndarray:
        return drawn(trial, sampler, burn_in=5, **settings)

    first = run()
    np.testing.assert_array_equal(first, run(), "the same seed has other draws")
    single = run(chains=1)  # one chain takes other forms of some sums
    _close(first[:1], single, "a chain depends on how many chains there are", atol=1e-14)
    _close(first[:, 1::2], run(thin=2)[:, : COMPARED_DRAWS // 2], "draws depend on thinning")
    if not sampler.draws_nothing:
        other = run(seed=TRIAL_SEED + 1)
        require(np.abs(first - other).min() > 0, "another seed has some of the same draws.")


def _close(found: np.ndarray, wanted: np.ndarray, text: str, atol: float = 0.0) -> None:
    np.testing.assert_allclose(found, wanted, rtol=GROUPING_ROUNDING, atol=atol, err_msg=text)


def draws_are_those_of_a_plain_loop(trial: Trial, sampler: Sampler) -> None:
    """A runtime has the same draws as a loop over rounds, where potentials are not quadratic.

    The runtime evaluates agents in groups with like numbers of rows, and several chains at once.
    """
    trial = dataclasses.replace(trial, problem=trial.curved)
    found = drawn(trial, sampler, initial=trial.positions(sampler, COMPARED_CHAINS))[1:2]
    with jax.enable_x64(True):
        wanted = _flat(_plain_draws(trial, sampler, 1, trial.agents(sampler)))
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(
        found, wanted, rtol=0, atol=PLAIN_ROUNDING * scale, err_msg="runtime and plain loop"
    )


def _plain_draws(trial: Trial, sampler: Sampler, chain: int, agents: Agent) -> Mapping[str, Any]:
    """The draws of one chain by their names, (1, draw, agent, ...)."""
    keys = trial.keys(chain)
    keys = keys._replace(agents=sampler.private_keys(keys.agents))
    start = jnp.asarray(trial.positions(sampler, COMPARED_CHAINS)[chain])
    constrain = jax.vmap(jax.vmap(jax.vmap(trial.problem.parameters.constrain)))

    def turn(states: Any, index: Any) -> tuple[Any, jax.Array]:
        states, _ = one_round(sampler, trial, agents, states, index, keys)
        return states, draws_of(sampler, agents, states, index + 1, keys)

    @jax.jit
    def all_rounds(states: Any) -> Mapping[str, Any]:
        return constrain(jax.lax.scan(turn, states, jnp.arange(1, COMPARED_DRAWS + 1))[1][None])

    return all_rounds(first_states(sampler, agents, start, keys))


def agents_only_read_their_inbox(trial: Trial, sampler: Sampler) -> str | None:
    """Where one agent starts does not move a far one before its messages can, and does then.

    A sampler that forgets at once where it starts is tried with other data at the far agent. Where
    agents may be silent, the far one may move later. It is not tried with samplers whose agents
    have to start at one point.
    """
    if sampler.common_start:
        return COMMON_START
    if trial.network.size == 1:
        return ALONE
    one, other, distance = trial.farthest
    start = np.zeros((1, trial.network.size, trial.problem.dim))
    moved = start.copy()
    moved[0, other] += 1.0
    runs = [drawn(trial, sampler, chains=1, initial=initial) for initial in (start, moved)]
    change = np.abs(runs[0] - runs[1])[0].max(axis=-1)
    if change[:, other].max() < FORGOTTEN:
        if trial.problem.quadratic is None:
            return FORGETS_START
        change = _change_with_data(trial, sampler, other)
        if not change.any():
            return READS_ROWS
        distance += 1  # data are used in one round, and sent in the next
    change = change[:, one]
    reached = COMPARED_DRAWS if may_be_silent(trial, sampler) else distance * sampler.cycle
    early, late = change[: distance - 1], change[:reached]
    require(
        not early.any(),
        f"agent {one} is {distance} links from agent {other} and moves with it after "
        f"{1 + int(np.argmax(early > 0))} rounds: read neighbours from the inbox alone.",
    )
    require(
        late[-1] > 0,
        f"agent {one} does not move with agent {other}, {distance} links away, in {len(late)} "
        "rounds: `step` has to use its inbox.",
    )
    return None


def _change_with_data(trial: Trial, sampler: Sampler, changed: int) -> np.ndarray:
    """How far the draws of all agents move, (draw, agent), with other data at one of them."""
    with jax.enable_x64(True):
        agents = trial.agents(sampler)
        quadratic = agents.quadratic
        assert quadratic is not None
        linear = jnp.asarray(quadratic.linear).at[changed].add(1.0)
        moved = dataclasses.replace(agents, quadratic=dataclasses.replace(quadratic, linear=linear))
        one, other = (_flat(_plain_draws(trial, sampler, 0, data)) for data in (agents, moved))
    return np.abs(one - other)[0].max(axis=-1)


def draws_have_the_registered_law(trial: Trial, sampler: Sampler) -> str | None:
    """Simulated means and covariances equal the exact law, within the Monte Carlo error.

    It detects an error of 8 % in the variance of one parameter at one agent, and one of about 3 %
    in all variances. Terms that are multiplied by a step size change the variance most with a step
    near the stability limit, so that errors in them are found best there.

    It is not tried without a law in `starlings.theory`, nor on problems that are not quadratic.
    """
    if trial.problem.quadratic is None:
        return "laws are known for quadratic potentials only, and the problem has others"
    if sampler.common_start:
        return COMMON_START
    if not theory.has_law(sampler):
        return "no law of this sampler is registered, see `starlings.theory.register_law`"
    rounds = max(LAW_ROUNDS)
    start = trial.positions(sampler, LAW_CHAINS)
    found = drawn(trial, sampler, chains=LAW_CHAINS, draws=rounds, initial=start)
    exact = list(theory.law(trial.problem, trial.network, sampler).moments(rounds))
    scores = np.concatenate([z_scores(found[:, k - 1], exact[k]) for k in LAW_ROUNDS])
    limit = scipy.stats.norm.isf(FALSE_ALARM / len(scores) / 2)
    worst = float(np.abs(scores).max())
    require(
        worst < limit,
        f"a mean or covariance of the draws is {worst:.1f} standard errors from the registered "
        f"law, and chance alone reaches {limit:.1f}: `step` or the law is wrong.",
    )
    return None


def z_scores(draws: np.ndarray, moments: Moments) -> np.ndarray:
    """Distances of sample means and covariances from exact ones, in standard errors.

    Over C independent draws (C, agent, dim) a mean has the standard error sd / sqrt(C), and an
    entry of the covariance of Gaussians has the variance (S_ii S_jj + S_ij^2) / C. The last of
    the distances is that of the average of all n variances, each divided by its exact value; with
    correlations R_ij it has the variance 2 sum_ij R_ij^2 / (n^2 C).
    """
    flat = draws.reshape(len(draws), -1)
    S, count = moments.covariance, len(draws)
    mean = (flat.mean(axis=0) - moments.mean.ravel()) / np.sqrt(np.diag(S) / count)
    spread = np.sqrt((np.outer(np.diag(S), np.diag(S)) + S**2) / count)
    covariance = (np.cov(flat.T) - S) / spread
    ratios = np.var(flat, axis=0, ddof=1) / np.diag(S)
    correlations = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    pooled = (ratios.mean() - 1) / np.sqrt(2 * np.mean(correlations**2) / count)
    return np.concatenate([mean, covariance[np.triu_indices(len(S))], [pooled]])

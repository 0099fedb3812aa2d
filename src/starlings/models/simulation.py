"""Parameters drawn from the prior of a regression, and outcomes drawn with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.models.gaussian import flat_prior
from starlings.problem import Problem


def simulate(problem: Problem, rng: np.random.Generator) -> tuple[dict[str, Any], Problem]:
    """Parameters drawn from the prior of a regression, and its rows with outcomes drawn there.

    >>> from starlings.models import linear_regression
    >>> X, sites = [[1.0], [2.0]], ["north", "south"]
    >>> problem = linear_regression(X, [0.0, 0.0], sites, noise_std=1e-9, intercept=False)
    >>> truth, simulated = simulate(problem, np.random.default_rng(0))
    >>> bool(np.isclose(simulated.shards["south"]["y"][0], 2 * truth["beta"][0]))
    True
    """
    prior, outcome = _simulators(problem)
    truth = prior.draw(rng, problem.parameters)
    shards = {
        site: {**rows, "y": outcome.draw(rng, truth, rows["x"])}
        for site, rows in problem.shards.items()
    }
    densities = (problem.log_likelihoods, problem.log_prior, problem.parameters)
    return truth, Problem.from_flat(*densities, shards, problem.is_quadratic)


def _simulators(problem: Problem) -> tuple[Any, Any]:
    """The prior and the outcomes of a problem, if both can be drawn from."""
    prior = getattr(problem.log_prior, "log_prior", None)
    outcome = getattr(problem.log_likelihoods, "log_likelihood", None)
    if prior is flat_prior:
        raise ValueError(
            "the prior is flat, hence improper: no parameters can be drawn from it. Give the model "
            "a proper prior."
        )
    if not hasattr(prior, "draw") or not hasattr(outcome, "draw"):
        raise ValueError(
            "only the regressions of `starlings.models` know how to simulate themselves; write "
            "`simulate(rng)` for this model and give it to `starlings.calibration.calibrate`."
        )
    return prior, outcome

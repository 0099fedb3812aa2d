"""Parameters drawn from the prior of a regression, and outcomes drawn with them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from starlings.models.families.family import Family
from starlings.models.gaussian import flat_prior
from starlings.models.priors.joint import RegressionPrior
from starlings.models.priors.normal import NormalPrior
from starlings.problem import Problem
from starlings.problem.likelihood import RowwiseLikelihood, UnconstrainedPrior, linear_predictor
from starlings.problem.shards import Rows


def simulate(problem: Problem, rng: np.random.Generator) -> tuple[dict[str, Any], Problem]:
    """Draw parameters from the prior of a regression, and an outcome for each of its rows.

    Args:
        problem: one of the regressions of `starlings.models`. Times until an event are simulated
            as if every row were watched until its observed time.
        rng: the source of the random numbers.

    Returns:
        The parameters by name, and the regression with the outcomes that were drawn with them.

    >>> from starlings.models import linear_regression
    >>> X, sites = [[1.0], [2.0]], ["north", "south"]
    >>> problem = linear_regression(X, [0.0, 0.0], sites, noise_std=1e-9, intercept=False)
    >>> truth, simulated = simulate(problem, np.random.default_rng(0))
    >>> bool(np.isclose(simulated.shards["south"]["y"][0], 2 * truth["beta"][0]))
    True
    """
    prior, family = _simulators(problem)
    truth = prior.draw(rng, problem.parameters)
    shards = {
        site: {**rows, **_simulated(rng, family, truth, rows)}
        for site, rows in problem.shards.items()
    }
    densities = (problem.log_likelihoods, problem.log_prior, problem.parameters)
    return truth, Problem.from_flat(*densities, shards, problem.is_quadratic)


def _simulated(
    rng: np.random.Generator, family: Family, truth: dict[str, Any], rows: Rows
) -> dict[str, np.ndarray]:
    """The columns of one site that are drawn at random."""
    if "weight" in rows:
        raise ValueError(
            "rows with a `weight` cannot be simulated: their likelihood is no distribution of the "
            "outcome. Leave the weights out, or repeat rows."
        )
    with jax.enable_x64(True):
        eta = np.asarray(linear_predictor(rows["x"], truth["beta"], rows))
    return family.simulated(rng, truth, eta, rows)


def _simulators(problem: Problem) -> tuple[NormalPrior | RegressionPrior, Family]:
    """The prior and the family of a problem, if values can be drawn from both."""
    likelihood, flat = problem.log_likelihoods, problem.log_prior
    family = likelihood.log_likelihood if isinstance(likelihood, RowwiseLikelihood) else None
    prior = flat.log_prior if isinstance(flat, UnconstrainedPrior) else None
    if prior is flat_prior:
        raise ValueError(
            "the prior is flat, hence improper: no parameters can be drawn from it. Give the model "
            "a proper prior."
        )
    if not isinstance(prior, (NormalPrior, RegressionPrior)) or not isinstance(family, Family):
        raise ValueError(
            "only the regressions of `starlings.models` know how to simulate themselves; write "
            "`simulate(rng)` for this model and give it to `starlings.calibration.calibrate`."
        )
    return prior, family

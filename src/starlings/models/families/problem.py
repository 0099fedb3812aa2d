"""The problem of a regression, from the rows of its sites, its family and its priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlings.formulas.encoding import INTERCEPT
from starlings.models.families.family import Family
from starlings.models.priors.joint import RegressionPrior
from starlings.models.random_effects import RandomEffects
from starlings.problem import Problem
from starlings.problem.columns import RowError
from starlings.problem.parameters import Parameter
from starlings.problem.shards import Rows


def regression_problem(
    shards: Mapping[str, Rows],
    labels: Sequence[str],
    family: Family,
    prior: RegressionPrior,
    *,
    effects: RandomEffects | None = None,
    names: Mapping[str, str] | None = None,
) -> Problem:
    """The problem of a regression.

    Args:
        shards: the rows of every site: `x` (row, column), `y` (row,), and those of `offset`,
            `weight`, `trials` and `event` that the model has.
        labels: the names of the columns of x.
        family: of the outcomes, such as `family_of("poisson")`.
        prior: of all parameters, such as what `regression_prior` returns.
        effects: coefficients that vary from site to site, for rows with a column `r`.
        names: what messages call the columns, if not by their names here.

    >>> from starlings.models.families import family_of
    >>> from starlings.models.priors import DataScale, regression_prior
    >>> family, labels = family_of("gaussian"), ["Intercept", "age"]
    >>> prior = regression_prior(family, labels, DataScale([1.0, 50.0], [0.0, 20.0], 3.0, 2.0))
    >>> shards = {"north": {"x": [[1.0, 40.0], [1.0, 70.0]], "y": [2.5, 3.5]}}
    >>> regression_problem(shards, labels, family, prior).parameters.labels()
    ['beta[Intercept]', 'beta[age]', 'sigma']
    """
    if not family.takes_intercept and INTERCEPT in labels:
        own = ", ".join(f"`{name}`" for name in family.parameters())
        raise ValueError(
            f"the family {family.name!r} has no intercept beside {own}; leave the column "
            f"{INTERCEPT!r} out."
        )
    for site, rows in shards.items():
        _check(site, rows, family, names)
    parameters = {"beta": Parameter((len(labels),), labels=tuple(labels)), **family.parameters()}
    is_quadratic = family.name == "gaussian" and prior.is_quadratic
    if effects is None:
        problem = Problem(family, prior, parameters, shards, is_quadratic)
    else:
        problem = effects.problem(family, prior, parameters, shards)
    about = {
        "family": family.name,
        "family_settings": family.settings,
        "priors": {**prior.texts, **({} if effects is None else effects.texts)},
        "priors_of_average_row": list(prior.of_average_row),
    }
    return problem.with_description(kind="regression", regression=about)


def _check(site: str, rows: Rows, family: Family, names: Mapping[str, str] | None) -> None:
    """Refuse rows that cannot be of the family, with the name of their site."""
    try:
        family.check({name: column for name, column in rows.items() if name != "x"}, names)
    except RowError as error:
        raise RowError(f"{error.text} (site {site!r})", error.row) from None

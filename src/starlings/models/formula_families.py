"""What a regression from a formula needs of its family and priors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice
from starlings.formulas import Encoding
from starlings.models.outcomes import Bernoulli, Normal, half_normal
from starlings.problem import Problem
from starlings.problem.columns import RowError
from starlings.problem.parameters import Parameter
from starlings.problem.shards import Rows

FAMILIES = ("gaussian", "logistic")


def family_of(name: str, **settings: Any) -> str:
    """The family with this name and these settings."""
    check_choice(FAMILIES, family=name)
    if settings:
        raise ValueError(f"{list(settings)} are no settings of the family {name!r}.")
    return name


def settings_of(name: str) -> tuple[str, ...]:
    """The names of the settings of a family."""
    check_choice(FAMILIES, family=name)
    return ()


def asked_of_rows(family: str) -> dict[str, Any]:
    """What a family asks of the columns of a formula: fields of `starlings.formulas.Request`."""
    return {"levels_of_outcome": 2 if family == "logistic" else 0}


def check(family: str, columns: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuse rows that cannot be of a family.

    Args:
        family: of the outcomes.
        columns: those of one site, without x.
        names: what messages call these columns.
    """
    y = columns["y"]
    if family == "logistic" and not np.isin(y, (0, 1)).all():
        row = int(np.argmin(np.isin(y, (0, 1))))
        raise RowError(f"`{names['y']}` must be 0 or 1, got {y[row]:g}", row)


def problem_of(
    encoding: Encoding,
    shards: Mapping[str, Rows],
    family: str,
    priors: Mapping[str, str] | None,
    names: Mapping[str, str],
) -> tuple[Problem, dict[str, Any]]:
    """The problem of a regression, and what its description says of family and priors.

    Args:
        encoding: what the sites have agreed on.
        shards: the rows of the local sites.
        family: of the outcomes.
        priors: those that are given, as texts.
        names: what messages call the columns.
    """
    if encoding.random is not None:
        raise ValueError("`random` is not there yet.")
    unit = encoding.outcome_scale or 1.0 if family == "gaussian" else 1.0
    stds = [2.5 * unit / (scale or 1.0) for scale in encoding.scales]
    prior = _Prior(tuple(stds), unit if family == "gaussian" else None)
    parameters = {"beta": Parameter((len(stds),), labels=encoding.labels)}
    if family == "gaussian":
        parameters["sigma"] = Parameter((), "positive")
    outcome = Normal() if family == "gaussian" else Bernoulli()
    texts = {k: f"normal(0, {s:.3g})" for k, s in zip(encoding.labels, stds, strict=True)}
    about = {"family": family, "family_settings": {}, "priors": {**texts, **(priors or {})}}
    return Problem(outcome, prior, parameters, dict(shards)), about


class _Prior:
    def __init__(self, stds: tuple[float, ...], unit: float | None) -> None:
        self.stds, self.unit = stds, unit

    def __call__(self, p: Mapping[str, Any]) -> Any:
        std = jnp.array(self.stds)
        density = jnp.sum(-0.5 * (p["beta"] / std) ** 2 - jnp.log(std))
        density -= 0.5 * len(self.stds) * math.log(2 * math.pi)
        return density if self.unit is None else density + half_normal(p["sigma"], self.unit)

"""What a regression says of its outcomes: the base class of all families.

    eta = x'beta + offset                         the linear predictor of a row             (1)
    weight log p(y | eta, own parameters)         the log-likelihood of a row               (2)

A family has one formula for log p, of which everything else is made. A site's columns are `x`, `y`
and those of `offset`, `weight`, `trials` and `event` that the model has.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from starlings.models.families.checks import check_columns
from starlings.problem.likelihood import LinearPredictorModel, linear_predictor, weighted
from starlings.problem.parameters import Parameter

Columns = dict[str, Any]
"""Arrays by the name of a column, with one entry per row; or the entries of one row."""
OF_ROWS = ("y", "weight", "trials", "event")
"""The columns that a density can ask for, beside the predictor."""


@dataclass(frozen=True)
class Family(ABC):
    """The distribution of the outcome of a row, given its linear predictor eta, eq. (1).

    An object is a log-likelihood for `Problem`, and equal objects share a compiled program. In
    `mean`, `draw` and `row_log_likelihood` values of parameters have any leading axes of draws,
    such as (draw,) for a number and (draw, entry) for a vector; `eta` and what comes out have the
    same axes and then that of the rows, (draw, row).
    """

    name: ClassVar[str]
    """The name for `family_of`."""
    title: ClassVar[str]
    """The name in texts for people."""
    link: ClassVar[str]
    """What eta is, in words."""
    ratio: ClassVar[str | None] = None
    """What exp of a coefficient is, such as "odds ratio"; None if it means nothing."""
    row_columns: ClassVar[tuple[str, ...]] = ()
    """The columns that rows must have beside `x` and `y`."""
    levels_of_outcome: ClassVar[int | None] = 0
    """Levels that an outcome of categories may have: 0 if outcomes are numbers, None for any."""
    intercepts: ClassVar[Mapping[str, float]] = {}
    """Parameters that stand for an intercept, each with the sign with which eta moves where a
    constant is added to the parameter."""

    @property
    def takes_intercept(self) -> bool:
        """Whether `x` may have a column of ones; not if other parameters are the intercept."""
        return not self.intercepts

    @property
    def settings(self) -> dict[str, Any]:
        """What was chosen for the family, in values that JSON has."""
        return dataclasses.asdict(self)

    def with_levels(self, levels: Sequence[str]) -> Family:
        """This family for outcomes with these levels; itself, if outcomes are no levels."""
        return self

    def parameters(self) -> dict[str, Parameter]:
        """The parameters beside `beta`."""
        return {}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Texts of weakly informative priors for the parameters beside `beta`.

        Args:
            outcome_mean: the mean of the outcomes of all sites.
            outcome_scale: their standard deviation.
        """
        return {}

    def predictor_scale(self, outcome_scale: float) -> float:
        """How far eta may well move with a covariate's standard deviation, in units of eta."""
        return 1.0

    def predictor_centre(self, outcome_mean: float) -> float:
        """Where eta of an average row may well be."""
        return 0.0

    def check(self, columns: Columns, names: Mapping[str, str] | None = None) -> None:
        """Refuse rows that cannot be of this family: `RowError` for a row, or else `ValueError`.

        Args:
            columns: `y`, and `weight`, `offset`, `trials` and `event` as far as there are any.
            names: what messages call these columns, if not by their names here.
        """
        called = {name: (names or {}).get(name, name) for name in (*columns, *self.row_columns)}
        check_columns(self.name, self.row_columns, columns, called)
        self._check({name: np.asarray(column) for name, column in columns.items()}, called)

    @abstractmethod
    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        """Refuse outcomes that the family cannot have; all columns are finite numbers."""

    @abstractmethod
    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """log p(y | eta) without the weight, for one row or for many, entry by entry."""

    def at_predictor(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """The log-likelihood of a row at a predictor that may have more terms than eq. (1)."""
        return weighted(self.log_density(p, eta, row), row)  # (2)

    def __call__(self, p: dict[str, Any], row: Columns) -> jax.Array:
        """The log-likelihood of one row."""
        return self.at_predictor(p, linear_predictor(row["x"], p["beta"], row), row)  # (1)

    def log_likelihood(self, p: dict[str, Any], row: Columns) -> jax.Array:
        """The log-likelihood of one row; `Problem` takes the family itself."""
        return self(p, row)

    def mean(self, p: Mapping[str, Any], eta: Any, columns: Columns) -> np.ndarray:
        """The expected outcome of every row; infinite if it is too large for a number."""
        with np.errstate(over="ignore"):
            return self._mean(self._beside_rows(p), np.asarray(eta, float), columns)

    @abstractmethod
    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        """The expected outcome, entry by entry."""

    def draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: Any, columns: Columns
    ) -> np.ndarray:
        """One outcome for every row, drawn at random."""
        with np.errstate(over="ignore"):
            return self._draw(rng, self._beside_rows(p), np.asarray(eta, float), columns)

    @abstractmethod
    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        """Outcomes drawn at random, entry by entry."""

    def simulated(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: Any, columns: Columns
    ) -> dict[str, np.ndarray]:
        """The columns of simulated data that take the place of the observed ones."""
        return {"y": self.draw(rng, p, eta, columns)}

    def row_log_likelihood(self, p: Mapping[str, Any], eta: Any, columns: Columns) -> np.ndarray:
        """The log-likelihood of every row, eq. (2)."""
        needed = {name: np.asarray(columns[name]) for name in OF_ROWS if name in columns}
        with jax.enable_x64(True):
            found = _at_predictor(self, self._beside_rows(p), jnp.asarray(eta, float), needed)
        return np.asarray(found)

    def _beside_rows(self, p: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The own parameters, with an axis for the rows before the axes of a vector."""
        own = self.parameters().items()
        return {
            name: np.expand_dims(np.asarray(p[name], float), -1 - len(block.shape))
            for name, block in own
        }


class PredictorFamily(LinearPredictorModel, Family):
    """A family whose only parameter is `beta`, with derivatives by eta in closed form."""

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """log p(y | eta) without the weight."""
        return self.of_predictor(eta, row)[0]


@partial(jax.jit, static_argnums=0)
def _at_predictor(family: Family, p: Any, eta: jax.Array, columns: Any) -> jax.Array:
    return family.at_predictor(p, eta, columns)


def outcome(row: Columns, eta: jax.Array, name: str = "y") -> jax.Array:
    """A column as numbers of the type of eta: sums of small integers would overflow."""
    return jnp.asarray(row[name], eta.dtype)

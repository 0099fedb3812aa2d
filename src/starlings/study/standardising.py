"""Standardised covariates, and their coefficients in the original units.

With means m_j and standard deviations s_j over the rows of all sites, and u_j = (x_j - m_j) / s_j,
a linear predictor of the standardised columns is one of the original columns too:

    a + sum_j b_j u_j  =  (a - sum_j b_j m_j / s_j) + sum_j (b_j / s_j) x_j                 (1)

A model is sampled with standardised columns, to which its prior belongs, and reported in the
original units: change of the predictor for one unit of x_j. Without an intercept columns are only
scaled (m_j = 0): to centre them would bring an intercept back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pandas as pd

from starlings.problem.report import Report, Values
from starlings.results.answers.model import COEFFICIENTS, STANDARDISED


@dataclass(frozen=True)
class Standardisation:
    """The means and standard deviations of columns over the rows of all sites.

    Args:
        columns: the names of the columns.
        mean: their means, in units of the column.
        sd: their standard deviations, in units of the column.
    """

    columns: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray

    def of(self, X: pd.DataFrame) -> pd.DataFrame:
        """The standardised columns u_j of a table."""
        return X.sub(self.mean).div(self.sd)

    def without_centring(self) -> Standardisation:
        """A copy with means of zero, for a model without an intercept."""
        return replace(self, mean=np.zeros_like(self.mean))

    def report(self, intercept: bool) -> Report:
        """What results report: `beta` in original units, eq. (1), and `beta_standardised`."""

        def compute(parameters: Values) -> Values:
            standardised = parameters[COEFFICIENTS]
            slopes = standardised[-len(self.sd) :] / self.sd
            constant = standardised[: int(intercept)] - slopes @ self.mean
            original = jnp.concatenate([constant, slopes])  # (1)
            rest = {name: v for name, v in parameters.items() if name != COEFFICIENTS}
            return {COEFFICIENTS: original, STANDARDISED: standardised, **rest}

        names = ("intercept", *self.columns) if intercept else self.columns
        labels = {COEFFICIENTS: names, STANDARDISED: names}
        return Report(compute, labels, {COEFFICIENTS: STANDARDISED})

    def record(self) -> dict[str, dict[str, float]]:
        """The mean and the standard deviation of every column, in types that JSON has."""
        return {
            column: {"mean": float(mean), "sd": float(sd)}
            for column, mean, sd in zip(self.columns, self.mean, self.sd, strict=True)
        }

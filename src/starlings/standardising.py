"""Covariates less their mean, over their standard deviation; and coefficients on the way back.

With means m_j and standard deviations s_j over the rows of all sites, and u_j = (x_j - m_j) / s_j,
a linear predictor of the standardised columns is one of the original columns too:

    a + sum_j b_j u_j  =  (a - sum_j b_j m_j / s_j) + sum_j (b_j / s_j) x_j                 (1)

A model is sampled with standardised columns, to which its prior belongs, and reported in the
original units: change of the predictor for one unit of x_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pandas as pd

from starlings.reports import Report, Values

COEFFICIENTS, STANDARDISED = "beta", "beta_standardised"
"""The names under which both are kept with the draws."""


@dataclass(frozen=True)
class Standardisation:
    """The means and standard deviations of some columns, over all sites."""

    columns: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray

    def of(self, X: pd.DataFrame) -> pd.DataFrame:
        """The columns u_j."""
        return X.sub(self.mean).div(self.sd)

    def report(self, intercept: bool) -> Report:
        """Draws of `beta` in original units, eq. (1), beside those of `beta_standardised`.

        The original scale always has an intercept. Where the model has none (a = 0), it is what
        centring the columns amounts to.
        """

        def compute(parameters: Values) -> Values:
            standardised = parameters[COEFFICIENTS]
            own, slopes = (standardised[0], standardised[1:]) if intercept else (0.0, standardised)
            slopes = slopes / self.sd
            constant = own - slopes @ self.mean
            original = jnp.concatenate([constant[None], slopes])  # (1)
            rest = {name: v for name, v in parameters.items() if name != COEFFICIENTS}
            return {COEFFICIENTS: original, STANDARDISED: standardised, **rest}

        with_intercept = ("intercept", *self.columns)
        labels = {
            COEFFICIENTS: with_intercept,
            STANDARDISED: with_intercept if intercept else self.columns,
        }
        return Report(compute, labels, {COEFFICIENTS: STANDARDISED})

    def record(self) -> dict[str, dict[str, float]]:
        """The mean and the standard deviation of every column, in terms that JSON has."""
        return {
            column: {"mean": float(mean), "sd": float(sd)}
            for column, mean, sd in zip(self.columns, self.mean, self.sd, strict=True)
        }

"""Priors of regressions: texts such as "normal(0, 1)", and defaults on the scale of the data."""

from starlings.models.priors.defaults import DataScale, default_texts, regression_prior
from starlings.models.priors.joint import RegressionPrior
from starlings.models.priors.prior import Prior, PriorVector
from starlings.models.priors.table import priors_as_text

__all__ = [
    "DataScale",
    "Prior",
    "PriorVector",
    "RegressionPrior",
    "default_texts",
    "priors_as_text",
    "regression_prior",
]

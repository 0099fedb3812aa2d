"""The kinds of numbers that leave a site, the way each takes, and what follows from it.

The ways (1) to (4) are those of `disclosed`.
"""

from __future__ import annotations

from typing import NamedTuple

SUM, NEIGHBOURS, ALL, IN_RESULT = "sum", "neighbours", "all", "result"
"""The ways (1) to (4)."""
MESSAGES = "messages of the sampler"
"""The same as in `starlings.network.gossip`: reading a result imports nothing that sends."""
RESULT, RESIDUALS = "draws of the site's agent, in the result", "residuals of these draws"
"""What a result has of every agent whose draws are its own."""
LOCAL_RESULT = "draws of the site's own parameters, in the result"
"""What a result has of every site where parameters are local, and one process collects draws."""
ROWS, CHECKSUMS = "number of rows, in the result", "checksums of the rows and of each column"
"""What a result without masks says of the rows of a site."""
ALONE, STATISTICS = "estimates of the site alone, in the result", "statistics of its outcomes"
"""What sites add to a result for its report."""
UNDEFINED = "whether its potential was undefined at some candidate"
FEW_ROWS = "which determine the rows of a small site"


class Kind(NamedTuple):
    """Numbers of one kind."""

    way: str
    follows: str
    """What is known to follow from them, for somebody who reads those of one site."""


KINDS = {
    "derivatives": Kind(SUM, "gradients and Hessians of a small site determine its rows"),
    "potentials": Kind(SUM, "the fit of the site's rows at some points"),
    "potentials at shared candidates": Kind(
        SUM, "thousands of values of a function of the rows, which determine few rows"
    ),
    "differences between two quadratures at draws": Kind(
        SUM, "numbers near zero, from which nothing is known to follow"
    ),
    "potentials and gradients along trajectories": Kind(
        SUM, f"gradients at many points, {FEW_ROWS}"
    ),
    "potentials, gradients and kinetic energies along trajectories": Kind(
        SUM, f"gradients at many points, {FEW_ROWS}; nothing of a site's own parameters but these"
    ),
    "draws": Kind(SUM, "draws of an agent: with shared noise, its gradients"),
    "gradients at draws": Kind(SUM, f"gradients at many points, {FEW_ROWS}"),
    "draws weighted by precision": Kind(SUM, "draws from the posterior of the site's own rows"),
    "mean and precision of draws": Kind(
        SUM, "mean and covariance of the posterior of the site's own rows"
    ),
    "draws of the site alone": Kind(ALL, "draws from the posterior of the site's own rows"),
    "mean and sd of draws": Kind(SUM, "a summary of the draws of an agent"),
    "log-ratios of densities": Kind(SUM, "the fit of the site's rows at some points"),
    "sums over rows": Kind(SUM, "how well the model predicts the site's rows, as sums"),
    "distance from the average": Kind(NEIGHBOURS, "how far an agent's draws are from the others'"),
    "smallest penalty": Kind(NEIGHBOURS, "one number about the curvature of the site's fit"),
    MESSAGES: Kind(
        NEIGHBOURS,
        f"positions of the sampler: with shared noise, the site's gradients in every round, "
        f"{FEW_ROWS}",
    ),
    "summary of one site's draws": Kind(
        ALL, "mean, covariance and some draws of one agent: with shared noise, its gradients"
    ),
    "draws shown to all": Kind(ALL, "draws of an agent: with shared noise, its gradients"),
    "distances shown to all": Kind(ALL, "how far an agent's draws are from the others'"),
    "public key for masks": Kind(ALL, "nothing about rows"),
    "signed statement of who it is": Kind(ALL, "who approved what, and the packages of the site"),
    "limits of its guard rails": Kind(ALL, "the strictest limits of all sites; not whose they are"),
    "moments and extremes of covariates": Kind(
        ALL,
        "the number of rows, mean and sd of each covariate at the site, and its least and greatest "
        "value, which are entries of single rows",
    ),
    "numbers of rows, and of entries of each kind": Kind(
        SUM, "the size of the site, and how many entries of each column are missing"
    ),
    "names of categories": Kind(SUM, "which categories occur at the site"),
    "sums of columns and of their squares": Kind(
        SUM, f"means, variances and covariances of columns at the site, {FEW_ROWS}"
    ),
    "rows in bins of columns, for the knots of splines": Kind(
        SUM, "a histogram of the column at the site, in whose ends are single rows"
    ),
    RESULT: Kind(
        IN_RESULT,
        f"positions of the site's agent: with shared noise, its gradients, {FEW_ROWS}; masks do "
        "not hide them",
    ),
    RESIDUALS: Kind(IN_RESULT, "how exactly the agent solved its own steps"),
    LOCAL_RESULT: Kind(
        IN_RESULT,
        "the posterior of the site's own parameters, such as its deviation from the others",
    ),
    ROWS: Kind(IN_RESULT, "the size of the site"),
    CHECKSUMS: Kind(
        IN_RESULT,
        "who can guess a column, or all rows, can tell that the guess is right: a column of few "
        "possible values is found by trying",
    ),
    ALONE: Kind(IN_RESULT, "mean, sd and quantiles of the posterior of the site's own rows"),
    STATISTICS: Kind(IN_RESULT, "means, shares and quantiles of the site's outcomes"),
    UNDEFINED: Kind(IN_RESULT, "that some row gives NaN under the model"),
}
"""Every kind of number that leaves a site."""
UNKNOWN = Kind(NEIGHBOURS, "not examined")

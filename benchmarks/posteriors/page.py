"""The results as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ..tables import Grid
from .cases import BUILDERS, DIVISIONS
from .grid import FASTEST, SLOWEST
from .methods import FRICTIONS
from .report import LARGEST_SORTED_OVER_RANDOM, TARGETS, comparison, costs, figures, summary
from .results import Row
from .runs import BURN_IN

TEXT = """# Real posteriors

Made by `python -m benchmarks posteriors FOLDER --page docs/posteriors.md`.

## What is compared

{cases} posteriors of real models and data from posteriordb, with reference draws (10,000 for each,
most of them by its maintainers). The rows of each are divided among the agents of a ring in two
ways: at *random* (agents are alike) and *sorted* by a covariate or by time (agents differ strongly,
and some have no posterior of their own). The columns:

| column | what it is |
|---|---|
| `tuned` | `starlings.sample(problem, network)`: nothing is set by hand |
| `paper` | D-ADMMS as published, with the best rho of a grid |
| `dsgld` | D-SGLD as published with full gradients, with the best step of a grid |
| `dsghmc` | D-SGHMC as published with full gradients, with the best step of a grid for each of \
the frictions {frictions} |
| `consensus` | consensus Monte Carlo: NUTS at every agent alone, one upload to a coordinator, \
averages weighted by the inverse covariances |
| `nuts` | NUTS on the pooled rows: the errors that nearly perfect draws have |

`paper`, `dsgld` and `dsghmc` have no tuning of their own. They are given the coordinates that
`tuned` found (the mode, and the metric in which the posterior has unit curvature), a start at the
mode, a burn-in of {burn_in} autocorrelation times, and the point of the grid that is best when
compared with the reference. Their grids reach from {fast:.0f} to {slow:.0f} rounds for one
independent draw; smaller steps would be less biased, and slower still.

## How

The draws of every agent are compared with the reference. For every parameter as it is reported:
`mean` is the error of the mean and `W2` the Wasserstein-2 distance, both in posterior standard
deviations, and `sd` is the ratio of the standard deviations. For the unconstrained vector: `Mahal.`
is the Mahalanobis length of the error of the mean, divided by the square root of the dimension, and
`eigenvalues` are the least and the largest eigenvalue of the covariance, whitened by that of the
reference. Each number is that of the worst agent and parameter. `draws` are effective draws (bulk,
by ArviZ) of the worst agent and parameter over all chains. `rounds` and `bytes` are what one
effective draw takes, after burn-in, with the bytes of all agents together. The numbers of `nuts`
show how much of an error is due to chance in draws and reference. Methods that need many rounds for
a draw make fewer draws in the time that they are given (`--minutes`). What as many perfect draws
would show by chance is in brackets: a W2 near its bracket is no evidence against a method.
Eigenvalues of many parameters spread by chance too, as the last column of the first tables shows:
with 88 parameters no sampler meets the target with 10,000 draws.

Targets: {targets}; W2 of the sorted division at most {ratio} times that of the random one. A number
outside its target has a star. An empty cell has no result: on the hard posteriors NUTS at a single
agent had not ended after ten minutes.
"""


def page_text(rows: Sequence[Row]) -> str:
    """The page: what is compared, how, and the tables."""
    text = TEXT.format(
        cases=len(BUILDERS),
        frictions=" and ".join(f"{friction:g}" for friction in FRICTIONS),
        burn_in=BURN_IN,
        fast=FASTEST,
        slow=SLOWEST,
        targets=_targets(),
        ratio=LARGEST_SORTED_OVER_RANDOM,
    )
    missing = [case for case in BUILDERS if case not in {row["case"] for row in rows}]
    if missing:
        text += f"\nNot run for this page: {', '.join(missing)}.\n"
    sections = [
        _section("The default: every figure", [figures(rows, "tuned", d) for d in DIVISIONS]),
        _section("All columns", [comparison(rows), costs(rows)]),
        _section("The targets", [summary(rows)]),
    ]
    return "\n".join([text, *sections])


def _section(title: str, grids: Sequence[Grid]) -> str:
    return "\n".join([f"## {title}\n", *(grid.markdown() for grid in grids if grid.rows)])


def _targets() -> str:
    w2, mean, sd, eigenvalue, mahalanobis, rounds = (
        TARGETS[key]
        for key in (
            "w2",
            "mean_error",
            "sd_ratio_least",
            "eigenvalue_least",
            "mahalanobis",
            "rounds_per_effective_draw",
        )
    )
    return (
        f"W2 at most {w2.high}, mean within {mean.high}, sd ratios from {sd.low} to {sd.high}, "
        f"eigenvalues from {eigenvalue.low} to {eigenvalue.high}, Mahalanobis at most "
        f"{mahalanobis.high}, at most {rounds.high:g} rounds for an effective draw"
    )

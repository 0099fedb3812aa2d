"""What a problem is made of, read off a model that is written for another library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax

from starlings.problem.parameters import Parameters
from starlings.problem.report import Report
from starlings.problem.shards import Rows


class ModelParts(NamedTuple):
    """What a problem is made of, read off a model of another library."""

    log_likelihoods: Callable[..., jax.Array]
    """(z, rows) -> the log-likelihood of every row."""
    log_prior: Callable[..., jax.Array]
    """z -> the log-density of z under the prior, with the log-determinants of the constraints."""
    parameters: Parameters
    shards: Mapping[str, Rows]
    report: Report | None
    """What is saved beside the parameters, or with dims of its own; None if there is nothing."""
    name: str
    log_local_prior: Callable[..., jax.Array] | None = None
    """z -> the log-density of the parameters that every agent has of its own, given the others;
    None if there are none."""

"""Checks of results: the full one that a user asks for, and the quick one after every run."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from starlings.diagnostics.draws import as_half_chains
from starlings.diagnostics.limits import WARNING_LIMITS
from starlings.diagnostics.nested_rhat import recorded_superchains, rhat_name
from starlings.diagnostics.reference import compare, sliced_w2
from starlings.diagnostics.statistics import diagnostics_table
from starlings.diagnostics.stein import Stein
from starlings.diagnostics.verdict import Check
from starlings.errors import PosteriorWarning

MIN_DRAWS_TO_WARN = 100
"""Draws of a chain below which a run is a trial, whose convergence is not worth a warning."""


def check(
    posterior: xr.Dataset, reference: Mapping[str, Any] | None = None, **evidence: Any
) -> Check:
    """Check draws for convergence, agreement and law.

    Args:
        posterior: the draws, with dimensions (chain, draw, agent, ...).
        reference: draws of the same posterior from elsewhere, by parameter name, with one draw per
            first index.
        evidence: what is known of the law, as `recorded_evidence` returns it.
    """
    table, name = diagnostics_table(posterior), rhat_name(posterior.attrs)
    known = {"predicted_w2": None, **evidence, "rhat_name": name}
    if reference is None:
        return Check(table, None, **known)
    sliced = sliced_w2(posterior, reference, table["ess"].min())
    return Check(table, compare(posterior, reference), sliced=sliced, **known)


def recorded_evidence(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the attributes of a result say about its law, as arguments of `Check`."""
    tuning, stein = (json.loads(attrs.get(name, "null")) for name in ("tuning", "stein"))
    predicted = None if tuning is None else tuning.get("predicted_w2")
    is_known = predicted is not None and not math.isnan(predicted)  # it is nan without a law
    return {
        "predicted_w2": predicted if is_known else None,
        "stein": None if stein is None else Stein.from_record(stein),
        "has_exact_law": bool(attrs.get("has_exact_law", False)),
        "pareto_k": attrs.get("pareto_k"),
        "divergent_share": attrs.get("divergent_share"),
        "undefined_share": attrs.get("undefined_share"),
        "quadrature_error": attrs.get("quadrature_error"),
        "method": attrs.get("method"),
        "wanted_draws": attrs.get("wanted_draws"),
        "found_draws": attrs.get("effective_draws"),
        "undefined_sites": tuple(json.loads(attrs.get("undefined_sites", "[]"))),
    }


def warn_if_untrustworthy(result: Any, stacklevel: int = 3) -> None:
    """Issue one `PosteriorWarning` with everything that is clearly wrong with a result.

    The check is quick: convergence is computed for one agent per entry, the one whose half-chains
    differ most. A single chain is checked as two halves. The convergence and agreement of runs with
    fewer than `MIN_DRAWS_TO_WARN` draws a chain are not checked, unless they are short on purpose:
    unless they have recorded superchains (see `nested_rhat`).
    """
    problems = quick_check(result.posterior, result.attrs).problems
    if not problems:
        return
    listed = "".join(f"\n- {problem}" for problem in problems)
    text = f"these draws should not be trusted as they are (see `result.check()`):{listed}"
    warnings.warn(text, PosteriorWarning, stacklevel=stacklevel)


def quick_check(posterior: xr.Dataset, attrs: Mapping[str, Any]) -> Check:
    """Return the check behind `warn_if_untrustworthy`, with its wider limits."""
    table = pd.DataFrame()
    may_be_short = recorded_superchains(posterior.attrs) is not None
    if may_be_short or posterior.sizes["draw"] >= MIN_DRAWS_TO_WARN:
        chains = posterior if posterior.sizes["chain"] > 1 else as_half_chains(posterior)
        table = diagnostics_table(chains, quick=True)
    name = rhat_name(posterior.attrs)
    return Check(table, None, **recorded_evidence(attrs), limits=WARNING_LIMITS, rhat_name=name)

"""`Comparison`: one data set sampled on a ring, beside NUTS on its pooled rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd
import xarray as xr

from starlings.diagnostics.statistics import convergence_table
from starlings.diagnostics.verdict import Check
from starlings.research.accuracy.data import Case
from starlings.results.result import Result


@dataclass(frozen=True)
class Comparison:
    """One data set sampled on a ring, and by NUTS on the pooled rows."""

    case: Case
    result: Result
    check: Check
    """The verdict on the result, with NUTS as reference."""
    nuts: xr.Dataset
    """The reference draws, with one agent."""
    floor: pd.DataFrame
    """The second NUTS run against the first, in the columns of `Check.against_reference`."""

    @property
    def effective_draws(self) -> float:
        """The effective draws of the worst agent and parameter."""
        return self.check.table["ess"].min()

    @functools.cached_property
    def nuts_convergence(self) -> pd.DataFrame:
        """R-hat and effective draws of the reference, parameter by parameter."""
        return convergence_table(self.nuts)

    @property
    def problems(self) -> list[str]:
        """What `check` finds wrong with the result, and by the same limits with NUTS."""
        nuts = Check(self.nuts_convergence, None, None).problems
        return [*self.check.problems, *(f"NUTS {text[0].lower()}{text[1:]}" for text in nuts)]

    @property
    def network_rounds(self) -> int:
        """Network rounds of the whole run, all included."""
        return int(self.result.attrs["network_rounds"])

    @property
    def bytes_sent(self) -> int:
        """Bytes that all agents sent in the whole run."""
        return int(self.result.attrs["bytes_sent"])

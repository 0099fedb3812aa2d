"""The verdict on a result: converged? agreed? right?

Three questions, kept apart, each answered by numbers of `measures` and in words with what to do:

1. Have the chains converged, at every agent?
2. Do the agents agree?
3. Is the law right: by what tuning predicted, by Stein's identities (see `stein`), and by reference
   draws where there are any.
"""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from starlings.diagnostics.statistics import (
    agreement_table,
    compare,
    convergence_table,
    in_halves,
    sliced_w2,
    split_rhat_table,
)
from starlings.diagnostics.stein import Stein
from starlings.errors import PosteriorWarning

FEWEST_DRAWS = 100
"""Runs with fewer draws a chain are trials: convergence is no matter for a warning."""


@dataclass(frozen=True)
class Limits:
    """Where a number becomes a problem."""

    rhat: float = 1.01
    effective_draws: float = 400
    apart: float = 0.1
    disagreement: float = 0.2
    """Agents that scatter by this much around the right draws have 4 % too much variance."""
    sd_ratio: float = 1.2
    w2: float = 0.1


WORTH_A_WARNING = Limits(
    rhat=1.05, effective_draws=100, apart=0.25, disagreement=0.25, sd_ratio=1.5
)


@dataclass(frozen=True)
class Check:
    """The answers, as numbers and in words."""

    table: pd.DataFrame
    """One row for each parameter entry: R-hat and effective draws of the worst agent, by name, and
    eq. (1) to (3) of `measures`."""
    against_reference: pd.DataFrame | None
    """One row for each parameter entry and agent, if a reference was given."""
    predicted_w2: float | None
    """What tuning promised for the worst agent, in posterior sd."""
    sliced: pd.DataFrame | None = None
    """One row for each agent: the sliced W2 and its floor, if a reference was given."""
    stein: Stein | None = None
    """Stein's identities, where `sample` has examined them."""
    limits: Limits = Limits()
    interrupted: str | None = None
    """Where the run was ended early."""

    @property
    def problems(self) -> list[str]:
        """What is wrong, each with what to do; empty if nothing is."""
        questions = (
            self._completeness,
            self._convergence,
            self._length,
            self._means,
            self._scatter,
            self._spreads,
            self._prediction,
            self._identities,
            self._reference,
            self._joint,
        )
        return [text for text in (question() for question in questions) if text]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        lines = [
            f"converged: {self._converged()}",
            f"agreed: {self._agreed()}",
            f"right: {self._right()}",
        ]
        return "\n".join([*lines, *(self.problems or [self._nothing_found()])])

    def _converged(self) -> str:
        if "rhat" not in self.table:
            return "not looked at"
        bulk, tail = (self.table[column].min() for column in ("ess_bulk", "ess_tail"))
        return (
            f"R-hat at most {self.table['rhat'].max():.3f}, at least {bulk:,.0f} bulk and "
            f"{tail:,.0f} tail effective draws per agent"
        )

    def _agreed(self) -> str:
        if "apart" not in self.table:
            return "not looked at"
        apart, scatter, ratio = self.table[["apart", "disagreement", "sd_ratio"]].max()
        return (
            f"the agents' means are at most {apart:.3f} sd apart, their draws {scatter:.3f} sd "
            f"from their average, their sds a factor {ratio:.2f} apart"
        )

    def _right(self) -> str:
        parts = []
        if self.predicted_w2 is not None and not self._identities():
            parts.append(f"W2 of {self.predicted_w2:.3f} sd predicted if the posterior is Gaussian")
        if self.stein is not None:
            parts.append(str(self.stein))
        if self.against_reference is not None:
            parts.append(f"{self.against_reference['w2'].max():.3f} sd from the reference")
        if self.sliced is not None:
            worst = self.sliced.max()
            parts.append(
                f"jointly {worst['mean']:.3f} sd on average and at most {worst['largest']:.3f} "
                f"(Monte Carlo floor {worst['floor_mean']:.3f} and {worst['floor_largest']:.3f})"
            )
        return "; ".join(parts) if parts else "unknown without tuning or a reference"

    def _nothing_found(self) -> str:
        tested = self.against_reference is not None or (
            self.stein is not None and not self.stein.undecided
        )
        if tested:
            return "Nothing speaks against these draws."
        return "Nothing speaks against these draws, but their law has not been tested."

    def _completeness(self) -> str:
        if self.interrupted is None:
            return ""
        return (
            f"Incomplete: the run was interrupted {self.interrupted}. Go on with `--resume` (in "
            "Python `resume=True`)."
        )

    def _convergence(self) -> str:
        if "rhat" not in self.table:
            return ""
        rhat = self.table["rhat"]
        if rhat.isna().any():
            return (
                f"Convergence of {rhat.index[rhat.isna()][0]} is unknown: R-hat needs at least two "
                "chains of four draws, and draws that vary. Ask for more `chains`."
            )
        if rhat.max() <= self.limits.rhat:
            return ""
        return (
            f"Not converged: R-hat of {self._worst('rhat')} is {rhat.max():.3f}. Run longer, with "
            "more `burn_in`, or with longer steps (a smaller `rho`)."
        )

    def _length(self) -> str:
        if "ess" not in self.table or not self.table["ess"].min() < self.limits.effective_draws:
            return ""
        return (
            f"Too short: only {self.table['ess'].min():.0f} effective draws of "
            f"{self._worst('ess', -1)}, which is too few for quantiles. Ask for more "
            "`draws` or a larger `thin`."
        )

    def _worst(self, column: str, sign: int = 1) -> str:
        """The entry and the agent with the largest value of a column, or with -1 the smallest."""
        row = int(np.nanargmax(sign * self.table[column].to_numpy()))
        return f"{self.table.index[row]} at agent {self.table[column + '_agent'].iloc[row]}"

    def _exceeds(self, column: str) -> tuple[str, float] | None:
        """The worst entry of a column of the table and its value, if beyond the limit."""
        if column not in self.table or not self.table[column].max() > getattr(self.limits, column):
            return None
        return str(self.table[column].idxmax()), float(self.table[column].max())

    def _means(self) -> str:
        if (found := self._exceeds("apart")) is None:
            return ""
        return (
            f"The agents disagree: their means of {found[0]} are {found[1]:.2f} sd apart. Take a "
            "larger `rho` (a smaller step)."
        )

    def _scatter(self) -> str:
        if (found := self._exceeds("disagreement")) is None:
            return ""
        return (
            f"The agents scatter: their draws of {found[0]} are {found[1]:.2f} sd from their "
            "average at the same round. Take noise='coherent' or a larger `rho` (a smaller step), "
            "or use the average over the agents only."
        )

    def _spreads(self) -> str:
        if (found := self._exceeds("sd_ratio")) is None:
            return ""
        return (
            f"The agents disagree on the spread: their sds of {found[0]} differ by a factor "
            f"{found[1]:.2f}. Take a larger `rho` (a smaller step), or let the agents tune "
            "themselves (no `sampler`)."
        )

    def _prediction(self) -> str:
        if self.predicted_w2 is None or self.predicted_w2 <= self.limits.w2:
            return ""
        return (
            f"Biased: even for the Gaussian approximation {self.predicted_w2:.2f} sd are predicted "
            "at the worst agent. Take a smaller step (a larger `rho`)."
        )

    def _identities(self) -> str:
        if self.stein is None or not self.stein.violations:
            return ""
        return (
            f"Wrong law: by Stein's identities {'; '.join(self.stein.violations)}. Take "
            "exactness='metropolis', a smaller step (a larger `rho`), or another parametrisation."
        )

    def _reference(self) -> str:
        table = self.against_reference
        if table is None or table["w2"].max() <= self.limits.w2:
            return ""
        worst = table.iloc[int(table["w2"].to_numpy().argmax())]
        return (
            f"Wrong law: {worst['parameter']} at agent {worst['agent']} is {worst['w2']:.2f} sd "
            f"from the reference; its mean is off by {worst['mean_error']:.2f} sd, and its sd is "
            f"{worst['sd_ratio']:.2f} of the reference's. Take a smaller step, or more draws if "
            "the chains are short."
        )

    def _joint(self) -> str:
        if self.sliced is None:
            return ""
        worst = self.sliced.iloc[int(self.sliced["largest"].to_numpy().argmax())]
        if worst["largest"] <= max(self.limits.w2, 2 * worst["floor_largest"]):
            return ""
        return (
            f"Wrong joint law: a combination of the parameters at agent {worst.name} is "
            f"{worst['largest']:.2f} sd from the reference, where {worst['floor_largest']:.2f} "
            "could be chance. Take a smaller step."
        )


def check(
    posterior: xr.Dataset,
    predicted_w2: float | None = None,
    reference: Mapping[str, Any] | None = None,
    stein: Stein | None = None,
) -> Check:
    """Judge draws; `reference` maps parameter names to draws with one draw per first index."""
    table = joined(convergence_table(posterior), agreement_table(posterior))
    if reference is None:
        return Check(table, None, predicted_w2, stein=stein)
    sliced = sliced_w2(posterior, reference, table["ess"].min())
    return Check(table, compare(posterior, reference), predicted_w2, sliced, stein)


def recorded_evidence(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """What a result knows about its law: the prediction of its tuning, and Stein's identities."""
    tuning, stein = (json.loads(attrs.get(name, "null")) for name in ("tuning", "stein"))
    return {
        "predicted_w2": None if tuning is None else tuning.get("predicted_w2"),
        "stein": None if stein is None else Stein.from_record(stein),
    }


def warn_if_untrustworthy(result: Any, stacklevel: int = 3) -> None:
    """One `PosteriorWarning` with all that is clearly wrong with a result, or nothing.

    Cheap: of every parameter entry only the agent whose chains differ most is looked at, and
    without ArviZ only by plain split R-hat. The halves of a single chain stand for two. Trial runs,
    of fewer than 100 draws a chain, are only held against what is known of their law.
    """
    problems = quick_check(result.posterior, result.attrs).problems
    if not problems:
        return
    listed = "".join(f"\n- {problem}" for problem in problems)
    text = f"these draws should not be trusted as they are (see `result.check()`):{listed}"
    warnings.warn(text, PosteriorWarning, stacklevel=stacklevel)


def quick_check(posterior: xr.Dataset, attrs: Mapping[str, Any]) -> Check:
    """What `warn_if_untrustworthy` looks at."""
    table = pd.DataFrame()
    if posterior.sizes["draw"] >= FEWEST_DRAWS:
        has_arviz = importlib.util.find_spec("arviz") is not None
        chains = posterior if posterior.sizes["chain"] > 1 else in_halves(posterior)
        found = convergence_table(chains, quick=True) if has_arviz else split_rhat_table(chains)
        table = joined(found, agreement_table(posterior))
    return Check(table, None, **recorded_evidence(attrs), limits=WORTH_A_WARNING)


def joined(convergence: pd.DataFrame, agreement: pd.DataFrame) -> pd.DataFrame:
    """Both tables, without entries that are constants (see `agreement_table`), unless all are."""
    is_constant = agreement["is_constant"]
    table = convergence.join(agreement.drop(columns="is_constant"))
    return table if is_constant.all() else table[~is_constant]

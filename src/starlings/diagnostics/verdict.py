"""The verdict on a result: have the chains converged, do the agents agree, is the law right?

Each of the three questions is answered by numbers (see `statistics`, `stein` and `reference`) and
in words that say what to do:

1. Have the chains converged, at every agent?
2. Do the agents agree?
3. Is the law right, by the prediction of the tuning, by Stein's identities, by the k-hat of
   importance weights, by the divergences of HMC and, where they are given, by reference draws?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from starlings.diagnostics.limits import LIMITS, Limits
from starlings.diagnostics.remedies import if_biased, if_not_converged, if_short
from starlings.diagnostics.stein import Stein


@dataclass(frozen=True)
class Check:
    """The answers to the three questions, as numbers and in words."""

    table: pd.DataFrame
    """One row for each entry of a parameter, with the columns of `statistics.diagnostics_table`."""
    against_reference: pd.DataFrame | None
    """One row for each entry and agent (see `reference.compare`); None without a reference."""
    predicted_w2: float | None
    """The W2 distance that tuning predicted for the worst agent, in posterior sd; None if the run
    was not tuned."""
    sliced: pd.DataFrame | None = None
    """One row for each agent (see `reference.sliced_w2`); None without a reference."""
    stein: Stein | None = None
    """Stein's identities of these draws; None if `sample` did not test them."""
    limits: Limits = LIMITS
    """The values beyond which a number counts as a problem."""
    interrupted: str | None = None
    """How far an interrupted run came, such as "after 312 of 1000 draws"; None otherwise."""
    has_exact_law: bool = False
    """Whether `predicted_w2` is a theorem: the posterior is Gaussian, and the sampler linear."""
    pareto_k: float | None = None
    """k-hat of the importance weights; None for other methods."""
    divergent_share: float | None = None
    """The share of the trajectories of HMC that diverged; None for other methods."""
    undefined_share: float | None = None
    """The share of candidates or trajectories that came to where a site's potential is NaN."""
    quadrature_error: float | None = None
    """The error of the log-posterior at draws, in nats, where sites integrated parameters out."""
    undefined_sites: tuple[str, ...] = ()
    """The sites with such potentials, if it is known."""
    method: str | None = None
    """The method that made the draws, on which advice depends; None if it is not known."""
    wanted_draws: float | None = None
    """Effective draws that a run by HMC was to have; None where their number was not its goal."""
    found_draws: float | None = None
    """Effective draws that it had in the end."""
    rhat_name: str = "R-hat"
    """What the column `rhat` of the table is: "R-hat" or "nested R-hat"."""

    @property
    def problems(self) -> list[str]:
        """Sentences that say what is wrong and what to do; empty if nothing is wrong."""
        questions = (
            self._completeness,
            self._convergence,
            self._length,
            self._shortfall,
            self._means,
            self._scatter,
            self._spreads,
            self._prediction,
            self._identities,
            self._weights,
            self._divergences,
            self._cut,
            self._integrals,
            self._reference,
            self._joint,
        )
        return [text for text in (question() for question in questions) if text]

    @property
    def ok(self) -> bool:
        """Whether there are no `problems`."""
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
            return "not checked"
        rhat = f"{self.rhat_name} at most {self.table['rhat'].max():.3f}"
        bulk, tail = (self.table[column].min() for column in ("ess_bulk", "ess_tail"))
        if np.isnan(bulk):
            return f"{rhat}, an unknown number of effective draws"  # it needs four draws a chain
        return f"{rhat}, at least {bulk:,.0f} bulk and {tail:,.0f} tail effective draws per agent"

    def _agreed(self) -> str:
        if "mean_range" not in self.table:
            return "not checked"
        distance, scatter, ratio = self.table[["mean_range", "disagreement", "sd_ratio"]].max()
        return (
            f"the agents' means are at most {distance:.3f} sd apart, their draws {scatter:.3f} sd "
            f"from their average, their sds a factor {ratio:.2f} apart"
        )

    def _right(self) -> str:
        parts = []
        if self.predicted_w2 is not None and not self._identities():
            parts.append(f"W2 of {self.predicted_w2:.3f} sd {self._predicted_by()}")
        if self.stein is not None:
            parts.append(str(self.stein))
        if self.pareto_k is not None:
            parts.append(
                f"importance weights with a Pareto k-hat of {self.pareto_k:.2f}, which sees "
                "everything but a mode that no candidate came near"
            )
        if self.divergent_share is not None:
            parts.append(
                f"HMC, whose law is exact; {100 * self.divergent_share:.1f} % of the trajectories "
                "diverged"
            )
        if self.against_reference is not None:
            parts.append(f"{self.against_reference['w2'].max():.3f} sd from the reference")
        if self.sliced is not None:
            worst = self.sliced.max()
            parts.append(
                f"jointly {worst['mean']:.3f} sd on average and at most {worst['largest']:.3f} "
                f"(Monte Carlo floor {worst['floor_mean']:.3f} and {worst['floor_largest']:.3f})"
            )
        return "; ".join(parts) if parts else "not tested: needs a tuned run or reference draws"

    def _predicted_by(self) -> str:
        if self.has_exact_law:
            return "by the exact law of the sampler"
        return "predicted if the posterior is Gaussian"

    def _nothing_found(self) -> str:
        is_by_sums = self.pareto_k is not None or self.divergent_share is not None
        is_identified = self.stein is not None and not self.stein.undecided
        is_known = self.has_exact_law or is_by_sums or is_identified
        if is_known or self.against_reference is not None:
            return "No problem was found."
        return "No problem was found, but the law of these draws has not been tested."

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
                f"Convergence of {rhat.index[rhat.isna()][0]} is unknown: {self.rhat_name} needs "
                "at least two chains of four draws, and draws that vary. Ask for more `chains`."
            )
        if rhat.max() <= self.limits.rhat:
            return ""
        return (
            f"Not converged: {self.rhat_name} of {self._worst('rhat')} is {rhat.max():.3f}. "
            f"{if_not_converged(self.method)}"
        )

    def _length(self) -> str:
        if "ess" not in self.table or not self.table["ess"].min() < self.limits.effective_draws:
            return ""
        return (
            f"Too short: only {self.table['ess'].min():.0f} effective draws of "
            f"{self._worst('ess', -1)}, which is too few for quantiles. {if_short(self.method)}"
        )

    def _shortfall(self) -> str:
        wanted, found = self.wanted_draws, self.found_draws
        if wanted is None or found is None or found >= wanted:
            return ""
        return (
            f"Fewer than asked for: the run was ended with {found:,.0f} effective draws, where "
            f"{wanted:,.0f} were asked for: its chains move too slowly. {if_short(self.method)}"
        )

    def _worst(self, column: str, sign: int = 1) -> str:
        """Name entry and agent of the largest value of a column, or for sign -1 the smallest."""
        row = int(np.nanargmax(sign * self.table[column].to_numpy()))
        return f"{self.table.index[row]} at agent {self.table[column + '_agent'].iloc[row]}"

    def _exceeds(self, column: str) -> tuple[str, float] | None:
        """Return entry and value of the largest value of a column, if it is beyond its limit."""
        if column not in self.table or not self.table[column].max() > getattr(self.limits, column):
            return None
        return str(self.table[column].idxmax()), float(self.table[column].max())

    def _means(self) -> str:
        if (found := self._exceeds("mean_range")) is None:
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
            "method='hmc' or method='metropolis', a smaller step (a larger `rho`), or another "
            "parametrisation."
        )

    def _weights(self) -> str:
        if self.pareto_k is None or self.pareto_k < self.limits.pareto_k:
            return ""
        return (
            f"Unreliable weights: their Pareto k-hat is {self.pareto_k:.2f}, and they are trusted "
            f"below {self.limits.pareto_k:g} only. Take method='hmc'."
        )

    def _divergences(self) -> str:
        share = self.divergent_share
        if share is None or share <= self.limits.divergent_share:
            return ""
        return (
            f"Steep regions: {100 * share:.1f} % of the trajectories of HMC diverged, so that "
            "chains seldom enter some part of the posterior. Write a hierarchical model in its "
            "other form (centred or non-centred), or take stronger priors."
        )

    def _cut(self) -> str:
        share = self.undefined_share
        if share is None or share <= self.limits.undefined_share:
            return ""
        what = "candidates" if self.pareto_k is not None else "trajectories of HMC"
        where = ", ".join(f"site {name!r}" for name in self.undefined_sites) or "some site"
        return (
            f"Cut off: for {100 * share:.2g} % of the {what} the log-likelihood or the log-prior "
            f"of {where} is NaN. The posterior is taken to be zero there, which may be wrong. Let "
            "the model be -inf where its density is zero, and finite elsewhere."
        )

    def _integrals(self) -> str:
        error = self.quadrature_error
        if error is None or error <= self.limits.quadrature_error:
            return ""
        return (
            "Rough integrals: where sites integrate their own parameters out, the log-posterior of "
            f"the shared ones is wrong by {error:.2g} nats at some draw. Take method='hmc', which "
            "draws all parameters together."
        )

    def _reference(self) -> str:
        table = self.against_reference
        if table is None or table["w2"].max() <= self.limits.w2:
            return ""
        worst = table.iloc[int(table["w2"].to_numpy().argmax())]
        return (
            f"Wrong law: {worst['parameter']} at agent {worst['agent']} is {worst['w2']:.2f} sd "
            f"from the reference; its mean is off by {worst['mean_error']:.2f} sd, and its sd is "
            f"{worst['sd_ratio']:.2f} of the reference's. {if_biased(self.method)}"
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
            f"could be chance. {if_biased(self.method)}"
        )

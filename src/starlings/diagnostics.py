"""Three questions about a result, kept apart: converged? agreed? right?

1. Have the chains converged: rank-normalised split R-hat, and bulk and tail effective draws, of
   every agent and parameter entry, across the replicas of the network (from ArviZ).
2. Do the agents agree: with s the standard deviation of all draws of an entry, x_i those of agent
   i, and xbar the average of the agents at the same chain and draw,

       apart        = (largest - smallest of the agents' means) / s                             (1)
       disagreement = sqrt(mean of (x_i - xbar)^2) / s                                          (2)
       sd_ratio     = largest / smallest of the agents' standard deviations                     (3)

3. Is the law right: what tuning predicted; whether Stein's identities hold (see `stein`); and,
   where there are reference draws, for every agent and entry the error of the mean, the ratios of
   the standard deviations and variances, the share of the reference inside the agent's central
   50 % and 90 % intervals, and

       W2 = sqrt(mean_q (quantile_q(draws) - quantile_q(reference))^2) / s_reference            (4)

   Of all entries jointly, each in units of its s_reference: the mean and the largest W2 of their
   projections on random directions (sliced W2). No distance between finite samples is zero; the
   Monte Carlo floor is what as many draws of the reference as there are effective draws show
   against the rest of the reference.
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

from starlings.stein import Stein

LEVELS = (np.arange(200) + 0.5) / 200
INTERVALS = (0.5, 0.9)
NUM_DIRECTIONS = 200
DIRECTIONS_SEED = 0
FEWEST_CHAINS = 2
FEWEST_DRAWS = 100
"""Runs with fewer chains, or draws a chain, are trials: convergence is no matter for a warning."""


class PosteriorWarning(UserWarning):
    """Draws that should not be trusted as they are."""


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
    eq. (1) to (3)."""
    against_reference: pd.DataFrame | None
    """One row for each parameter entry and agent, if a reference was given."""
    predicted_w2: float | None
    """What tuning promised for the worst agent, in posterior sd."""
    sliced: pd.DataFrame | None = None
    """One row for each agent: the sliced W2 and its floor, if a reference was given."""
    stein: Stein | None = None
    """Stein's identities, where `sample` has examined them."""
    limits: Limits = Limits()

    @property
    def problems(self) -> list[str]:
        """What is wrong, each with what to do; empty if nothing is."""
        questions = (
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
        if self.predicted_w2 is not None:
            parts.append(f"W2 of {self.predicted_w2:.3f} sd predicted for the worst agent")
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
            "more `burn_in`."
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
            f"Wrong law: the draws violate Stein's identities: {'; '.join(self.stein.violations)}. "
            "Take a smaller step (a larger `rho`), a sampler with a Metropolis step, or another "
            "parametrisation."
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
    table = convergence_table(posterior).join(agreement_table(posterior))
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
    without ArviZ convergence is not. Trial runs, of one chain or fewer than 100 draws, are only
    held against what is known of their law.
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
    if posterior.sizes["chain"] >= FEWEST_CHAINS and posterior.sizes["draw"] >= FEWEST_DRAWS:
        table = agreement_table(posterior)
        if importlib.util.find_spec("arviz") is not None:
            table = convergence_table(posterior, quick=True).join(table)
    return Check(table, None, **recorded_evidence(attrs), limits=WORTH_A_WARNING)


@dataclass(frozen=True)
class Draws:
    """All parameters as one array, with names."""

    values: np.ndarray
    """(chain, draw, agent, entry)."""
    owners: np.ndarray
    """(agent, entry): whose draws these are, by name."""
    entries: list[str]

    @classmethod
    def of(cls, posterior: xr.Dataset) -> Draws:
        """The draws of a posterior."""
        variables = list(posterior.data_vars.items())
        parts = [v.values.reshape(*v.shape[:3], -1) for _, v in variables]
        entries = [entry for name, v in variables for entry in entry_names(str(name), v)]
        owners = np.repeat(posterior["agent"].values.astype(str)[:, None], len(entries), axis=1)
        return cls(np.concatenate(parts, axis=-1), owners, entries)

    def most_suspicious(self) -> Draws:
        """Of every entry only the agent whose half-chains have the most unlike means."""
        half = self.values.shape[1] // 2
        halves = np.stack([self.values[:, :half], self.values[:, half : 2 * half]])
        within = np.maximum(halves.var(axis=2).mean(axis=(0, 1)), np.finfo(float).tiny)
        worst = (halves.mean(axis=2).var(axis=(0, 1)) / within).argmax(axis=0)
        entry = np.arange(len(self.entries))
        values = self.values[:, :, worst, entry][:, :, None]
        return Draws(values, self.owners[worst, entry][None], self.entries)


def convergence_table(posterior: xr.Dataset, quick: bool = False) -> pd.DataFrame:
    """R-hat and effective draws of every entry at its worst agents, whose names stand beside.

    A quick look is at one agent for every entry, whose chains differ most.
    """
    draws = Draws.of(posterior).most_suspicious() if quick else Draws.of(posterior)
    rhat, bulk, tail = _arviz_diagnostics(draws.values)
    ess = np.fmin(bulk, tail)
    entry = np.arange(len(draws.entries))
    highest = np.where(np.isnan(rhat), np.inf, rhat).argmax(axis=0)
    fewest = np.where(np.isnan(ess), np.inf, ess).argmin(axis=0)
    columns = {
        "rhat": rhat[highest, entry],
        "rhat_agent": draws.owners[highest, entry],
        "ess": ess[fewest, entry],
        "ess_bulk": bulk.min(axis=0),
        "ess_tail": tail.min(axis=0),
        "ess_agent": draws.owners[fewest, entry],
    }
    return pd.DataFrame(columns, index=draws.entries)


def _arviz_diagnostics(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """R-hat, and bulk and tail effective draws, each (agent, entry)."""
    dataset = xr.Dataset({"x": (("chain", "draw", "agent", "entry"), values)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version when imported
        try:
            import arviz
        except ImportError:
            raise ModuleNotFoundError(
                "checking draws needs ArviZ; install it with `pip install 'starlings[arviz]'`."
            ) from None
        bulk, tail = (arviz.ess(dataset, method=method) for method in ("bulk", "tail"))
        return tuple(found["x"].values for found in (arviz.rhat(dataset), bulk, tail))


def agreement_table(posterior: xr.Dataset) -> pd.DataFrame:
    """Eq. (1) to (3) of every entry; draws that do not vary at all agree."""
    draws = Draws.of(posterior)
    values = draws.values
    spread = values.std(axis=(0, 1, 2))
    unit = np.where(spread > 0, spread, 1.0)
    scatter = values - values.mean(axis=2, keepdims=True)
    deviations = values.std(axis=(0, 1))
    smallest = np.where(spread > 0, np.maximum(deviations.min(axis=0), 1e-9 * spread), 1.0)
    columns = {
        "apart": np.ptp(values.mean(axis=(0, 1)), axis=0) / unit,  # (1)
        "disagreement": np.sqrt((scatter**2).mean(axis=(0, 1, 2))) / unit,  # (2)
        "sd_ratio": np.where(spread > 0, deviations.max(axis=0) / smallest, 1.0),  # (3)
    }
    return pd.DataFrame(columns, index=draws.entries)


def compare(posterior: xr.Dataset, reference: Mapping[str, Any]) -> pd.DataFrame:
    """Every agent's draws of every parameter entry against reference draws."""
    draws, known = _with_reference(posterior, reference)
    rows = []
    for k, entry in enumerate(draws.entries):
        for i, agent in enumerate(draws.owners[:, k]):
            scores = _scores(draws.values[:, :, i, k].ravel(), known[:, k])
            rows.append({"parameter": entry, "agent": str(agent), **scores})
    return pd.DataFrame(rows)


def _scores(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    spread = reference.std()
    ratio = draws.std() / spread
    scores = {
        "mean_error": abs(draws.mean() - reference.mean()) / spread,
        "sd_ratio": ratio,
        "variance_ratio": ratio**2,
        "w2": _w2(np.quantile(draws, LEVELS), np.quantile(reference, LEVELS)) / spread,  # (4)
    }
    for level in INTERVALS:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        scores[f"coverage_{level:.0%}"] = float(np.mean((low <= reference) & (reference <= high)))
    return scores


def sliced_w2(
    posterior: xr.Dataset, reference: Mapping[str, Any], effective_draws: float
) -> pd.DataFrame:
    """The joint law of every agent against reference draws, by eq. (4) in random directions.

    Columns `mean` and `largest` over the directions, and their floors: the same for a stretch of
    the reference with as many draws as are effective (half of them if there are not as many),
    against the rest of the reference.
    """
    draws, known = _with_reference(posterior, reference)
    centre, spread = known.mean(axis=0), known.std(axis=0)
    known = (known - centre) / spread
    own = np.moveaxis((draws.values - centre) / spread, 2, 0)
    count = int(np.clip(np.nan_to_num(effective_draws), 1, len(known) // 2))
    random = np.random.default_rng(DIRECTIONS_SEED)
    directions = random.normal(size=(NUM_DIRECTIONS, len(spread)))
    scores = np.array([_along(own @ u, known @ u, count) for u in directions])
    mean, largest = scores.mean(axis=0), scores.max(axis=0)
    columns = {
        "mean": mean[:-1],
        "largest": largest[:-1],
        "floor_mean": mean[-1],
        "floor_largest": largest[-1],
    }
    return pd.DataFrame(columns, index=draws.owners[:, 0])


def _along(own: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
    """Eq. (4) of every agent in one direction and, last, of `count` draws of the reference."""
    whole, some, rest = (np.quantile(x, LEVELS) for x in (known, known[:count], known[count:]))
    agents = [_w2(np.quantile(draws, LEVELS), whole) for draws in own]
    return np.array([*agents, _w2(some, rest)]) / known.std()


def _w2(own: np.ndarray, known: np.ndarray) -> float:
    """Between laws given by their quantiles at `LEVELS`."""
    return float(np.sqrt(np.mean((own - known) ** 2)))


def _with_reference(
    posterior: xr.Dataset, reference: Mapping[str, Any]
) -> tuple[Draws, np.ndarray]:
    """The draws, and the reference as (draw, entry) in the same order, checked."""
    missing = sorted(set(map(str, posterior.data_vars)) - set(reference))
    if missing:
        raise ValueError(f"`reference` has no draws of {missing}.")
    parts = []
    for name, variable in posterior.data_vars.items():
        known = np.asarray(reference[str(name)], float)
        known = known.reshape(len(known), -1)
        size = int(np.prod(variable.shape[3:]))
        if known.shape[1] != size:
            raise ValueError(
                f"`reference` of {name!r} has {known.shape[1]} entries a draw, not {size}."
            )
        if not np.all(np.isfinite(known)) or not np.all(np.ptp(known, axis=0) > 0):
            raise ValueError(f"`reference` of {name!r} must have finite draws that vary.")
        parts.append(known)
    lengths = {len(known) for known in parts}
    if len(lengths) > 1:
        raise ValueError(f"`reference` has parameters with unlike numbers of draws: {lengths}.")
    return Draws.of(posterior), np.concatenate(parts, axis=1)


def entry_names(name: str, draws: xr.DataArray) -> list[str]:
    """Every scalar entry of a parameter by name, in the order of its array."""
    labels = [
        draws[dim].values if dim in draws.coords else range(draws.sizes[dim])
        for dim in draws.dims[3:]
    ]
    if not labels:
        return [name]
    grid = np.stack(np.meshgrid(*labels, indexing="ij"), axis=-1).reshape(-1, len(labels))
    return [f"{name}[{', '.join(map(str, entry))}]" for entry in grid]

"""Three questions about a result, kept apart: converged? agreed? right?

1. Have the chains converged: rank-normalised split R-hat and effective draws of every agent and
   parameter, across the replicas of the network (from ArviZ).
2. Do the agents agree: with s the standard deviation of all draws of a parameter,

       apart = (largest - smallest of the agents' means) / s                                    (1)

3. Is the law right: the distance that tuning predicted and, where there are reference draws, for
   every agent and parameter the error of the mean and the ratio of the standard deviations,

       W2 = sqrt(mean_q (quantile_q(draws) - quantile_q(reference))^2) / s_reference            (2)

   and the share of the reference inside the agent's central 50 % and 90 % intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

LARGEST_RHAT = 1.01
FEWEST_DRAWS = 400
LARGEST_APART = 0.1
LARGEST_W2 = 0.1
LEVELS = (np.arange(200) + 0.5) / 200
INTERVALS = (0.5, 0.9)


@dataclass(frozen=True)
class Check:
    """The answers, as numbers and in words."""

    table: pd.DataFrame
    """One row for each parameter entry: the worst agent's R-hat, effective draws, and eq. (1)."""
    against_reference: pd.DataFrame | None
    """One row for each parameter entry and agent, if a reference was given."""
    predicted_w2: float | None
    """What tuning promised for the worst agent, in posterior sd."""

    @property
    def problems(self) -> list[str]:
        """What is wrong, each with what to do; empty if nothing is."""
        questions = (
            self._convergence,
            self._length,
            self._agreement,
            self._prediction,
            self._reference,
        )
        return [text for text in (question() for question in questions) if text]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        rhat, ess, apart = (self.table[column] for column in ("rhat", "ess", "apart"))
        lines = [
            f"converged: R-hat at most {rhat.max():.3f}, at least {ess.min():.0f} effective draws "
            "per agent",
            f"agreed: the agents' means are at most {apart.max():.3f} sd apart",
            f"right: {self._law()}",
        ]
        verdict = ["Nothing speaks against these draws."] if self.ok else self.problems
        return "\n".join([*lines, *verdict])

    def _law(self) -> str:
        parts = []
        if self.predicted_w2 is not None:
            parts.append(f"W2 of {self.predicted_w2:.3f} sd predicted for the worst agent")
        if self.against_reference is not None:
            parts.append(f"{self.against_reference['w2'].max():.3f} sd from the reference")
        return ", ".join(parts) if parts else "unknown without tuning or a reference"

    def _convergence(self) -> str:
        rhat = self.table["rhat"]
        if rhat.max() <= LARGEST_RHAT:
            return ""
        return (
            f"Not converged: R-hat of {rhat.idxmax()} is {rhat.max():.3f}. Run longer, with more "
            "`burn_in`."
        )

    def _length(self) -> str:
        ess = self.table["ess"]
        if ess.min() >= FEWEST_DRAWS:
            return ""
        return (
            f"Too short: only {ess.min():.0f} effective draws of {ess.idxmin()}, which is too few "
            "for quantiles. Ask for more `draws` or a larger `thin`."
        )

    def _agreement(self) -> str:
        apart = self.table["apart"]
        if apart.max() <= LARGEST_APART:
            return ""
        return (
            f"The agents disagree: their means of {apart.idxmax()} are {apart.max():.2f} sd apart. "
            "Take a larger `rho` (a smaller step), or noise='coherent'."
        )

    def _prediction(self) -> str:
        if self.predicted_w2 is None or self.predicted_w2 <= LARGEST_W2:
            return ""
        return (
            f"Biased: even for the Gaussian approximation {self.predicted_w2:.2f} sd are predicted "
            "at the worst agent. Its data differ too much for this network and step."
        )

    def _reference(self) -> str:
        table = self.against_reference
        if table is None or table["w2"].max() <= LARGEST_W2:
            return ""
        worst = table.iloc[int(table["w2"].to_numpy().argmax())]
        return (
            f"Wrong law: {worst['parameter']} at {worst['agent']} is {worst['w2']:.2f} sd from the "
            f"reference; its mean is off by {worst['mean_error']:.2f} sd, and its sd is "
            f"{worst['sd_ratio']:.2f} of the reference's."
        )


def check(
    posterior: xr.Dataset,
    predicted_w2: float | None = None,
    reference: Mapping[str, Any] | None = None,
) -> Check:
    """Judge draws; `reference` maps parameter names to draws with one draw per first index."""
    compared = None if reference is None else compare(posterior, reference)
    return Check(convergence_table(posterior), compared, predicted_w2)


def convergence_table(posterior: xr.Dataset) -> pd.DataFrame:
    """R-hat, effective draws and eq. (1) of every parameter entry, the worst over agents."""
    try:
        import arviz
    except ImportError:
        raise ModuleNotFoundError(
            "checking draws needs ArviZ; install it with `pip install 'starlings[arviz]'`."
        ) from None
    rhat, bulk = arviz.rhat(posterior), arviz.ess(posterior, method="bulk")
    tail = arviz.ess(posterior, method="tail")
    rows = {}
    for name, draws in posterior.data_vars.items():
        spread = draws.std(("chain", "draw", "agent"))
        means = draws.mean(("chain", "draw"))
        apart = (means.max("agent") - means.min("agent")) / spread  # (1)
        ess = np.minimum(bulk[name], tail[name]).min("agent")
        columns = zip(
            entry_names(str(name), draws),
            rhat[name].max("agent").values.ravel(),
            ess.values.ravel(),
            apart.values.ravel(),
            strict=True,
        )
        rows.update({entry: numbers for entry, *numbers in columns})
    return pd.DataFrame.from_dict(rows, orient="index", columns=["rhat", "ess", "apart"])


def compare(posterior: xr.Dataset, reference: Mapping[str, Any]) -> pd.DataFrame:
    """Every agent's draws of every parameter entry against reference draws."""
    missing = sorted(set(map(str, posterior.data_vars)) - set(reference))
    if missing:
        raise ValueError(f"`reference` has no draws of {missing}.")
    rows = []
    for name, draws in posterior.data_vars.items():
        flat = draws.values.reshape(-1, draws.sizes["agent"], int(np.prod(draws.shape[3:])))
        known = np.asarray(reference[str(name)], float)
        known = known.reshape(len(known), -1)
        if known.shape[1] != flat.shape[2]:
            raise ValueError(
                f"`reference` of {name!r} has {known.shape[1]} entries a draw, not {flat.shape[2]}."
            )
        for k, entry in enumerate(entry_names(str(name), draws)):
            for i, agent in enumerate(posterior["agent"].values):
                scores = _scores(flat[:, i, k], known[:, k])
                rows.append({"parameter": entry, "agent": str(agent), **scores})
    return pd.DataFrame(rows)


def _scores(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    spread = reference.std()
    apart = np.quantile(draws, LEVELS) - np.quantile(reference, LEVELS)
    scores = {
        "mean_error": abs(draws.mean() - reference.mean()) / spread,
        "sd_ratio": draws.std() / spread,
        "w2": float(np.sqrt(np.mean(apart**2))) / spread,  # (2)
    }
    for level in INTERVALS:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        scores[f"coverage_{level:.0%}"] = float(np.mean((low <= reference) & (reference <= high)))
    return scores


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

"""What `starlings show` prints: the table of the parameters, how they were drawn, the verdict.

The table has one row for each entry of a parameter: mean, sd and quantiles pooled over all chains,
draws and agents, R-hat and effective sample sizes of the worst agent, and the range of the agents'
means, equation (1) of `statistics`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from starlings.diagnostics.checking import recorded_evidence
from starlings.diagnostics.draws import by_site
from starlings.diagnostics.nested_rhat import rhat_name
from starlings.diagnostics.verdict import Check
from starlings.results.about import about_in_words
from starlings.results.disclosed import disclosed_in_words
from starlings.results.groups import GROUPS, MAX_CHECKED_BYTES
from starlings.results.parameter_table import (
    MAX_SERIES,
    SUMMARY_QUANTILES,
    bounded_diagnostics,
    pooled_table,
    table_as_text,
)
from starlings.results.result import Result
from starlings.results.text_table import wrapped
from starlings.system.files import format_bytes
from starlings.system.progress import number_of

LEGEND = (
    "MCSE: Monte Carlo standard error of the mean; ESS: effective sample size, for the bulk and "
    "for the tails; both, and R-hat, of the worst agent; range: from the lowest to the highest "
    "mean of an agent, in sd."
)
"""The explanation below the table."""


@dataclass(frozen=True)
class Summary:
    """A summary of a result that is in a file, as text and as JSON."""

    result: Result
    file: Path
    max_series: int = MAX_SERIES
    """Number of pairs of an agent and an entry up to which the diagnostics of all are computed."""

    def __post_init__(self) -> None:
        has_groups = set(GROUPS) <= set(self.result.tree.children)
        if not has_groups or self.result.attrs.get("inference_library") != "starlings":
            raise ValueError(
                f"{self.file} does not say how it was made; starlings did not write it."
            )

    @cached_property
    def check(self) -> Check:
        """The verdict, from a subset of the agents if there are too many draws."""
        result = self.result.subset_of_agents(MAX_CHECKED_BYTES)
        table = bounded_diagnostics(result.posterior, self.max_series)
        name = rhat_name(result.attrs)
        found = Check(table, None, **recorded_evidence(result.attrs), rhat_name=name)
        return dataclasses.replace(found, interrupted=self.result.interrupted)

    @cached_property
    def parameters(self) -> pd.DataFrame:
        """One row for each entry: mean, sd, quantiles, and the diagnostics of `check`.

        Entries of single agents have a row for each site.
        """
        shared, *own = by_site(self.result.subset_of_agents(MAX_CHECKED_BYTES).posterior)
        tables = [pooled_table(shared).join(self.check.table)]
        tables += [pooled_table(p).join(bounded_diagnostics(p, self.max_series)) for p in own]
        return pd.concat(tables)

    @property
    def run(self) -> dict[str, Any]:
        """How the draws were made; messages and bytes are those of one agent in one chain."""
        attrs, sizes = self.result.attrs, self.result.posterior.sizes
        last = self.result.sample_stats.isel(chain=0, draw=-1)
        return {
            "version": attrs["inference_library_version"],
            "method": attrs.get("method"),
            "sampler": attrs["sampler"],
            "sampler_settings": json.loads(attrs["sampler_settings"]),
            "tuned": "tuning" in attrs,
            "agents": sizes["agent"],
            "chains": sizes["chain"],
            "draws": sizes["draw"],
            "network_rounds": int(
                attrs.get("network_rounds", attrs["burn_in"] + sizes["draw"] * attrs["thin"])
            ),
            "bytes_sent": int(attrs.get("bytes_sent", sizes["chain"] * last["bytes_sent"].sum())),
            "burn_in": int(attrs["burn_in"]),
            "thin": int(attrs["thin"]),
            "seed": int(attrs["seed"]),
            "precision": attrs["precision"],
            "privacy": attrs.get("privacy"),
            "disclosed": json.loads(attrs.get("disclosed", "null")),
            "data_of": json.loads(attrs.get("data_of", "null")),
            "absent": json.loads(attrs.get("absent", "null")),
            "disagreement": float(self.result.sample_stats["disagreement"].mean()),
            "messages": _least_and_most(last["messages_sent"].values),
            "bytes": _least_and_most(last["bytes_sent"].values),
            "output": str(self.file),
        }

    def record(self) -> dict[str, Any]:
        """Return everything as JSON can represent it; numbers that are not finite are None."""
        table, levels = self.parameters, list(SUMMARY_QUANTILES)
        entries = table.drop(columns=levels).rename_axis("name").reset_index().to_dict("records")
        quantiles = table[levels].rename(columns=SUMMARY_QUANTILES).to_dict("records")
        check = {"ok": self.check.ok, "problems": self.check.problems, "verdict": str(self.check)}
        found = {
            "parameters": [
                entry | {"quantiles": own} for entry, own in zip(entries, quantiles, strict=True)
            ],
            "run": self.run,
            "check": check,
        }
        return _plain(found)

    def as_json(self) -> str:
        """Return the record as text."""
        return json.dumps(self.record(), indent=2, allow_nan=False)

    def as_text(self, width: int) -> str:
        """Return table, run and verdict for a terminal with `width` columns."""
        parts = (self.table(width), wrapped(LEGEND, width), self._run_in_words(width))
        return "\n\n".join([*parts, wrapped(str(self.check), width)])

    def table(self, width: int) -> str:
        """Return the table of the parameters for a terminal with `width` columns."""
        return table_as_text(self.parameters, width)

    def _run_in_words(self, width: int) -> str:
        run = self.run
        chains, draws = number_of(run["chains"], "chain"), number_of(run["draws"], "draw")
        lines = [
            f"{run['sampler']}: {chains} of {draws} at {number_of(run['agents'], 'agent')}, "
            f"seed {run['seed']}, starlings {run['version']}",
            f"{number_of(run['network_rounds'], 'network round')} in all, and "
            f"{format_bytes(run['bytes_sent'])} sent by all agents together",
            *about_in_words(self.result.attrs),
            f"Disagreement {run['disagreement']:.3g}, the root mean square distance of the agents "
            "from their average",
            *disclosed_in_words(self.result.attrs),
        ]
        return wrapped("\n".join(lines), width) + f"\nDraws saved to {run['output']}"


def _least_and_most(values: np.ndarray) -> dict[str, int]:
    return {"least": int(values.min()), "most": int(values.max())}


def _plain(value: Any) -> Any:
    """Convert to lists, dictionaries, texts and finite numbers; other numbers become None."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value

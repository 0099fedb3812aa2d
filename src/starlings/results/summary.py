"""A result for people and for programs: a table of its parameters, how it was made, the verdict.

The table has a line for every scalar entry of a parameter, over all chains, draws and agents, with
R-hat of the worst agent, the fewest effective draws of any agent, and how far the agents' means are
apart, eq. (1) of `measures`.
"""

from __future__ import annotations

import importlib.util
import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from starlings.diagnostics.statistics import (
    MOST_DRAWS,
    agreement_table,
    all_entries,
    convergence_table,
    entry_blocks,
    step_for,
)
from starlings.diagnostics.verdict import Check, joined, recorded_evidence
from starlings.results.gather import CHECKED_BYTES
from starlings.results.result import GROUPS, Result
from starlings.system.progress import number_of

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_EXAMINED = 2000
"""Draws of so many entries and agents are examined one by one, at some milliseconds each; of more,
those of one agent for every entry, whose chains differ most."""
NEEDS_ARVIZ = "R-hat and effective draws need ArviZ: `pip install 'starlings[arviz]'`."
LEGEND = (
    "R-hat of the worst agent; ESS: effective draws of the agent with fewest, for the bulk and for "
    "the tails; apart: from the lowest to the highest mean of an agent, in sd."
)
NAMES = "parameter"
"""The heading of the names."""
LARGEST, SMALLEST = 1e7, 1e-6
"""Numbers beyond these are written with an exponent."""


@dataclass(frozen=True)
class Summary:
    """What is told about a result, and about the file that it is in."""

    result: Result
    file: Path

    def __post_init__(self) -> None:
        has_groups = set(GROUPS) <= set(self.result.tree.children)
        if not has_groups or self.result.attrs.get("inference_library") != "starlings":
            raise ValueError(
                f"{self.file} does not say how it was made; starlings did not write it."
            )

    @cached_property
    def check(self) -> Check:
        """The verdict, or what can be had of it: without ArviZ nothing about convergence."""
        result = self.result.within(CHECKED_BYTES)
        posterior, has_arviz = result.posterior, importlib.util.find_spec("arviz") is not None
        examined = sum(math.prod(draws.shape[2:]) for draws in posterior.values())
        if has_arviz and examined <= MOST_EXAMINED:
            return result.check()
        table = agreement_table(posterior).drop(columns="is_constant")
        if has_arviz:
            table = joined(convergence_table(posterior, quick=True), agreement_table(posterior))
        return Check(table, None, **recorded_evidence(result.attrs))

    @cached_property
    def parameters(self) -> pd.DataFrame:
        """One row for each entry: mean, sd, quantiles, and what `check` knows about it."""
        posterior = self.result.within(CHECKED_BYTES).posterior
        step = step_for(posterior, MOST_DRAWS, ("chain", "draw", "agent"))
        blocks = (values.reshape(-1, values.shape[-1]) for values in entry_blocks(posterior, step))
        parts = [
            np.stack([flat.mean(axis=0), flat.std(axis=0), *np.quantile(flat, QUANTILES, axis=0)])
            for flat in blocks
        ]
        columns = dict(zip(("mean", "sd", *map(str, QUANTILES)), np.hstack(parts), strict=True))
        return pd.DataFrame(columns, index=all_entries(posterior)).join(self.check.table)

    @property
    def run(self) -> dict[str, Any]:
        """How the draws were made; messages and bytes are those of an agent in a chain."""
        attrs, sizes = self.result.attrs, self.result.posterior.sizes
        last = self.result.sample_stats.isel(chain=0, draw=-1)
        return {
            "version": attrs["inference_library_version"],
            "sampler": attrs["sampler"],
            "sampler_settings": json.loads(attrs["sampler_settings"]),
            "tuned": "tuning" in attrs,
            "agents": sizes["agent"],
            "chains": sizes["chain"],
            "draws": sizes["draw"],
            "rounds": int(attrs["burn_in"] + sizes["draw"] * attrs["thin"]),
            "burn_in": int(attrs["burn_in"]),
            "thin": int(attrs["thin"]),
            "seed": int(attrs["seed"]),
            "precision": attrs["precision"],
            "disagreement": float(self.result.sample_stats["disagreement"].mean()),
            "messages": _least_and_most(last["messages_sent"].values),
            "bytes": _least_and_most(last["bytes_sent"].values),
            "output": str(self.file),
        }

    def record(self) -> dict[str, Any]:
        """All of it in terms that JSON has: what is not a finite number is null."""
        table = self.parameters
        named = table.rename(columns={"apart": "agents_apart"}).drop(columns=list(_LEVELS))
        entries = named.rename_axis("name").reset_index().to_dict("records")
        levels = table[list(_LEVELS)].to_dict("records")
        check = {"ok": self.check.ok, "problems": self.check.problems, "verdict": str(self.check)}
        found = {
            "parameters": [e | {"quantiles": q} for e, q in zip(entries, levels, strict=True)],
            "run": self.run,
            "check": check,
        }
        return _plain(found)

    def as_json(self) -> str:
        """The record as text."""
        return json.dumps(self.record(), indent=2, allow_nan=False)

    def as_text(self, width: int) -> str:
        """The table, the run and the verdict, for a terminal of so many columns."""
        legend = LEGEND if "rhat" in self.parameters else NEEDS_ARVIZ
        parts = (self.table(width), _wrapped(legend, width), self._words(width))
        return "\n\n".join([*parts, _wrapped(str(self.check), width)])

    def table(self, width: int) -> str:
        """The table, with names on lines of their own where there is no room beside them."""
        rows, names = self.parameters, [str(name) for name in self.parameters.index]
        spreads = rows["sd"].to_numpy()
        columns = [
            (heading, [_number(x, s) for x, s in zip(rows[column], spreads, strict=True)])
            for heading, column in _IN_UNITS_OF_THE_PARAMETER.items()
        ]
        columns += [
            (heading, [_fixed(x, digits) for x in rows[column]])
            for heading, (column, digits) in _WITHOUT_UNITS.items()
            if column in rows
        ]
        return _laid_out(names, columns, width)

    def _words(self, width: int) -> str:
        run = self.run
        chains, draws = number_of(run["chains"], "chain"), number_of(run["draws"], "draw")
        lines = [
            f"{run['sampler']}: {chains} of {draws} at {number_of(run['agents'], 'agent')}, "
            f"{number_of(run['rounds'], 'round')}, seed {run['seed']}, starlings {run['version']}",
            f"Disagreement {run['disagreement']:.3g}, the root mean square distance of the agents "
            "from their average",
            f"Each agent sent {_range(run['messages'])} messages and {_range(run['bytes'])} bytes "
            "in each chain",
        ]
        return _wrapped("\n".join(lines), width) + f"\nDraws saved to {run['output']}"


_LEVELS = tuple(map(str, QUANTILES))
_IN_UNITS_OF_THE_PARAMETER = {"\nmean": "mean", "\nsd": "sd", "\n5 %": "0.05", "\n95 %": "0.95"}
_WITHOUT_UNITS = {
    "\nR-hat": ("rhat", 3),
    "ESS\nbulk": ("ess_bulk", 0),
    "ESS\ntail": ("ess_tail", 0),
    "\napart": ("apart", 3),
}


def _number(value: float, spread: float) -> str:
    """A value with the digits that three digits of the spread leave meaningful."""
    if not np.isfinite(value):
        return "-"
    if not SMALLEST < spread < LARGEST or abs(value) >= LARGEST:
        return f"{value:.4g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(spread)))}f}"


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def _laid_out(names: Sequence[str], columns: list[tuple[str, list[str]]], width: int) -> str:
    """Names and columns of numbers with headings of two lines, as wide apart as there is room.

    A name for which there is none has a line of its own, above its numbers.
    """
    from rich.cells import cell_len  # some letters are two columns wide

    heads = [heading.split("\n") for heading, _ in columns]
    parts = zip(heads, columns, strict=True)
    sizes = [max(map(len, [*head, *cells])) for head, (_, cells) in parts]
    longest = max(map(cell_len, [NAMES, *names]))
    gap = 2 if longest + sum(sizes) + 2 * len(sizes) <= width else 1
    room = min(longest, width - sum(sizes) - gap * len(sizes))
    room = room if room >= len(NAMES) else 0

    def line(name: str, cells: Sequence[str]) -> str:
        numbers = "".join(" " * gap + c.rjust(size) for c, size in zip(cells, sizes, strict=True))
        beside = cell_len(name) <= room
        blank = " " * (room - cell_len(name) if beside else room)
        return f"{name}{'' if beside else chr(10)}{blank}{numbers}".rstrip()

    rows = zip(names, zip(*(cells for _, cells in columns), strict=True), strict=True)
    top, bottom = zip(*heads, strict=True)
    heading = [line("", top), line(NAMES if room else "", bottom)]
    return "\n".join([*heading, *(line(name, row) for name, row in rows)])


def _wrapped(text: str, width: int) -> str:
    """Lines that are too long, broken between words."""
    whole_words: Any = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(line, width, **whole_words) for line in text.splitlines())


def _least_and_most(values: np.ndarray) -> dict[str, int]:
    return {"least": int(values.min()), "most": int(values.max())}


def _range(values: dict[str, int]) -> str:
    low, high = values["least"], values["most"]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _plain(value: Any) -> Any:
    """The same in lists, dictionaries and finite numbers."""
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value

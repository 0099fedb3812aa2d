"""A comparison on a terminal: one line for each sampler and setting, and notes under it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from starlings.comparison.samplers.places import AS_GIVEN
from starlings.results.text_table import Column, text_table, wrapped

if TYPE_CHECKING:
    from starlings.comparison.samplers.comparison import Comparison

WIDTH = 88
"""Columns of the text."""
HEADINGS = {
    "mean_agent": ("mean", "agent"),
    "worst_agent": ("worst", "agent"),
    "average": ("of the", "average"),
    "round": ("rounds", ""),
    "messages": ("messages", ""),
    "bytes": ("bytes", ""),
    "gradients": ("gradients", ""),
}
"""The columns of numbers, with the two lines of their headings."""


def as_text(comparison: Comparison, width: int = WIDTH) -> str:
    """The table, what its columns mean, the settings, and who could not be compared."""
    table = comparison.table
    ran = table[table["by"] != ""].sort_values(["round", "worst_agent"], na_position="last")
    parts = [_heading(comparison)]
    if len(ran):
        columns = [
            Column(heading, [_number(value) for value in ran[name]])
            for name, heading in HEADINGS.items()
        ]
        parts += [text_table([_name(row) for row in _rows(ran)], columns, width, "sampler")]
        parts += [_legend(comparison)]
        parts += ["settings", *(_settings(row) for row in _rows(ran))]
    left_out = table[table["by"] == ""]
    if len(left_out):
        parts += ["", "not compared"]
        parts += [f"  {_name(row)}: {row['reason']}" for row in _rows(left_out)]
    return "\n".join(_wrapped(part, width) for part in parts)


def _heading(comparison: Comparison) -> str:
    about = comparison.about
    size = f"{about['agents']} agents, {about['edges']} links, {about['dim']} parameters"
    return (
        f"Distance from the posterior in {about['unit']}, and cost to {about['target']:g}: {size}"
    )


def _legend(comparison: Comparison) -> str:
    about, simulated = comparison.about, comparison.table["by"] == "simulation"
    lines = [
        "",
        "The first three numbers are the distances that remain. Costs are those until the worst "
        f"agent is within {about['target']:g} for good, '-' if it never is in {about['rounds']:,} "
        "rounds: messages and bytes of all agents, gradients of one.",
    ]
    if simulated.any():
        lines.append(
            f"* by simulation of {about['simulated_rounds']:,} rounds, in which exact draws would "
            f"show {about['floor']:.2g}; costs are those until {about['simulated_target']:.2g}."
        )
    if (comparison.table["network"] != AS_GIVEN).any():
        lines.append("+ on a network of its own, see below.")
    if about["reference"] != "exact":
        error = about.get("reference_error")
        known = "" if error is None else f" with a Monte Carlo error of {error:.2g} sd"
        lines.append(
            f"The reference are {about['reference_draws']:,} draws ({about['reference']}){known}; "
            f"one half of them is {about['reference_floor']:.2g} from the other."
        )
    return "\n".join([*lines, ""])


def _settings(row: dict[str, Any]) -> str:
    spent = f"; found in {row['spent_rounds']:,.0f} rounds" if row["spent_rounds"] > 0 else ""
    tried = f"; best of {row['tried']:.0f}" if row["tried"] > 1 else ""
    where = "" if row["network"] == AS_GIVEN else f"; network: {row['network']}"
    return f"  {_name(row)}: {row['settings'] or 'none'}{tried}{spent}{where}"


def _name(row: dict[str, Any]) -> str:
    marks = ("*" if row["by"] == "simulation" else "") + (
        "+" if row["network"] != "as given" else ""
    )
    return f"{row['sampler']}, {row['setting']}{marks}"


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.to_dict("records")  # type: ignore[return-value]


def _number(value: float) -> str:
    """A number with three digits, or a dash."""
    if not np.isfinite(value):
        return "-"
    if value >= 1e5:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _wrapped(part: str, width: int) -> str:
    return "\n".join(
        line if len(line) <= width else wrapped(line, width) for line in part.split("\n")
    )

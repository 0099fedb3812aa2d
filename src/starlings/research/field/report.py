"""A comparison as Markdown that a page of the docs includes: a table, and what was left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from starlings.comparison.samplers import Comparison
from starlings.comparison.samplers.places import AS_GIVEN

NUMBERS = {
    "mean_agent": "mean agent",
    "worst_agent": "worst agent",
    "average": "average",
    "round": "rounds",
    "messages": "messages",
    "gradients": "gradients",
}
"""The columns of numbers, with their headings."""


def as_markdown(found: Comparison, title: str, figure: str) -> str:
    """The figure, the table and the reasons of those who are not in it.

    Args:
        found: the comparison.
        title: of the figure.
        figure: where it is, from the page.
    """
    table = found.table
    ran = table[table["by"] != ""].sort_values(["round", "worst_agent"], na_position="last")
    lines = [f"![{title}]({figure})", "", _caption(found), ""]
    lines.append(f"| sampler | settings | {' | '.join(NUMBERS.values())} |")
    lines.append("|---|---|" + "---:|" * len(NUMBERS))
    lines += [_line(row) for row in _rows(ran)]
    left_out = table[table["by"] == ""]
    if len(left_out):
        lines += ["", "Not compared:", ""]
        lines += [f"- {r['sampler']}, {r['setting']}: {r['reason']}" for r in _rows(left_out)]
    return "\n".join([*lines, ""])


def _caption(found: Comparison) -> str:
    """What the numbers are."""
    about = found.about
    text = (
        f"{about['agents']} agents, {about['edges']} links, {about['dim']} parameters, "
        f"{about['rows']:,} rows. Distances are those that remain, in {about['unit']}; costs those "
        f"until the worst agent is within {about['target']:g} for good."
    )
    if (found.table["by"] == "simulation").any():
        text += (
            f" A star marks simulations of {about['simulated_rounds']:,} rounds, in which exact "
            f"draws would show {about['floor']:.2g}; their costs are those until "
            f"{about['simulated_target']:.2g}."
        )
    if about["reference"] != "exact":
        error = f", whose means are right to {about['reference_error']:.2g} sd"
        text += f" The reference are {about['reference_draws']:,} draws{error}."
    return text


def _line(row: dict[str, Any]) -> str:
    """One line of the table."""
    star = r" \*" if row["by"] == "simulation" else ""
    where = "" if row["network"] == AS_GIVEN else f" ({row['network']})"
    numbers = " | ".join(_number(row[name]) for name in NUMBERS)
    return f"| {row['sampler']}{where}{star} | {row['setting']} | {numbers} |"


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return table.to_dict("records")  # type: ignore[return-value]

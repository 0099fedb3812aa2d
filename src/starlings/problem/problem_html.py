"""A problem as a notebook shows it: its parameters, and the rows of every site."""

from __future__ import annotations

from typing import Any

from starlings.problem.fields import ProblemFields
from starlings.problem.parameters import Parameter
from starlings.system.html import block, heading, paragraph, table

MOST_LINES = 12
"""Parameters and sites that are listed; of any further ones the number is said."""


def problem_html(problem: ProblemFields) -> str:
    """A problem in two small tables."""
    rows = dict(zip(problem.shards, problem.num_rows, strict=True))
    sites = [[site, f"{rows[site]:,}" if site in rows else "elsewhere"] for site in problem.sites]
    blocks = problem.parameters.blocks
    parameters = [[name, _shape(block), _values(block)] for name, block in blocks.items()]
    title = f"Problem of {len(sites)} sites, {sum(rows.values()):,} rows, {problem.dim} dimensions"
    return block(
        heading(title),
        paragraph(_about(problem.description)),
        _shortened(["parameter", "shape", "values"], parameters, right=False),
        _shortened(["site", "rows"], sites, right=True),
    )


def _about(description: Any) -> str:
    """What the model is, if it says so."""
    words = [str(description[key]) for key in ("kind", "model", "build") if key in description]
    return ": ".join(words[:2])


def _shape(block: Parameter) -> str:
    if block.labels is not None:
        return ", ".join(block.labels[:MOST_LINES]) + (" …" * (len(block.labels) > MOST_LINES))
    return " × ".join(map(str, block.shape)) or "a number"


def _values(block: Parameter) -> str:
    """Which values a parameter can have, in words."""
    return block.constraint.replace("_", " ") if block.transform is None else "constrained"


def _shortened(headings: list[str], rows: list[list[str]], right: bool) -> str:
    more = len(rows) - MOST_LINES
    last = [[f"and {more:,} more", *[""] * (len(headings) - 1)]] if more > 0 else []
    return table(headings, [*rows[:MOST_LINES], *last], right)

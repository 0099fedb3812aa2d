"""A result, and tables of it, as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from starlings.results.about import about_in_words
from starlings.results.text_table import with_decimals, with_meaningful_digits, with_two_digits
from starlings.system.html import block, heading, paragraph, table

if TYPE_CHECKING:
    from starlings.results.result import Result

MOST_ROWS = 20
"""Rows of a table that are shown; of any further ones the number is said."""
MOST_BYTES = 2**26
"""Bytes of draws above which a notebook shows neither table nor verdict, which take seconds."""
DECIMALS = {"rhat": 3, "ess_bulk": 0, "ess_tail": 0, "mean_range": 3, "tail_probability": 3}
"""Columns without a unit, and the decimals that are shown of them."""
HEADINGS = {"mcse": "MCSE", "rhat": "R-hat", "ess_bulk": "ESS bulk", "ess_tail": "ESS tail"}
"""Headings of columns that are not their names."""


def result_html(result: Result) -> str:
    """A result: what was run, the table of the parameters, the verdict, and the rounds it took."""
    sizes, attrs = result.posterior.sizes, result.attrs
    counts = ", ".join(f"{sizes[d]:,} {d}s" for d in ("chain", "draw", "agent"))
    rounds = attrs.get("network_rounds")
    lines = [*about_in_words(attrs), *([f"{int(rounds):,} network rounds"] if rounds else [])]
    if result.interrupted is not None:
        lines.insert(0, f"interrupted {result.interrupted}")
    if result.posterior.nbytes > MOST_BYTES:
        shown = [paragraph("Many draws: call `summary()` and `check()`.")]
    else:
        shown = [table_html(result.summary()), paragraph(result.check())]
    head = heading(f"{attrs.get('sampler')}: {counts}")
    return block(head, *shown, paragraph("\n".join(lines)))


def table_html(values: pd.DataFrame) -> str:
    """A table of answers with the digits that mean something."""
    more = len(values) - MOST_ROWS
    some = values.iloc[:MOST_ROWS]
    spreads = some["sd"].to_numpy() if "sd" in some else some.std(axis=1).to_numpy()
    columns = [_cells(str(name), some[name], spreads) for name in some.columns]
    rows = [list(row) for row in zip(map(str, some.index), *columns, strict=True)]
    if more > 0:
        rows.append([f"and {more:,} more", *[""] * len(columns)])
    return table(["", *[HEADINGS.get(str(n), str(n).replace("_", " ")) for n in values]], rows)


def _cells(name: str, column: pd.Series, spreads: Any) -> list[str]:
    if name in DECIMALS:
        return [with_decimals(value, DECIMALS[name]) for value in column]
    if name == "mcse":
        return list(map(with_two_digits, column))
    return list(map(with_meaningful_digits, column, spreads))

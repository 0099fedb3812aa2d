"""Tables of answers: exact numbers, printed with the digits that mean something, and exported.

A table is a data frame whose printed form, LaTeX and Markdown have the same rounded cells; CSV and
JSON have all digits.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from starlings.results.intervals import is_quantile
from starlings.results.markup import html_table, latex_table, markdown_table
from starlings.results.text_table import (
    Column,
    text_table,
    with_decimals,
    with_meaningful_digits,
    with_two_digits,
)
from starlings.system.html import block

ROW_HEADING = "row_heading"
"""The key in `attrs` of a table that says what its rows are, such as "odds ratio"."""
DECIMALS = {"rhat": 3, "ess_bulk": 0, "ess_tail": 0, "mean_range": 3, "tail_probability": 3}
"""Columns without a unit, and the decimals that are printed of them."""
HEADINGS = {
    "mcse": ("", "MCSE"),
    "rhat": ("", "R-hat"),
    "ess_bulk": ("ESS", "bulk"),
    "ess_tail": ("ESS", "tail"),
    "mean_range": ("mean", "range"),
    "tail_probability": ("tail", "prob."),
}
"""The two lines above a printed column, where they are not the name of the column."""


class AnswerTable(pd.DataFrame):
    """A data frame with a row for each answer: mean, sd, the ends of an interval, and more.

    Its numbers are exact; only what is printed, and `to_latex` and `to_markdown`, is rounded.
    Whatever is computed from it is a plain data frame.
    """

    def __repr__(self) -> str:
        if "mean" not in self.columns:
            return super().__repr__()
        width = shutil.get_terminal_size().columns
        text = text_table(self._row_names(), self._cells(self._printed(width)), width, self._rows)
        return text.lstrip("\n")  # headings may have one line only

    def _repr_html_(self) -> str:
        return block(self.as_html()) if "mean" in self.columns else self.to_html()

    def as_html(self) -> str:
        """Return the table as notebooks show it, with rounded numbers."""
        return html_table(self._rows, self._row_names(), self._cells(self._printed(None)))

    def to_csv(self, path_or_buf: Any = None, **options: Any) -> Any:
        """Write all digits as CSV, or return them as text; options are those of pandas."""
        return super().to_csv(path_or_buf, **{"index_label": self._rows, **options})

    def to_json(self, path_or_buf: Any = None, **options: Any) -> Any:
        """Write a JSON list with an object for each row, or return it as text.

        Numbers have all digits; those that are not finite become null. With options of pandas it
        is what pandas writes.
        """
        if options:
            return super().to_json(path_or_buf, **options)
        return written(json.dumps(self.records(), indent=2, allow_nan=False), path_or_buf)

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary for each row, in values that JSON has."""
        columns = [str(column) for column in self.columns]
        rows = zip(self._row_names(), self.itertuples(index=False, name=None), strict=True)
        return [
            {self._rows: name, **dict(zip(columns, map(_plain, row), strict=True))}
            for name, row in rows
        ]

    def to_latex(  # type: ignore[override]
        self, path: str | Path | None = None, caption: str = "", label: str = ""
    ) -> str:
        r"""Return a LaTeX table with the rules of the package booktabs, with rounded numbers.

        Its preamble needs `\usepackage{booktabs}`. Names and headings are escaped.

        Args:
            path: a file to write, too.
            caption: the caption, in which nothing is escaped; with one, it is a floating table.
            label: the label of the floating table, such as "tab:odds".
        """
        names, columns = self._row_names(), self._cells(self._printed(None))
        return str(written(latex_table(self._rows, names, columns, caption, label), path))

    def to_markdown(self, path: str | Path | None = None) -> str:  # type: ignore[override]
        """Return a Markdown table with rounded numbers, whose names are escaped.

        Args:
            path: a file to write, too.
        """
        names, columns = self._row_names(), self._cells(self._printed(None))
        return str(written(markdown_table(self._rows, names, columns), path))

    @property
    def _rows(self) -> str:
        """What the rows are."""
        return str(self.attrs.get(ROW_HEADING, "parameter"))

    def _row_names(self) -> list[str]:
        return [str(name) for name in self.index]

    def _printed(self, width: int | None) -> list[str]:
        """The columns that are printed on a terminal of this width; None for paper."""
        return [str(column) for column in self.columns]

    def _cells(self, columns: list[str]) -> list[Column]:
        spreads = self["sd"].to_numpy() if "sd" in self.columns else np.ones(len(self))
        return [_column(name, self[name], spreads) for name in columns]


def _column(name: str, values: pd.Series, spreads: np.ndarray) -> Column:
    """One column as text, with the digits that mean something."""
    heading = HEADINGS.get(name, ("", name.removesuffix("%") + (" %" if is_quantile(name) else "")))
    if name in ("mean", "sd") or is_quantile(name):
        return Column(heading, list(map(with_meaningful_digits, values, spreads)))
    if name == "mcse":
        return Column(heading, list(map(with_two_digits, values)))
    if name in DECIMALS:
        return Column(heading, [with_decimals(value, DECIMALS[name]) for value in values])
    is_real = values.dtype.kind == "f"
    return Column(heading, [f"{value:.4g}" if is_real else str(value) for value in values])


def written(text: str, path: Any) -> str | None:
    """Write a text to a file, or to what can be written to, and return it."""
    if hasattr(path, "write"):
        path.write(text)
    elif path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _plain(value: Any) -> Any:
    """A value that JSON has; None for a number that is not finite."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value

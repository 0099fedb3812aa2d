"""Tables as LaTeX, Markdown and HTML, in which names from data cannot become markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlings.results.text_table import Column
from starlings.system import html

MOST_ROWS = 20
"""Rows of a table that a notebook shows; of any further ones the number is said."""
LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",
    "]": "{]}",
}
r"""Letters that LaTeX reads as commands; a bracket after `\\` would be read as its argument."""
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~$&!])")
"""Letters that some dialect of Markdown reads as markup."""


def escaped_latex(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    >>> print(escaped_latex("C(ward)[T.B_1] & 5%"))
    C(ward){[}T.B\_1{]} \& 5\%
    """
    return "".join(LATEX.get(letter, letter) for letter in _in_one_line(text))


def escaped_markdown(text: str) -> str:
    r"""Return a text as Markdown shows it, in a cell of a table or elsewhere.

    >>> print(escaped_markdown("a|b_1"))
    a\|b\_1
    """
    return MARKDOWN.sub(r"\\\1", _in_one_line(text))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def latex_table(
    heading: str, names: Sequence[str], columns: Sequence[Column], caption: str, label: str
) -> str:
    """Return a table with the rules of booktabs; floating, if it has a caption or a label."""
    lines = [" & ".join([heading_, *cells]) + r" \\" for heading_, cells in _lines(names, columns)]
    above = " & ".join(map(escaped_latex, [heading, *map(_joined, columns)])) + r" \\"
    whole = [rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", above, r"\midrule"]
    whole += [*lines, r"\bottomrule", r"\end{tabular}"]
    if caption or label:
        named = [rf"\caption{{{caption}}}"] if caption else []
        named += [rf"\label{{{label}}}"] if label else []
        whole = [r"\begin{table}", r"\centering", *named, *whole, r"\end{table}"]
    return "\n".join(whole) + "\n"


def _lines(names: Sequence[str], columns: Sequence[Column]) -> list[tuple[str, list[str]]]:
    """The rows of a table as LaTeX: the name, and the cells, whose minus signs are those of
    mathematics."""
    cells = [[_latex_cell(cell) for cell in column.cells] for column in columns]
    rows = zip(*cells, strict=True) if cells else ([] for _ in names)
    return [(escaped_latex(name), list(row)) for name, row in zip(names, rows, strict=True)]


def _latex_cell(cell: str) -> str:
    return f"${cell}$" if re.fullmatch(r"-\d.*", cell) else escaped_latex(cell)


def markdown_table(heading: str, names: Sequence[str], columns: Sequence[Column]) -> str:
    """Return a table as GitHub, Pandoc and Jupyter show it, with numbers to the right."""
    above = [heading, *map(_joined, columns)]
    rows = zip(names, *(column.cells for column in columns), strict=True)
    lines = [map(escaped_markdown, above), [":--", *("--:" for _ in columns)]]
    lines += [map(escaped_markdown, row) for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def html_table(heading: str, names: Sequence[str], columns: Sequence[Column]) -> str:
    """Return a table as notebooks show it, of the first rows if there are many."""
    rows = list(zip(names, *(column.cells for column in columns), strict=True))[:MOST_ROWS]
    if len(names) > MOST_ROWS:
        rows.append((f"and {len(names) - MOST_ROWS:,} more", *[""] * len(columns)))
    return html.table([heading, *map(_joined, columns)], rows)


def _joined(column: Column) -> str:
    """The heading of a column in one line."""
    return " ".join(part for part in column.heading if part)

"""The page of a report: one HTML file with everything in it."""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from starlings.results.groups import MAX_CHECKED_BYTES
from starlings.results.parameter_table import ParameterTable, printed_columns
from starlings.results.report import svg
from starlings.results.report.account import citations, disclosure, facts
from starlings.results.report.differences import differences
from starlings.results.report.estimates import forest
from starlings.results.report.fit import fit
from starlings.results.report.question import RATIO_IN_WORDS, RATIO_OF, Question
from starlings.results.report.trust import Trust
from starlings.results.result import Result
from starlings.results.summary import Summary
from starlings.system.files import atomic_write, check_replaceable
from starlings.system.locks import locked

TEMPLATE, STYLE = "report.html.j2", "report.css"
"""Files in the folder `templates`."""


def write_report(
    result: Result, path: str | Path, title: str | None = None, overwrite: bool = False
) -> Path:
    """Write the page of a result to a file; see `Result.report`."""
    target = check_replaceable(path, overwrite)
    page = report_page(result, title).encode()
    with locked(target):
        again = functools.partial(check_replaceable, path, overwrite)
        with atomic_write(target, len(page), check=again, checksum=False) as partial:
            partial.write_bytes(page)
    return target


def report_page(result: Result, title: str | None = None) -> str:
    """Return the page of a result as HTML."""
    files = resources.files("starlings.results.report") / "templates"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, lstrip_blocks=True
    )
    environment.filters["with_code"] = with_code
    template = environment.from_string((files / TEMPLATE).read_text("utf-8"))
    style = Markup((files / STYLE).read_text("utf-8"))
    return template.render(style=style, **_contents(result, title))


def with_code(text: str) -> Markup:
    """A text in which what stands in backticks is code.

    >>> print(with_code("take `rho` < 1"))
    take <code>rho</code> &lt; 1
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _contents(result: Result, title: str | None) -> dict[str, Any]:
    """Everything that the template shows."""
    summary = Summary(result, Path("draws.nc"))
    posterior = result.subset_of_agents(MAX_CHECKED_BYTES).posterior
    agents = [str(name) for name in result.posterior["agent"].values]
    question = Question(result.attrs, agents, posterior)
    network = json.loads(result.attrs["network"])
    return {
        "title": title or question.title,
        "question": question,
        "trust": Trust.of(result, summary),
        "forest": forest(question, posterior, result.table("alone")),
        "differences": differences(question, posterior),
        "ratio_in_words": RATIO_IN_WORDS.get(question.ratio or "", ""),
        "ratio_of": RATIO_OF.get(question.ratio or "", ""),
        "fit": fit(result.table("predictive_check"), result.table("calibration")),
        "graph": svg.graph(network["agents"], network["edges"]),
        "neighbours": _neighbours(network),
        "complete": _complete(summary),
        "disclosure": disclosure(result),
        "facts": facts(result, summary),
        "citations": citations(summary.run["version"]),
    }


def _neighbours(network: dict[str, Any]) -> list[tuple[str, str]]:
    """Whom every site talks to, in words."""
    found: dict[str, list[str]] = {name: [] for name in network["agents"]}
    for one, other in network["edges"]:
        found[one].append(other)
        found[other].append(one)
    return [(name, ", ".join(others) or "nobody") for name, others in found.items()]


def _complete(summary: Summary) -> dict[str, Any]:
    """The complete table: its headings, and its rows as text."""
    table = ParameterTable(summary.parameters)
    columns = table._cells(printed_columns(table, None))
    headings = [" ".join(part for part in column.heading if part) for column in columns]
    rows = zip(map(str, table.index), zip(*(c.cells for c in columns), strict=True), strict=True)
    return {"headings": headings, "rows": list(rows)}

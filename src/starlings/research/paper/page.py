"""One page of HTML with all figures, and the paper's claims beside what was found."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import pandas as pd

from starlings.research.paper.claims import coverage, summarise
from starlings.research.paper.experiment import Experiment, Settings
from starlings.results.palette import PALETTE

COLOURS = f"""
:root {{ --text: {PALETTE["black"]}; --yes: {PALETTE["blue"]}; --no: {PALETTE["vermilion"]}; }}"""
"""Colours of the page, as variables of its style sheet."""
PAGE_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--text); }
h1, h2 { line-height: 1.2; }
section { border-top: 1px solid lightgrey; margin-top: 2.5rem; }
img { max-width: 100%; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.7rem 0.35rem 0;
         border-bottom: 1px solid lightgrey; }
.beside { display: grid; grid-template-columns: 1fr 2fr; gap: 2rem; }
.yes { color: var(--yes); font-weight: 600; } .no { color: var(--no); font-weight: 600; }
@media (max-width: 45rem) { .beside { grid-template-columns: 1fr; } }
"""
"""The style sheet of the page, without the values of its colours."""


def write(
    folder: Path,
    finished: Sequence[Experiment],
    tables: Mapping[str, pd.DataFrame],
    judged: pd.DataFrame,
    settings: Settings,
) -> Path:
    """Write index.html, with every image inside it."""
    parts = [_section(folder, e, tables[e.name], judged) for e in finished]
    trials = f"{settings.trials} trials" + (", a quick run" if settings.quick else "")
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The paper, reproduced</title>
<meta name="viewport" content="width=device-width"><style>{COLOURS}{PAGE_STYLE}</style></head><body>
<h1>Distributed MCMC based on ADMM: the paper, reproduced</h1>
<p>{trials}; verdicts are computed from the tables (<a href="claims.csv">claims.csv</a>,
<a href="claims.md">claims.md</a>).</p>
{_summary(judged)}
{"".join(parts)}
</body></html>
"""
    path = folder / "index.html"
    path.write_text(text, encoding="utf-8")
    return path


def _summary(judged: pd.DataFrame) -> str:
    head = "<tr><th>claim</th><th>called true when</th><th>for Algorithm 1</th></tr>"
    rows = [
        _row([line["claim"], line["criterion"]], line["verdict"], line["verdict"] == "holds")
        for line in summarise(judged).to_dict("records")
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _row(cells: list[str], verdict: str, good: bool) -> str:
    plain = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f"<tr>{plain}<td class='{'yes' if good else 'no'}'>{escape(verdict)}</td></tr>"


def _section(
    folder: Path, experiment: Experiment, table: pd.DataFrame, judged: pd.DataFrame
) -> str:
    name = experiment.name
    links = [
        f"<a href='{name}.{kind}'>{kind.upper()}</a>"
        for kind in ("csv", "png", "svg", "gif")
        if (folder / f"{name}.{kind}").exists()
    ]
    note = f"<p>{escape(experiment.note)}</p>" if experiment.note else ""
    images = [_image(folder / f"{name}.{kind}") for kind in ("png", "gif")]
    return f"""<section id="{name}"><h2>{escape(experiment.title)}</h2>
{"".join(images)}
{note}<p>{name}: {" · ".join(links)}</p>
<div class="beside"><div><h3>The paper</h3><p>{escape(experiment.paper)}</p></div>
<div><h3>What is true</h3>{_verdicts(judged[judged["experiment"] == name])}{_agreement(table)}</div>
</div></section>
"""


def _verdicts(judged: pd.DataFrame) -> str:
    rows = [
        _row(
            [line["claim"], line["setting"], line["numbers"]],
            "holds" if line["holds"] else "does not hold",
            line["holds"],
        )
        for line in judged.to_dict("records")
    ]
    return f"<table>{''.join(rows)}</table>"


def _agreement(table: pd.DataFrame) -> str:
    if "monte_carlo" not in table:
        return ""
    return (
        f"<p>{coverage(table):.1%} of the Monte Carlo points lie in the band that 95 % of such "
        "trials reach under the exact law.</p>"
    )


def _image(path: Path) -> str:
    if not path.exists():
        return ""
    kind = path.suffix.removeprefix(".")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f"<img alt='{escape(path.stem)}' src='data:image/{kind};base64,{data}'>\n"

"""The claims as a table in Markdown, for the documentation: one row per claim."""

from __future__ import annotations

import pandas as pd

from starlings.research.paper.experiment import Settings

HEAD = "| the paper says | verdict | numbers |\n|---|---|---|\n"


def claims_page(judged: pd.DataFrame, settings: Settings) -> str:
    """The judged claims, with the settings where each does not hold and some of its numbers."""
    how = f"{settings.trials} trials" + (", a quick run" if settings.quick else "")
    made_by = f"Made by `starlings paper` ({how}) from its `claims.csv`; not to be edited.\n\n"
    rows = [_row(claim, rows) for claim, rows in judged.groupby("claim", sort=False)]
    return made_by + HEAD + "".join(rows)


def _row(claim: object, rows: pd.DataFrame) -> str:
    says = f"{claim}<br>*{rows['criterion'].iloc[0]}*"
    cells = [cell.replace("|", "\\|") for cell in (says, _verdict(rows), _numbers(rows))]
    return f"| {' | '.join(cells)} |\n"


def _verdict(rows: pd.DataFrame) -> str:
    holding, count = int(rows["holds"].sum()), len(rows)
    text = f"holds in {holding} of {count} setting{'s' if count > 1 else ''}"
    return text if holding == count else f"{text}; not in {_places(rows[~rows['holds']])}"


def _places(rows: pd.DataFrame) -> str:
    """Where: each experiment once, with its settings."""
    by_experiment = rows.groupby("experiment", sort=False)["setting"]
    return "; ".join(f"{_short(name)} ({'; '.join(each)})" for name, each in by_experiment)


def _numbers(rows: pd.DataFrame) -> str:
    """The numbers of the first setting where the claim fails, and of the first where it holds."""
    first = rows.drop_duplicates("holds").sort_values("holds").to_dict("records")
    return "<br>".join(f"{_short(r['experiment'])} ({r['setting']}): {r['numbers']}" for r in first)


def _short(experiment: object) -> str:
    return str(experiment).replace("fig-", "")

"""The predictive checks of the sites, as pictures: does the model describe their data?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from starlings.results.answers.unlikely import is_unlikely
from starlings.results.report import svg
from starlings.results.report.axes import Axis
from starlings.results.text_table import with_meaningful_digits

MOST_CALIBRATED = 12
"""Sites with a picture of their calibration, at most: the first ones."""


@dataclass(frozen=True)
class Cell:
    """One statistic of one site."""

    picture: Markup
    observed: str
    simulated: str
    is_odd: bool


@dataclass(frozen=True)
class Fit:
    """All statistics of all sites."""

    statistics: list[str]
    sites: list[tuple[str, list[Cell | None]]]
    odd: list[str]
    """What does not fit, in words."""
    calibrations: list[Markup]
    left_out: int
    """Sites whose calibration is not shown."""


def fit(check: pd.DataFrame | None, calibration: pd.DataFrame | None) -> Fit | None:
    """Return the checks that a result has; None if it has none.

    Args:
        check: the table of `starlings.predictive_check`.
        calibration: its calibration.
    """
    if check is None or check.empty:
        return None
    statistics, sites = (list(dict.fromkeys(check[name])) for name in ("statistic", "site"))
    axes = {
        name: Axis.around(own[["observed", "5%", "95%"]].to_numpy().ravel())
        for name, own in check.groupby("statistic")
    }
    check = check.assign(is_odd=is_unlikely(check["tail_probability"]))
    by_place = check.set_index(["site", "statistic"])
    rows = [
        (
            str(site),
            [
                _cell(by_place.loc[(site, name)], axes[name])
                if (site, name) in by_place.index
                else None
                for name in statistics
            ],
        )
        for site in sites
    ]
    odd = check[check["is_odd"]]
    words = [f"{name} at {site}" for name, site in zip(odd["statistic"], odd["site"], strict=True)]
    pictures, left_out = _calibrations(calibration)
    return Fit([str(name) for name in statistics], rows, words, pictures, left_out)


def _cell(row: pd.Series, axis: Axis) -> Cell:
    low, high, observed = (float(row[name]) for name in ("5%", "95%", "observed"))
    picture = svg.check_lane(axis, (low, high), observed)
    spread = max(float(row["sd"]), 1e-12)
    texts = [with_meaningful_digits(v, spread) for v in (observed, low, high)]
    return Cell(picture, texts[0], f"{texts[1]} to {texts[2]}", bool(row["is_odd"]))


def _calibrations(calibration: pd.DataFrame | None) -> tuple[list[Markup], int]:
    """A picture for each of the first sites, and the number of the others."""
    if calibration is None or calibration.empty:
        return [], 0
    sites = list(calibration.groupby("site", sort=False))
    pictures = [
        svg.calibration(f"Calibration at {site}", own.to_dict("records"))  # type: ignore[arg-type]
        for site, own in sites[:MOST_CALIBRATED]
    ]
    named = [
        svg.captioned(str(site), picture)
        for (site, _), picture in zip(sites, pictures, strict=False)
    ]
    return named, len(sites) - len(pictures)

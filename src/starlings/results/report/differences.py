"""How the sites differ, where coefficients vary from site to site."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from starlings.results.answers.site_effects import EFFECT, SD
from starlings.results.report import svg
from starlings.results.report.axes import Axis
from starlings.results.report.estimates import (
    INTERCEPTS,
    QUANTILES,
    Line,
    numbers_in_words,
)
from starlings.results.report.labels import label_in_words
from starlings.results.report.question import Question


@dataclass(frozen=True)
class Difference:
    """One coefficient that varies, with what it is at every site."""

    name: str
    axis: Markup
    sd: str
    """The standard deviation between sites, with its interval, in words."""
    sites: list[Line]


def differences(question: Question, posterior: xr.Dataset) -> list[Difference]:
    """Return the coefficients that vary from site to site; none in other models.

    Args:
        question: what was asked.
        posterior: the draws.
    """
    if EFFECT not in posterior or SD not in posterior:
        return []
    effects, sds = posterior[EFFECT], posterior[SD]
    labels = [str(label) for label in effects[effects.dims[3]].values]
    return [
        _difference(question, label, effects.isel({effects.dims[3]: k}), sds.values[..., k])
        for k, label in enumerate(labels)
    ]


def _difference(
    question: Question, label: str, effects: xr.DataArray, sds: np.ndarray
) -> Difference:
    sites = effects["agent"].values.astype(str).tolist()
    ends = np.quantile(effects.values, list(QUANTILES.values()), axis=(0, 1)).T
    spreads = effects.values.std(axis=(0, 1))
    axis = Axis.around(np.append(ends, 0.0), question.ratio is not None)
    lines = []
    for site, own, spread in zip(sites, ends, spreads, strict=True):
        low, middle, high = map(float, own)
        picture = svg.lane(axis, (low, middle, high), "alone", 0.0)
        said = numbers_in_words([middle, low, high], float(spread), question.ratio is not None)
        lines.append(Line(site, picture, said[0], f"{said[1]} to {said[2]}"))
    low, middle, high = map(float, np.quantile(sds, list(QUANTILES.values())))
    texts = numbers_in_words([middle, low, high], float(sds.std()), False)
    name = "overall level" if label in INTERCEPTS else label_in_words(label, question.levels)
    return Difference(name, svg.axis_lane(axis), f"{texts[0]} ({texts[1]} to {texts[2]})", lines)

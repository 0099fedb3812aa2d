"""Whose data a result is about: a result of some sites must never look like one of all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STAND_IN = "stand-in"
"""The same as in `starlings.problem.absent`: reading a result imports nothing that samples."""


def about_in_words(attrs: Mapping[str, Any]) -> list[str]:
    """Return a line that says whose data the draws are about, if some sites were absent."""
    if "absent" not in attrs:
        return []
    absent, present = json.loads(attrs["absent"]), json.loads(attrs["data_of"])
    gone = ", ".join(absent["sites"])
    if absent["how"] == STAND_IN:
        became = f"a Gaussian approximation stands in for the data of {gone}, absent"
    else:
        became = f"nothing of {gone}, absent"
    return [f"About the data of {', '.join(present)}; {became}"]


def has_stand_in(attrs: Mapping[str, Any]) -> bool:
    """Return whether a Gaussian stands in for the rows of absent sites."""
    return "absent" in attrs and json.loads(attrs["absent"])["how"] == STAND_IN

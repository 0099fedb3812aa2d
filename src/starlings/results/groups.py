"""The groups and attributes of a result, as those who write it and those who read it need them."""

from __future__ import annotations

import json
from typing import Any

import xarray as xr

GROUPS = ("posterior", "sample_stats")
"""The names of the two groups of a result."""
MAX_CHECKED_BYTES = 2**30
"""Bytes of draws above which diagnostics use a subset of the agents."""
Groups = dict[str, xr.Dataset]
"""The datasets of a result by the name of their group."""


def as_attribute(value: Any) -> str | int | float:
    """Return a text or a number unchanged, and any other value as JSON."""
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return value if is_plain else json.dumps(value)

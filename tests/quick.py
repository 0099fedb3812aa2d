"""Which cases of a test the quick suite runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick_cases(cases: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """All cases for `pytest.mark.parametrize`; those that are not in `quick` are marked slow."""
    return [c if c in quick else pytest.param(c, marks=pytest.mark.slow) for c in cases]

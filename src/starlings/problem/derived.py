"""What is kept of the parameters with the draws: themselves, and values computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]
"""Arrays by name."""


@dataclass(frozen=True, eq=False)
class Report:
    """Named values for one draw, from the model's parameters.

    >>> odds = Report(lambda parameters: {**parameters, "odds": parameters["p"] / 2})
    >>> odds.compute({"p": 0.5})
    {'p': 0.5, 'odds': 0.25}
    """

    compute: Callable[[Values], Values]
    """Constrained parameters by name -> what is kept, by name; written in JAX."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the entries of a vector, where it has some."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What a parameter is called here, where it is not kept under its own name."""

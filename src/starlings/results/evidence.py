"""The evidence of a model, as a result has recorded it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlings.results.about import has_stand_in


class Evidence(NamedTuple):
    """The natural logarithm of the marginal likelihood of all rows, and its standard error.

    >>> print(Evidence(-123.456, 0.0123))
    -123.46 (standard error 0.01)
    """

    value: float
    """log p(all rows), in nats."""
    error: float
    """Monte Carlo standard error of `value`, in nats."""

    def __str__(self) -> str:
        return f"{self.value:.2f} (standard error {self.error:.2f})"


def recorded_log_evidence(attrs: Mapping[str, Any]) -> Evidence:
    """Return the evidence among the attributes of a result, or say how to get it."""
    if has_stand_in(attrs):
        raise ValueError(
            "this result has no log-evidence: a Gaussian stands in for the rows of absent sites, "
            "and their probability is not known."
        )
    if "log_evidence" not in attrs:
        raise ValueError(
            "this result has no log-evidence, which only draws by importance weights have; sample "
            'with method="weights".'
        )
    return Evidence(float(attrs["log_evidence"]), float(attrs["log_evidence_error"]))

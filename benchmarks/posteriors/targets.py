"""What `auto` should reach on every posterior, and whether it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .cases import BUILDERS
from .results import Row, find

EFFECTIVE_DRAWS = 4_000
"""The effective draws for which the targets are set, of the worst agent and parameter."""


@dataclass(frozen=True)
class Target:
    """Limits for one posterior, both divisions; infinite where a figure has none."""

    network_rounds: int
    """Largest number of network rounds, all included."""
    speed: float
    """Smallest number of effective draws per CPU second, as a multiple of that of pooled NUTS."""
    w2: float = math.inf
    """Largest W2, in posterior standard deviations."""
    r_hat: float = math.inf
    """Largest R-hat."""


NEAR_GAUSSIAN = Target(network_rounds=250, speed=3.0, w2=0.05)
"""The limits of the posteriors that are not named in `HARD_TARGETS`."""
HARD_TARGETS = {
    "eight_schools_noncentered": Target(network_rounds=25_000, speed=0.5),
    "lotka_volterra": Target(network_rounds=25_000, speed=0.5),
    "gp_pois_regr": Target(network_rounds=250_000, speed=0.5, w2=0.08, r_hat=1.01),
    "radon_mn_partially_pooled": Target(network_rounds=100_000, speed=0.5),
}
"""The limits of the four hard posteriors."""
TARGETS = {case: HARD_TARGETS.get(case, NEAR_GAUSSIAN) for case in BUILDERS}
"""The limits of every posterior."""

FIGURES = ("network rounds", "effective draws", "W2", "R-hat", "speed")
"""The figures that have limits, in the order of the table."""


def speed(row: Row) -> float | None:
    """Effective draws per CPU second of a run that compiles nothing; None if it was not timed."""
    return row["effective_draws"] / row["seconds"] if row.get("seconds") else None


def speed_over_nuts(rows: Sequence[Row], row: Row) -> float | None:
    """The speed of a row as a multiple of that of pooled NUTS; None if either is not known."""
    nuts = find(rows, row["case"], row["division"], "nuts")
    own, other = speed(row), None if nuts is None else speed(nuts)
    return None if own is None or other is None else own / other


def verdicts(rows: Sequence[Row], row: Row) -> dict[str, bool | None]:
    """Whether a row meets each of its limits; None where there is no limit, or no figure."""
    if "error" in row:
        return dict.fromkeys(FIGURES, False)
    target, ratio = TARGETS[row["case"]], speed_over_nuts(rows, row)
    return {
        "network rounds": row["network_rounds"] <= target.network_rounds,
        "effective draws": row["effective_draws"] >= EFFECTIVE_DRAWS,
        "W2": _at_most(row["w2"], target.w2),
        "R-hat": _at_most(row["r_hat"], target.r_hat),
        "speed": None if ratio is None else ratio >= target.speed,
    }


def _at_most(figure: float, limit: float) -> bool | None:
    return None if math.isinf(limit) else figure <= limit

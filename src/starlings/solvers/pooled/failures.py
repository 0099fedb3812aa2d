"""What to say, and what to advise, where the search for the mode fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from starlings.errors import NoModeError, TuningError

SLOPE_TOLERANCE = 0.1
"""Relative difference up to which a slope by values and one by derivatives count as equal."""

InWords = Callable[[np.ndarray], str]
"""Describes a point to people, for messages."""


class StuckError(TuningError):
    """The search cannot move from where it is; from another start it may."""


def not_finite(where: str) -> StuckError:
    """The error where the density, or a derivative, is not finite at a start."""
    return StuckError(
        f"the log-posterior is not finite where the search for its mode begins, at {where}; "
        "say with `initial` where it is."
    )


def stuck(where: str, slope: float, measured: float) -> StuckError:
    """The error where F does not fall along a direction of descent.

    Args:
        where: the point, in words.
        slope: the slope of F along the direction by automatic differentiation.
        measured: the same slope, measured from values of F.
    """
    if np.isfinite(measured) and abs(measured - slope) <= SLOPE_TOLERANCE * abs(slope):
        return StuckError(
            f"no mode was found: the search is stuck at {where}. Where a density has kinks, as by "
            "|x| or max(x, 0), write it with smooth functions or take method='hmc', which needs no "
            "mode; otherwise say with `initial` where the mode is."
        )
    return StuckError(
        f"the log-posterior has wrong derivatives at {where}: along the direction of the search "
        f"its slope is {-measured:.3g} by its values and {-slope:.3g} by automatic "
        "differentiation. Kinks, rounding, comparisons and stopped gradients do that: write the "
        "model with smooth functions, or take method='hmc', which needs no mode."
    )


def no_mode(where: str, iterations: int) -> NoModeError:
    """The error where F falls without end."""
    return NoModeError(
        f"no mode was found in {iterations} iterations: the log-posterior still rises at {where}. "
        "A hierarchical model in its centred form (theta ~ N(mu, tau)) has no mode, since its "
        "density is infinite at tau = 0: write it non-centred (theta = mu + tau * eta, "
        "eta ~ N(0, 1)). A model without a proper prior may have no mode either. Take "
        "method='hmc', which needs no mode, or say with `initial` where the mode is."
    )

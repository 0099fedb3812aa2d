"""What to do about a problem, which depends on the method that made the draws."""

from __future__ import annotations

NOT_CONVERGED = {
    "weights": "Ask for more `draws`, or take method='hmc'.",
    "hmc": "Ask for more `draws`, or write the model in other coordinates: a hierarchical one in "
    "its other form (centred or non-centred).",
    "one-shot": "Ask for more `draws`, or take method='hmc'.",
    "rounds": "Run longer, with more `burn_in`, or with longer steps (a smaller `rho`).",
}
"""What to do about chains that differ, by the kind of method."""
SHORT = {
    "weights": "Ask for more `draws`, or take method='hmc'.",
    "hmc": "Ask for more `draws`, or write the model in other coordinates.",
    "one-shot": "Ask for more `draws`, or take method='hmc'.",
    "rounds": "Ask for more `draws` or a larger `thin`.",
}
"""What to do about too few effective draws."""
BIASED = {
    "weights": "Ask for more `draws`, or take method='hmc', from several points `initial`: there "
    "may be a mode that no candidate came near.",
    "hmc": "Ask for more `draws`, from several points `initial`: there may be a mode that no chain "
    "came near.",
    "one-shot": "The combination is exact for Gaussian posteriors of every site only: take "
    "method='weights' or method='hmc'.",
    "rounds": "Take a smaller step, or more draws if the chains are short.",
}
"""What to do about a law that differs from reference draws."""


def _kind(method: str | None) -> str:
    """The kind of a method: one of the keys above."""
    if method in ("weights", "weights-metropolis"):
        return "weights"
    if method in ("consensus", "parametric", "nonparametric", "semiparametric"):
        return "one-shot"
    return "hmc" if method in ("hmc", "marginal-hmc") else "rounds"


def if_not_converged(method: str | None) -> str:
    """What to do about chains that differ; `method` is the name in the attributes of a result."""
    return NOT_CONVERGED[_kind(method)]


def if_short(method: str | None) -> str:
    """What to do about too few effective draws."""
    return SHORT[_kind(method)]


def if_biased(method: str | None) -> str:
    """What to do about a law that differs from reference draws."""
    return BIASED[_kind(method)]

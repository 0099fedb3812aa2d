"""Families of outcomes: what a regression says of y, given its linear predictor."""

from __future__ import annotations

import dataclasses
from typing import Any

from starlings.errors import check_choice, nearest
from starlings.models.families.binary import Binomial, Logistic
from starlings.models.families.continuous import Gamma, Gaussian, StudentT
from starlings.models.families.counts import NegativeBinomial, Poisson
from starlings.models.families.family import Family
from starlings.models.families.ordinal import Ordinal
from starlings.models.families.survival import PiecewiseExponential, Weibull

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        Gaussian,
        StudentT,
        Logistic,
        Binomial,
        Poisson,
        NegativeBinomial,
        Gamma,
        Weibull,
        PiecewiseExponential,
        Ordinal,
    )
}
"""All families by name."""

ALIASES = {"bernoulli": "logistic", "normal": "gaussian", "linear": "gaussian"}
"""Other names of some families."""

EXAMPLES = {"cuts": "times that divide the baseline hazard into steps, such as [30, 90, 365]"}
"""Settings that a family cannot do without, and what they are."""

__all__ = ["ALIASES", "FAMILIES", "Family", "family_of", "settings_of_family"]


def family_of(name: str | Family, **settings: Any) -> Family:
    """The family with this name and these settings.

    Args:
        name: one of `FAMILIES` or `ALIASES`; a family itself is returned as it is.
        settings: of this family only, such as `degrees_of_freedom`, `cuts` or `levels`.

    >>> family_of("student_t", degrees_of_freedom=3.0)
    StudentT(degrees_of_freedom=3.0)
    """
    if isinstance(name, Family):
        _check_settings(name.name, settings, ())
        return name
    _check_settings(name, settings, settings_of_family(name))
    kind = FAMILIES[ALIASES.get(name, name)]
    for field in dataclasses.fields(kind):
        if field.default is dataclasses.MISSING and field.name not in settings:
            raise ValueError(
                f"the family {name!r} needs the setting `{field.name}`, {EXAMPLES[field.name]}."
            )
    return kind(**settings)


def settings_of_family(name: str) -> tuple[str, ...]:
    """The names of the settings of a family.

    >>> settings_of_family("gaussian")
    ('noise_std',)
    """
    check_choice([*FAMILIES, *ALIASES], family=name)
    return tuple(field.name for field in dataclasses.fields(FAMILIES[ALIASES.get(name, name)]))


def _check_settings(name: str, settings: dict[str, Any], known: Any) -> None:
    """Refuse settings that a family does not have."""
    for setting in settings:
        if setting not in known:
            has = f"has {', '.join(f'`{key}`' for key in known)}" if known else "has none"
            raise ValueError(
                f"`{setting}` is no setting of the family {name!r}, which {has}."
                f"{nearest(setting, known)}"
            )

"""A prior of one number, read from a text such as "normal(0, 1)"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import nearest
from starlings.models.priors.kinds import KINDS, LOCATIONS, Kind

CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(([^()]*)\)\s*")
"""A name and what is between its brackets."""
SUPPORTS = {"real": "any number", "positive": "positive", "unit_interval": "between 0 and 1"}
"""What values are possible, in words, by the name of a constraint."""
REMEDIES = {
    "real": "take one of all numbers, such as normal(0, 1)",
    "positive": "take one of positive numbers, such as half_normal(1) or exponential(1)",
    "unit_interval": "take one of numbers between 0 and 1, such as beta(1, 1)",
}
"""What to do about a prior that does not fit to a constraint."""


@dataclass(frozen=True)
class Prior:
    """A distribution of one number, which a text such as "student_t(3, 0, 2.5)" says.

    >>> Prior.of("Normal(0, 1e1)")
    Prior('normal(0, 10)')
    """

    kind: str
    """One of the names in `KINDS`."""
    numbers: tuple[float, ...]
    """Its numbers, such as location and standard deviation."""

    @classmethod
    def of(cls, text: str | Prior, name: str = "prior") -> Prior:
        """The prior that a text says; a prior itself is returned as it is.

        Args:
            text: the name of a distribution, with its numbers in brackets.
            name: what messages call the argument.
        """
        if isinstance(text, Prior):
            return text
        match = CALL.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(
                f"`{name}` must be a text such as 'normal(0, 1)', with one of "
                f"{', '.join(KINDS)}; got {text!r}."
            )
        kind = match[1].lower()
        if kind not in KINDS:
            raise ValueError(
                f"`{name}` must be one of {', '.join(KINDS)}, got {text!r}.{nearest(kind, KINDS)}"
            )
        return cls(kind, _checked(kind, match[2], text, name))

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{number:.12g}' for number in self.numbers)})"

    def __repr__(self) -> str:
        return f"Prior({str(self)!r})"

    @property
    def is_proper(self) -> bool:
        """Whether the density is of a distribution, so that values can be drawn from it."""
        return self.kind != "flat"

    @property
    def std(self) -> float:
        """The standard deviation; infinite if there is none."""
        return float(self._kind.std(*self.numbers))

    def log_density(self, value: Any) -> jax.Array:
        """The normalised log-density, entry by entry."""
        value = jnp.asarray(value, float) if not hasattr(value, "dtype") else value
        return self._kind.log_density(value, *self.numbers)

    def quantile(self, probability: Any) -> np.ndarray:
        """The value below which there is this probability; nan if the prior is flat."""
        return np.asarray(self._kind.quantile(np.asarray(probability, float), *self.numbers))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Values drawn at random."""
        if not self.is_proper:
            raise ValueError(
                "the prior is flat, hence improper: no parameters can be drawn from it. Give a "
                "proper prior, such as normal(0, 10)."
            )
        return self.quantile(rng.random(shape))

    def check_fits(self, constraint: str, name: str) -> None:
        """Refuse a prior that allows values which a parameter cannot have, or too few of them.

        Args:
            constraint: that of the parameter: "real", "positive" or "unit_interval".
            name: what messages call the parameter.
        """
        support, lower = self._kind.support, self.numbers[0] if self.numbers else 0.0
        fits = support == constraint or self.kind == "flat"
        if support == "interval":
            fits = constraint == "real" or (constraint == "positive" and lower >= 0)
        if not fits:
            raise ValueError(
                f"the prior of `{name}`, which can be {SUPPORTS[constraint]}, is {self}; "
                f"{REMEDIES[constraint]}."
            )

    @property
    def _kind(self) -> Kind:
        return KINDS[self.kind]


def _checked(kind: str, text: str, whole: str, name: str) -> tuple[float, ...]:
    """The numbers between the brackets of a text, if they are those of a distribution."""
    arguments = KINDS[kind].arguments
    parts = text.split(",") if text.strip() else []
    if len(parts) != len(arguments):
        needed = ", ".join(arguments)
        raise ValueError(
            f"`{name}` needs {len(arguments)} numbers, {kind}({needed}); got {whole!r}."
        )
    numbers = tuple(_number(part, whole, name) for part in parts)
    for argument, number in zip(arguments, numbers, strict=True):
        if argument not in LOCATIONS and number <= 0:
            raise ValueError(f"`{name}` must have a positive {argument}, got {whole!r}.")
    if kind == "uniform" and numbers[0] >= numbers[1]:
        raise ValueError(f"`{name}` must have a lower end below the upper one, got {whole!r}.")
    return numbers


def _number(part: str, whole: str, name: str) -> float:
    """One finite number."""
    try:
        number = float(part)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(
            f"`{name}` must have finite numbers in its brackets, got {part.strip()!r} in {whole!r}."
        )
    return number


@dataclass(frozen=True)
class PriorVector:
    """Independent priors of the entries of a vector, evaluated one kind at a time."""

    priors: tuple[Prior, ...]
    """One for each entry."""

    def log_density(self, values: jax.Array) -> jax.Array:
        """The sum of the log-densities of a vector's entries."""
        total = jnp.zeros((), values.dtype)
        for kind in sorted({prior.kind for prior in self.priors} - {"flat"}):
            places = [k for k, prior in enumerate(self.priors) if prior.kind == kind]
            own = values if len(places) == len(self.priors) else values[np.array(places)]
            columns = zip(*(self.priors[k].numbers for k in places), strict=True)
            numbers = [_constant(column, values.dtype) for column in columns]
            total += jnp.sum(KINDS[kind].log_density(own, *numbers))
        return total

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """A vector drawn at random."""
        return np.array([prior.draw(rng) for prior in self.priors])


def _constant(column: Sequence[float], dtype: Any) -> Any:
    """One number for each entry; a single one if they are all the same, which is faster."""
    return column[0] if len(set(column)) == 1 else np.asarray(column, dtype)

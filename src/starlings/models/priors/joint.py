"""The prior of all parameters of a regression.

The default prior of an intercept is that of the predictor of an average row, with the means m_j of
the columns of x and o of the offset,

    beta_0 + t ~ prior of the intercept,     t = sum_j m_j beta_j + o                       (1)

so that it does not depend on where zero is on the scale of a covariate. Parameters that stand for
an intercept in other families have such priors too: log_hazard + t, and cutpoints - t. The map from
the parameters to these numbers has determinant 1. K numbers in ascending order with a prior of
density f have the density

    K! f(c_1) ... f(c_K)                                                                    (2)

that of K independent numbers which are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from starlings.errors import nearest
from starlings.formulas.encoding import INTERCEPT
from starlings.models.families.ordered import Ordered
from starlings.models.priors.prior import Prior, PriorVector
from starlings.problem.parameters import Parameter, Parameters


@dataclass(frozen=True)
class Average:
    """An average row, and the parameters whose priors are of its predictor, eq. (1)."""

    means: tuple[float, ...]
    """m_j for every entry of `beta`, 0 for the intercept."""
    offset: float
    """o."""
    signs: tuple[tuple[str, float], ...]
    """The names of the intercept and of parameters that stand for it, with the sign of t."""

    def shift(self, beta: Any) -> Any:
        """t of eq. (1)."""
        return np.asarray(self.means, beta.dtype) @ beta + self.offset


@dataclass(frozen=True)
class RegressionPrior:
    """The prior of the coefficients, one for each, and of the other parameters, one for each name.

    An object is a `log_prior` for `Problem`, normalised unless a part is flat.
    """

    labels: tuple[str, ...]
    """The names of the entries of `beta`."""
    beta: PriorVector
    """The priors of the entries of `beta`."""
    others: tuple[tuple[str, Prior], ...] = ()
    """The names of the other parameters, with the prior of all entries of each."""
    ordered: tuple[str, ...] = ()
    """Those of the others whose entries ascend, eq. (2)."""
    average: Average | None = None
    """Which priors are those of an average row, eq. (1); None for none."""

    @classmethod
    def of(
        cls,
        texts: Mapping[str, str | Prior],
        labels: tuple[str, ...],
        parameters: Mapping[str, Parameter],
        average: Average | None = None,
    ) -> RegressionPrior:
        """The prior that texts say, one for every label and every other parameter.

        Args:
            texts: priors by the label of a coefficient, or the name of another parameter.
            labels: the names of the entries of `beta`.
            parameters: all parameters beside `beta`.
            average: see `average` of the class.
        """
        check_priors(texts, labels, parameters)
        missing = [name for name in (*labels, *parameters) if name not in texts]
        if missing:
            raise ValueError(f"`priors` has none for {', '.join(map(repr, missing))}; give them.")
        priors = {name: Prior.of(text, f"priors[{name!r}]") for name, text in texts.items()}
        for label in labels:
            priors[label].check_fits("real", label)
        for name, block in parameters.items():
            own = "real" if block.transform is not None else block.constraint
            priors[name].check_fits(own, name)
        ordered = tuple(n for n, block in parameters.items() if _is_ordered(block))
        others = tuple((name, priors[name]) for name in parameters)
        vector = PriorVector(tuple(priors[label] for label in labels))
        return cls(tuple(labels), vector, others, ordered, average)

    def __call__(self, p: Mapping[str, Any]) -> jax.Array:
        """The log-density of the parameters."""
        shifts = self._shifts(p["beta"])
        density = self.beta.log_density(p["beta"] + shifts.get(INTERCEPT, 0.0))  # (1)
        for name, prior in self.others:
            value = jnp.asarray(p[name]) + shifts.get(name, 0.0)  # (1)
            density += jnp.sum(prior.log_density(value))
            if name in self.ordered and prior.is_proper:
                density += gammaln(value.size + 1)  # (2)
        return density

    def draw(self, rng: np.random.Generator, parameters: Parameters) -> dict[str, Any]:
        """Parameters by name, drawn at random.

        Args:
            rng: the source of the random numbers.
            parameters: those of the problem, with their shapes.
        """
        beta = self.beta.draw(rng)
        shifts = self._shifts(beta)
        drawn: dict[str, Any] = {"beta": beta - shifts.get(INTERCEPT, 0.0)}
        for name, prior in self.others:
            value = prior.draw(rng, parameters.blocks[name].shape)
            value = np.sort(value) if name in self.ordered else value
            drawn[name] = value - shifts.get(name, 0.0)
        return drawn

    @property
    def is_quadratic(self) -> bool:
        """Whether the logarithm is a quadratic function of `beta`, the only parameter."""
        kinds = {prior.kind for prior in self.beta.priors}
        return kinds <= {"normal", "flat"} and not self.others

    @property
    def texts(self) -> dict[str, str]:
        """All priors as texts, by label and name."""
        own = zip(self.labels, self.beta.priors, strict=True)
        return {name: str(prior) for name, prior in (*own, *self.others)}

    @property
    def of_average_row(self) -> tuple[str, ...]:
        """The names whose priors are of the predictor of an average row."""
        return () if self.average is None else tuple(name for name, _ in self.average.signs)

    def _shifts(self, beta: Any) -> dict[str, Any]:
        """What eq. (1) adds to the parameters, by name; to the vector `beta` for the intercept."""
        if self.average is None:
            return {}
        shift = self.average.shift(beta)
        found = {name: sign * shift for name, sign in self.average.signs}
        if INTERCEPT in found:
            is_it = np.array([label == INTERCEPT for label in self.labels], beta.dtype)
            found[INTERCEPT] = found[INTERCEPT] * is_it
        return found


def check_priors(
    texts: Mapping[str, Any], labels: tuple[str, ...], parameters: Mapping[str, Parameter]
) -> None:
    """Refuse priors of something that is no coefficient and no parameter."""
    known = (*labels, *parameters)
    for name in texts:
        if name not in known:
            raise ValueError(
                f"`priors` has {name!r}, but the model has {', '.join(map(repr, known))}."
                f"{nearest(name, known)}"
            )


def _is_ordered(block: Parameter) -> bool:
    return isinstance(block.transform, Ordered)

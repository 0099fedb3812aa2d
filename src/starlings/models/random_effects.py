"""Random effects of sites: coefficients that vary between sites, each drawn at its own site.

With r the columns of a row whose coefficients vary, such as (1, age) for `(1 + age | site)`,

    eta = x'beta + r'u_i,     u_i = sd * (L z_i),     z_i ~ N(0, I) at site i               (1)

where sd and the Cholesky factor L of the correlation matrix are shared, and z_i is local: effects
are written by what is independent of sd a priori, which suits sites with few rows. (Sites with
many rows are no worse off in lock-step HMC, where each moves in coordinates of its own.)

L comes from partial correlations c_ij between -1 and 1, i < j < q, counted from 0:

    L_ji = c_ij prod_{k<i} sqrt(1 - c_kj^2),     L_jj = prod_{k<j} sqrt(1 - c_kj^2)         (2)

The density of Lewandowski, Kurowicka and Joe, det(L L')^(eta - 1), makes them independent, with

    p(c_ij) = (1 - c_ij^2)^(b_i - 1) / (2^(2 b_i - 1) B(b_i, b_i)),                         (3)
    b_i     = eta + (q - 2 - i) / 2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln
from jax.scipy.stats import norm

from starlings.errors import check_positive
from starlings.models.priors.prior import Prior
from starlings.problem import Parameter, Problem
from starlings.problem.report import Report, Values

SD = "sd_site"
"""The name of the standard deviations between sites."""
COORDINATES = ("partial_site", "z_site")
"""Parameters that are only coordinates, and are not saved: effects and correlations are."""
DEFAULT_SD = 2.5
"""Scale of the default prior of a standard deviation between sites, in units of the outcome's
scale for one standard deviation of the column."""

LogLikelihood = Callable[[Values, Values], Any]
"""(parameters, row) -> log-likelihood of the row, which adds `row["offset"]` to its predictor."""


class Tanh:
    """The transform of a number between -1 and 1: theta = tanh(z), never rounded to an end."""

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained value theta = T(z)."""
        largest = 1 - jnp.finfo(z.dtype).eps
        return jnp.clip(jnp.tanh(z), -largest, largest)

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return jnp.arctanh(theta)

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """log(1 - theta^2), without the rounding of values near 1."""
        return 2 * (jnp.log(2.0) - z - jax.nn.softplus(-2 * z))


@dataclass(frozen=True)
class RandomEffects:
    """The part of a model that says how coefficients vary between sites.

    Args:
        labels: names of the q columns "r" of a row, such as ("Intercept", "age").
        sd_priors: a prior for the standard deviation of each, see `default_sd_priors`.
        is_correlated: whether effects are correlated, as in `(1 + age | site)`; they are not in
            `(1 + age || site)`.
        concentration: eta of eq. (3): 1 for all correlation matrices alike, larger for weaker
            correlations.
    """

    labels: tuple[str, ...]
    sd_priors: tuple[Prior, ...]
    is_correlated: bool = True
    concentration: float = 1.0

    def __post_init__(self) -> None:
        if not self.labels or len(self.labels) != len(self.sd_priors):
            raise ValueError(
                f"`sd_priors` must have one prior for each of `labels` {list(self.labels)}, got "
                f"{len(self.sd_priors)}."
            )
        check_positive(concentration=self.concentration)

    @property
    def has_correlations(self) -> bool:
        """Whether there are correlations to be estimated."""
        return self.is_correlated and len(self.labels) > 1

    @property
    def texts(self) -> dict[str, str]:
        """The priors of the standard deviations as texts, by the name of their entry."""
        pairs = zip(self.labels, self.sd_priors, strict=True)
        return {f"{SD}[{label}]": str(prior) for label, prior in pairs}

    def parameters(self) -> dict[str, Parameter]:
        """The shared standard deviations and partial correlations, and the local z_i."""
        q = len(self.labels)
        found = {SD: Parameter((q,), "positive", labels=self.labels)}
        if self.has_correlations:
            found["partial_site"] = Parameter((q * (q - 1) // 2,), transform=_TANH)
        return found | {"z_site": Parameter((q,), labels=self.labels, local=True)}

    def log_prior(self, p: Values) -> Any:
        """The log-density of the shared parameters."""
        total = sum(prior.log_density(p[SD][k]) for k, prior in enumerate(self.sd_priors))
        if not self.has_correlations:
            return total
        b, c = self._exponents(), p["partial_site"]
        logs = (b - 1) * jnp.log1p(-(c**2)) - (2 * b - 1) * jnp.log(2.0) - betaln(b, b)
        return total + jnp.sum(logs)  # (3)

    def local_prior(self, p: Values) -> Any:
        """The log-density of z_i, standard normal."""
        return jnp.sum(norm.logpdf(p["z_site"]))

    def effect(self, p: Values) -> Any:
        """u_i of eq. (1), (q,)."""
        z = p["z_site"]
        return p[SD] * (self.root(p) @ z if self.has_correlations else z)  # (1)

    def root(self, p: Values) -> Any:
        """L of eq. (2), (q, q)."""
        q, c = len(self.labels), p["partial_site"]
        rows, first = [], 0
        for j in range(q):
            own = c[first : first + j]
            left = jnp.cumprod(jnp.concatenate([jnp.ones(1, c.dtype), jnp.sqrt(1 - own**2)]))
            entries = jnp.append(own * left[:-1], left[-1])  # (2)
            rows.append(jnp.concatenate([entries, jnp.zeros(q - 1 - j, c.dtype)]))
            first += j
        return jnp.stack(rows)

    def derived(self, p: Values) -> Values:
        """What is saved besides parameters: the effects of the site, and the correlations."""
        found = {"site_effect": self.effect(p)}
        if self.has_correlations:
            root = self.root(p)
            found["correlation_site"] = root @ root.T
        return found

    def with_effect(self, log_likelihood: LogLikelihood) -> LogLikelihood:
        """The log-likelihood of a row with r'u_i added to its offset."""

        def with_offset(p: Values, row: Values) -> Any:
            offset = row.get("offset", 0.0) + row["r"] @ self.effect(p)
            return log_likelihood(p, {**row, "offset": offset})

        return with_offset

    def problem(
        self,
        log_likelihood: LogLikelihood,
        log_prior: Callable[[Values], Any],
        parameters: Mapping[str, Any],
        shards: Mapping[Any, Any],
        derived: Callable[[Values], Values] | None = None,
    ) -> Problem:
        """A problem with these random effects.

        Args:
            log_likelihood: of a row, which adds `row["offset"]` to its linear predictor.
            log_prior: of the parameters that follow.
            parameters: those of the model without random effects.
            shards: the rows of each site, with a column "r" of (row, q).
            derived: further values to save, from all parameters.
        """
        problem = Problem(
            self.with_effect(log_likelihood),
            lambda p: log_prior(p) + self.log_prior(p),
            {**parameters, **self.parameters()},
            shards,
            local_prior=self.local_prior,
        )

        def saved(p: Values) -> Values:
            shown = {name: value for name, value in p.items() if name not in COORDINATES}
            return {**shown, **({} if derived is None else derived(p)), **self.derived(p)}

        axes = ("correlation_site_dim_0", "correlation_site_dim_1") if self.has_correlations else ()
        dims, coords = (
            ({"correlation_site": axes} if axes else {}),
            dict.fromkeys(axes, self.labels),
        )
        labels = {"site_effect": self.labels}
        return problem.with_report(Report(saved, labels, dims=dims, coords=coords))

    def _exponents(self) -> np.ndarray:
        """b_i of eq. (3), in the order of the partial correlations."""
        q = len(self.labels)
        return np.array([self.concentration + (q - 2 - i) / 2 for j in range(q) for i in range(j)])


_TANH = Tanh()


def default_sd_priors(column_sds: Any, outcome_scale: float = 1.0) -> tuple[Prior, ...]:
    """Half-normal priors of standard deviations between sites, on the scale of the data.

    >>> default_sd_priors([0.0, 10.0])
    (Prior('half_normal(2.5)'), Prior('half_normal(0.25)'))

    Args:
        column_sds: the standard deviation over all rows of each column "r"; 0 for the intercept.
        outcome_scale: that of the outcome, for the identity as link; 1 for all other links.
    """
    sds = np.asarray(column_sds, float)
    units = np.where(sds > 0, sds, 1.0)
    return tuple(
        Prior.of(f"half_normal({DEFAULT_SD * outcome_scale / unit:.3g})") for unit in units
    )

"""The thirteen models: log-likelihood of one row, log-prior, parameters, reported quantities.

Densities are on the constrained scale and up to constants; `starlings.Problem` adds the
log-determinants of the constraints. N(m, s) has standard deviation s throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.parameters import Parameter

STEPS_PER_YEAR = 20
"""Steps of the Runge-Kutta method in a year."""

POSITIVE = Parameter(constraint="positive")
"""One positive number."""


@dataclass(frozen=True)
class Box:
    """theta = low + (high - low) / (1 + exp(-z)), between two bounds."""

    low: float
    high: float

    def __call__(self, z):
        """Map z to theta."""
        return self.low + (self.high - self.low) * jax.nn.sigmoid(z)

    def _inverse(self, theta):
        share = (theta - self.low) / (self.high - self.low)
        return jnp.log(share) - jnp.log1p(-share)

    def log_abs_det_jacobian(self, z, theta):
        """log(high - low) + log p + log(1 - p), with p the position in the box."""
        return jnp.log(self.high - self.low) - jax.nn.softplus(z) - jax.nn.softplus(-z)


@dataclass(frozen=True)
class Model:
    """What a case needs besides its rows."""

    log_likelihood: Callable[..., Any]
    log_prior: Callable[..., Any]
    parameters: dict[str, Parameter]
    derived: Callable[..., jax.Array] | None = None
    """Maps parameters to the vector that the reference describes; None for themselves."""
    start: Mapping[str, Any] | None = None
    """Where the search for the mode begins; None for the default."""

    def reported(self, p: Mapping[str, Any]) -> jax.Array:
        """The vector that the reference describes, in its order."""
        if self.derived is not None:
            return self.derived(p)
        return jnp.concatenate([jnp.ravel(p[name]) for name in self.parameters])


def normal(x, mean, sd):
    """log N(x; mean, sd), up to a constant."""
    return -0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd)


def half_cauchy(x, scale):
    """The log-density of a half-Cauchy variable, up to a constant."""
    return -jnp.log1p((x / scale) ** 2)


def log_normal(x, mean, sd):
    """The log-density of a variable whose logarithm is N(mean, sd), up to a constant."""
    return normal(jnp.log(x), mean, sd) - jnp.log(x)


def flat(p) -> float:
    """Density 1 on the constrained scale."""
    return 0.0


# Linear regressions, and an autoregression whose rows carry their lags


def regression(prior: Callable[..., Any]) -> Callable[[dict[str, Any]], Model]:
    """y ~ N(X beta, sigma) with a given prior of beta and sigma."""

    def build(data: dict[str, Any]) -> Model:
        labels = tuple(data["parameters"][:-1])
        coefficients = Parameter((len(labels),), labels=labels)
        return Model(_linear_row, prior, {"beta": coefficients, "sigma": POSITIVE})

    return build


def _linear_row(p, row):
    return normal(row["y"], row["X"] @ p["beta"], p["sigma"])


def kidscore_prior(p):
    """sigma half-Cauchy(2.5), coefficients flat."""
    return half_cauchy(p["sigma"], 2.5)


def sblri_prior(p):
    """beta ~ N(0, 10), sigma half-N(0, 10)."""
    return jnp.sum(normal(p["beta"], 0.0, 10.0)) + normal(p["sigma"], 0.0, 10.0)


def autoregression_prior(p):
    """Intercept and lag coefficients N(0, 10), sigma half-Cauchy(2.5)."""
    return jnp.sum(normal(p["beta"], 0.0, 10.0)) + half_cauchy(p["sigma"], 2.5)


def kilpisjarvi(data: dict[str, Any]) -> Model:
    """A regression on the year, with the priors of intercept and slope in the data."""
    known = data["constants"]
    mean = np.array([known["pmualpha"], known["pmubeta"]])
    sd = np.array([known["psalpha"], known["psbeta"]])
    return regression(lambda p: jnp.sum(normal(p["beta"], mean, sd)))(data)


# Generalised linear models


def nes_logit(data: dict[str, Any]) -> Model:
    """Vote on income, logistic, flat priors."""
    labels = tuple(data["parameters"])
    return Model(_logistic_row, flat, {"beta": Parameter((len(labels),), labels=labels)})


def _logistic_row(p, row):
    score = row["X"] @ p["beta"]
    return row["y"] * score - jax.nn.softplus(score)


def glm_poisson(data: dict[str, Any]) -> Model:
    """Counts on a cubic in the year; coefficients uniform in a box."""
    labels = tuple(data["parameters"][1:])
    intercept = Parameter(transform=Box(-20.0, 20.0))
    slopes = Parameter((len(labels),), labels=labels, transform=Box(-10.0, 10.0))
    return Model(_poisson_row, flat, {"alpha": intercept, "beta": slopes})


def _poisson_row(p, row):
    return _poisson(row["count"], row["X"][0] * p["alpha"] + row["X"][1:] @ p["beta"])


def _poisson(count, log_rate):
    return count * log_rate - jnp.exp(log_rate)


# Hierarchies, not centred


def eight_schools(data: dict[str, Any]) -> Model:
    """y_j ~ N(mu + tau eta_j, se_j); the effects are reported in place of eta."""

    def log_prior(p):
        effects = jnp.sum(normal(p["eta"], 0.0, 1.0))
        return effects + normal(p["mu"], 0.0, 5.0) + half_cauchy(p["tau"], 5.0)

    groups = len(data["rows"]["school"])
    blocks = {"eta": Parameter((groups,)), "mu": Parameter(), "tau": POSITIVE}
    return Model(_school_row, log_prior, blocks, _schools_reported)


def _school_row(p, row):
    return normal(row["y"], p["mu"] + p["tau"] * p["eta"][row["school"]], row["se"])


def _schools_reported(p):
    effects = p["mu"] + p["tau"] * p["eta"]
    return jnp.concatenate([effects, jnp.stack([p["mu"], p["tau"]])])


def radon(data: dict[str, Any]) -> Model:
    """y ~ N(mu + sigma_a eta_county, sigma_y); the county means are reported in place of eta."""

    def log_prior(p):
        counties = jnp.sum(normal(p["eta"], 0.0, 1.0)) + normal(p["mu"], 0.0, 10.0)
        return counties + normal(p["sigma_a"], 0.0, 1.0) + normal(p["sigma_y"], 0.0, 1.0)

    groups = sum(name.startswith("eta") for name in data["unconstrained"])
    blocks = {"eta": Parameter((groups,)), "mu": Parameter()}
    blocks |= {"sigma_a": POSITIVE, "sigma_y": POSITIVE}
    return Model(_radon_row, log_prior, blocks, _radon_reported)


def _radon_row(p, row):
    return normal(row["y"], p["mu"] + p["sigma_a"] * p["eta"][row["county"]], p["sigma_y"])


def _radon_reported(p):
    counties = p["mu"] + p["sigma_a"] * p["eta"]
    return jnp.concatenate([counties, jnp.stack([p["mu"], p["sigma_a"], p["sigma_y"]])])


# A latent process and a differential equation: every row needs all parameters


def gaussian_process(data: dict[str, Any]) -> Model:
    """count_i ~ Poisson(exp(f_i)) with f = chol(K) z; f is reported in place of z."""
    positions, jitter = np.asarray(data["constants"]["x"], float), data["constants"]["jitter"]
    squares = np.subtract.outer(positions, positions) ** 2

    def latent(p):
        kernel = p["alpha"] ** 2 * jnp.exp(-squares / (2 * p["rho"] ** 2))
        return jnp.linalg.cholesky(kernel + jitter * jnp.eye(len(positions))) @ p["z"]

    def log_prior(p):
        length = 24 * jnp.log(p["rho"]) - 4 * p["rho"]
        return length + normal(p["alpha"], 0.0, 2.0) + jnp.sum(normal(p["z"], 0.0, 1.0))

    blocks = {"rho": POSITIVE, "alpha": POSITIVE, "z": Parameter((len(positions),))}
    return Model(
        lambda p, row: _poisson(row["count"], latent(p)[row["site"]]),
        log_prior,
        blocks,
        lambda p: jnp.concatenate([jnp.stack([p["rho"], p["alpha"]]), latent(p)]),
    )


def lotka_volterra(data: dict[str, Any]) -> Model:
    """Log pelts ~ N(log populations, sigma); theta = (alpha, beta, gamma, delta)."""
    years = int(np.max(data["rows"]["year"]))

    def log_likelihood(p, row):
        state = log_populations(p["theta"], p["z_init"], years)[row["year"]]
        return jnp.sum(normal(jnp.log(row["y"]), state, p["sigma"]))

    blocks = {"theta": 4, "z_init": 2, "sigma": 2}
    blocks = {name: Parameter((n,), constraint="positive") for name, n in blocks.items()}
    start = {"theta": [0.5, 0.025, 0.8, 0.025], "z_init": [30.0, 5.0], "sigma": 0.25}
    return Model(log_likelihood, _predator_prior, blocks, start=start)


def _predator_prior(p):
    rates = normal(p["theta"], jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05]))
    return (
        jnp.sum(rates)
        + jnp.sum(log_normal(p["z_init"], jnp.log(10.0), 1.0))
        + jnp.sum(log_normal(p["sigma"], -1.0, 1.0))
    )


def log_populations(theta, first, years: int) -> jax.Array:
    """Log prey and predator at years 0, 1, ... by the classical Runge-Kutta method.

    d log u/dt = alpha - beta v,   d log v/dt = -gamma + delta u
    """
    alpha, beta, gamma, delta = theta
    h = 1 / STEPS_PER_YEAR

    def slope(state):
        prey, predator = jnp.exp(state)
        return jnp.stack([alpha - beta * predator, -gamma + delta * prey])

    def step(state, _):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        new = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return new, new

    start = jnp.log(first)
    _, path = jax.lax.scan(step, start, length=years * STEPS_PER_YEAR)
    return jnp.concatenate([start[None], path[STEPS_PER_YEAR - 1 :: STEPS_PER_YEAR]])

"""Ready-made regressions: rows with a label of their site in, a `Problem` out.

Every model has coefficients beta ~ N(0, prior_var I) on the columns of X and, per row x with
outcome y and eta = x'beta,

    linear      y ~ N(eta, noise_std^2)                        quadratic if noise_std is known  (1)
    logistic    y ~ Bernoulli(1 / (1 + exp(-eta)))                                              (2)
    Poisson     y ~ Poisson(exp(eta))                                                           (3)
    Student-t   (y - eta) / scale ~ t(degrees_of_freedom)                                       (4)

An unknown noise_std or scale is positive with a half-normal prior. A column of ones is put before
those of X, so that the first coefficient is an intercept with the prior of the others; with
`intercept=False` there is none. Studies do the same (see `study`). Priors and outcomes are
densities that can also be drawn from: see `simulate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from starlings.columns import RowError
from starlings.design import Design
from starlings.errors import check_positive
from starlings.parameters import Parameter, Parameters
from starlings.problem import Problem
from starlings.quadratics import Quadratic
from starlings.shards import divide_by_site

LARGEST_LOG_MEAN = 40.0
"""Of a Poisson outcome that can be drawn: a count has to fit into 64 bits."""
LOG_TERMS = 16
"""Of eq. (5): the next is below 2e-17 of the first."""


def linear_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    noise_std: float | None = None,
    prior_var: float = 10.0,
    noise_prior_std: float = 10.0,
    intercept: bool = True,
) -> Problem:
    """Linear regression, eq. (1), with known noise or, if `noise_std` is None, unknown `sigma`.

    >>> X, y, sites = [[1.0], [2.0], [4.0]], [1.1, 1.9, 4.2], ["north", "north", "south"]
    >>> linear_regression(X, y, sites, noise_std=1.0).parameters.labels()
    ['beta[intercept]', 'beta[x0]']
    >>> linear_regression(X, y, sites, noise_std=1.0, intercept=False).parameters.labels()
    ['beta[0]']
    """
    design = Design.of(X, y, sites, intercept)
    if noise_std is None:
        check_positive(prior_var=prior_var, noise_prior_std=noise_prior_std)
        return _regression(design, Normal(), NormalPrior(prior_var, "sigma", noise_prior_std))
    check_positive(prior_var=prior_var, noise_std=noise_std)
    return _regression(design, Normal(noise_std), NormalPrior(prior_var), quadratic=True)


def logistic_regression(
    X: Any, y: Any, sites: Sequence[Any], *, prior_var: float = 10.0, intercept: bool = True
) -> Problem:
    """Logistic regression, eq. (2); outcomes are 0 or 1."""
    check_positive(prior_var=prior_var)
    design = Design.of(X, y, sites, intercept)
    _check_outcome(design.y, np.isin(design.y, (0, 1)), "0 or 1")
    return _regression(design, Bernoulli(), NormalPrior(prior_var))


def poisson_regression(
    X: Any, y: Any, sites: Sequence[Any], *, prior_var: float = 10.0, intercept: bool = True
) -> Problem:
    """Poisson regression, eq. (3); outcomes are counts."""
    check_positive(prior_var=prior_var)
    design = Design.of(X, y, sites, intercept)
    _check_outcome(
        design.y, (design.y >= 0) & (design.y == np.round(design.y)), "a count (0, 1, 2, ...)"
    )
    return _regression(design, Poisson(), NormalPrior(prior_var))


def student_t_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    degrees_of_freedom: float = 4.0,
    prior_var: float = 10.0,
    noise_prior_std: float = 10.0,
    intercept: bool = True,
) -> Problem:
    """Robust regression, eq. (4), with unknown `scale`."""
    check_positive(
        degrees_of_freedom=degrees_of_freedom, prior_var=prior_var, noise_prior_std=noise_prior_std
    )
    design = Design.of(X, y, sites, intercept)
    prior = NormalPrior(prior_var, "scale", noise_prior_std)
    return _regression(design, StudentT(degrees_of_freedom), prior)


def gaussian(hessians: Any, linear: Any = None) -> Problem:
    """A Gaussian target by its local potentials f_i(x) = x'H_i x / 2 - b_i'x, for theory and tests.

    >>> problem = gaussian([[[2.0]], [[3.0]]])
    >>> problem.potential([1.0])
    2.5
    """
    stack = np.asarray(hessians, float)
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2]:
        raise ValueError(f"`hessians` must have shape (agents, dim, dim), got {stack.shape}.")
    vectors = np.zeros(stack.shape[:2]) if linear is None else np.asarray(linear, float)
    if vectors.shape != stack.shape[:2]:
        raise ValueError(f"`linear` must have shape {stack.shape[:2]}, got {vectors.shape}.")
    shards = [{"hessian": H[None], "linear": b[None]} for H, b in zip(stack, vectors, strict=True)]
    parameters = {"x": (stack.shape[1],)}
    problem = Problem(local_quadratic, flat_prior, parameters, shards, quadratic=True)
    symmetric = (stack + stack.swapaxes(1, 2)) / 2
    problem.quadratic = Quadratic.factored(symmetric, vectors, np.zeros(len(stack)))  # as given
    return problem


def simulate(problem: Problem, rng: np.random.Generator) -> tuple[dict[str, Any], Problem]:
    """Parameters drawn from the prior of a regression, and its rows with outcomes drawn there.

    >>> X, sites = [[1.0], [2.0]], ["north", "south"]
    >>> problem = linear_regression(X, [0.0, 0.0], sites, noise_std=1e-9, intercept=False)
    >>> truth, simulated = simulate(problem, np.random.default_rng(0))
    >>> bool(np.isclose(simulated.shards["south"]["y"][0], 2 * truth["beta"][0]))
    True
    """
    prior, outcome = _simulators(problem)
    truth = prior.draw(rng, problem.parameters)
    shards = {
        site: {**rows, "y": outcome.draw(rng, truth, rows["x"])}
        for site, rows in problem.shards.items()
    }
    densities = (problem.log_likelihoods, problem.log_prior, problem.parameters)
    return truth, Problem.from_flat(*densities, shards, problem.is_quadratic)


@dataclass(frozen=True)
class NormalPrior:
    """beta ~ N(0, variance I) and, where there is one, a half-normal scale."""

    variance: float
    scale_name: str | None = None
    scale_std: float = 1.0

    def __call__(self, p: dict[str, Any]) -> jax.Array:
        """Log-density up to a constant in the variance."""
        size = p["beta"].size
        density = -0.5 * jnp.sum(p["beta"] ** 2) / self.variance
        density -= 0.5 * size * jnp.log(2 * jnp.pi * self.variance)
        if self.scale_name is not None:
            density += half_normal(p[self.scale_name], self.scale_std)
        return density

    def draw(self, rng: np.random.Generator, parameters: Parameters) -> dict[str, Any]:
        """Parameters by name."""
        shape = parameters.blocks["beta"].shape
        drawn: dict[str, Any] = {"beta": rng.normal(0.0, np.sqrt(self.variance), shape)}
        if self.scale_name is not None:
            drawn[self.scale_name] = abs(rng.normal(0.0, self.scale_std))
        return drawn


@dataclass(frozen=True)
class Normal:
    """Eq. (1), with sigma among the parameters unless the noise is known."""

    noise_std: float | None = None

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of one outcome."""
        sigma = self._sigma(p)
        z = (row["y"] - row["x"] @ p["beta"]) / sigma
        return -0.5 * z**2 - jnp.log(sigma) - 0.5 * jnp.log(2 * jnp.pi)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        return rng.normal(x @ p["beta"], self._sigma(p))

    def _sigma(self, p: dict[str, Any]) -> Any:
        return p["sigma"] if self.noise_std is None else self.noise_std


@jax.custom_jvp
def softplus(eta: jax.Array) -> jax.Array:
    """log(1 + exp(eta)), with an exponential that `sigmoid` has in common.

    A choice comes last: a sum over nothing but sums and products of eta would be handed to a part
    of the compiler for processors that takes ten times as long where there is one chain.
    """
    tail = log_of_one_plus(jnp.exp(-jnp.abs(eta)))
    return jnp.where(eta > 0, eta + tail, tail)


def log_of_one_plus(small: jax.Array) -> jax.Array:
    """log(1 + u) for 0 <= u <= 1 by products alone, several times faster than `log1p` on a CPU:

    log(1 + u) = 2 (s + s^3 / 3 + s^5 / 5 + ...),     s = u / (2 + u) <= 1/3                 (5)
    """
    s = small / (2 + small)
    series = jnp.zeros_like(s)
    for k in reversed(range(LOG_TERMS)):
        series = series * s**2 + 1 / (2 * k + 1)
    return 2 * s * series  # (5)


@jax.custom_jvp
def sigmoid(eta: jax.Array) -> jax.Array:
    """1 / (1 + exp(-eta))."""
    small = jnp.exp(-jnp.abs(eta))
    return jnp.where(eta >= 0, 1.0, small) / (1 + small)


softplus.defjvps(lambda tangent, _, eta: tangent * sigmoid(eta))
sigmoid.defjvps(lambda tangent, value, _: tangent * value * (1 - value))


@dataclass(frozen=True)
class Bernoulli:
    """Eq. (2)."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-probability of one outcome."""
        return self.of_predictor(row["x"] @ p["beta"], row)[0]

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - log(1 + exp(eta)) and its derivatives."""
        probability = sigmoid(eta)
        value = row["y"] * eta - softplus(eta)
        return value, row["y"] - probability, -probability * (1 - probability)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        return (rng.logistic(size=len(x)) < x @ p["beta"]).astype(float)


@dataclass(frozen=True)
class Poisson:
    """Eq. (3)."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-probability of one outcome."""
        return self.of_predictor(row["x"] @ p["beta"], row)[0]

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - exp(eta) - log y! and its derivatives."""
        mean = jnp.exp(eta)
        return row["y"] * eta - mean - gammaln(row["y"] + 1), row["y"] - mean, -mean

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        eta = x @ p["beta"]
        if eta.max() > LARGEST_LOG_MEAN:
            raise ValueError(
                f"the prior allows a Poisson mean of exp({eta.max():.0f}), which is no count; take "
                "a smaller `prior_var`, or scale the covariates."
            )
        return rng.poisson(np.exp(eta)).astype(float)


@dataclass(frozen=True)
class StudentT:
    """Eq. (4)."""

    degrees_of_freedom: float

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of one outcome."""
        nu, scale = self.degrees_of_freedom, p["scale"]
        z = (row["y"] - row["x"] @ p["beta"]) / scale
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * jnp.pi)
        return constant - jnp.log(scale) - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        return x @ p["beta"] + p["scale"] * rng.standard_t(self.degrees_of_freedom, len(x))


def half_normal(value: jax.Array, std: float) -> jax.Array:
    """Log-density of |N(0, std^2)|."""
    return -0.5 * (value / std) ** 2 + 0.5 * jnp.log(2 / jnp.pi) - jnp.log(std)


def local_quadratic(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """Minus x'Hx/2 - b'x: a potential kept as one row."""
    x = p["x"]
    return -0.5 * x @ row["hessian"] @ x + row["linear"] @ x


def flat_prior(p: dict[str, Any]) -> float:
    """Log-density zero."""
    return 0.0


def _simulators(problem: Problem) -> tuple[Any, Any]:
    """The prior and the outcomes of a problem, if both can be drawn from."""
    prior = getattr(problem.log_prior, "log_prior", None)
    outcome = getattr(problem.log_likelihoods, "log_likelihood", None)
    if prior is flat_prior:
        raise ValueError(
            "the prior is flat, hence improper: no parameters can be drawn from it. Give the model "
            "a proper prior."
        )
    if not hasattr(prior, "draw") or not hasattr(outcome, "draw"):
        raise ValueError(
            "only the regressions of `starlings.models` know how to simulate themselves; write "
            "`simulate(rng)` for this model and give it to `starlings.calibration.calibrate`."
        )
    return prior, outcome


def _regression(
    design: Design, outcome: Any, prior: NormalPrior, quadratic: bool = False
) -> Problem:
    """The problem whose rows have these outcomes and whose coefficients have this prior."""
    parameters = {"beta": Parameter((design.x.shape[1],), labels=design.labels)}
    if prior.scale_name is not None:
        parameters[prior.scale_name] = Parameter((), "positive")
    shards = divide_by_site({"x": design.x, "y": design.y}, design.sites)
    problem = Problem(outcome, prior, parameters, shards, quadratic)
    kind = {"outcome": type(outcome).__name__, **asdict(outcome)}
    return problem.described(kind="regression", **kind, prior=asdict(prior))


def _check_outcome(y: np.ndarray, valid: np.ndarray, wanted: str) -> None:
    if not valid.all():
        row = int(np.argmin(valid))
        raise RowError(f"`y` must be {wanted}, got {y[row]:g}", row)

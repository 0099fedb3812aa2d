"""The search for the mode: where it ends, in how many sums, and where there is no mode."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import root

import starlings as st
from starlings.errors import NoModeError, TuningError
from starlings.network.gossip import Gossip
from starlings.solvers.pooled import potential as potentials
from starlings.solvers.pooled.mode import Mode, default_starts, find_mode, local_mode
from starlings.solvers.pooled.potential import LocalPotential, NetworkPotential, derivatives_at
from tests.problems import irregular_graph, unequal_linear_problem


@dataclasses.dataclass(frozen=True)
class Counting(LocalPotential):
    """Sums in this process, counted."""

    sums: list[int] = dataclasses.field(default_factory=list)

    def sum(self, parts, what):
        self.sums.append(int(np.prod(np.shape(parts)[1:])))
        return super().sum(parts, what)


def searched(problem: st.Problem) -> tuple[Mode, int]:
    """The mode, and the number of sums."""
    with jax.enable_x64(True):
        potential = Counting(problem.agents())
        mode = find_mode(potential, default_starts(problem.dim), problem.point_as_text)
    return mode, len(potential.sums)


def rows(scale: float = 1.0):
    random = np.random.default_rng(0)
    return random, random.normal(size=(200, 3)) * scale, np.arange(200) % 5


def linear():
    random, X, sites = rows()
    return st.models.linear_regression(X, X @ [1, 2, -1.0] + random.normal(size=200), sites)


def linear_in_other_units():
    random, X, sites = rows(1e3)
    y = X @ [0.5, 0, 0] + 1e3 * random.normal(size=200)
    return st.models.linear_regression(X, y, sites, prior_std=1e3)


def linear_in_small_units():
    random, X, sites = rows(1e-2)
    y = X @ [0.5, 0, 0] + 1e-3 * random.normal(size=200)
    return st.models.linear_regression(X, y, sites)


def vague_linear():
    random, X, sites = rows(1e3)
    y = X @ [50.0, 0, 0] + 1e4 * random.normal(size=200)
    return st.models.linear_regression(X, y, sites, prior_std=1e6)


def logistic():
    random, X, sites = rows()
    y = (random.logistic(size=200) < X @ [1, 2, -1.0]).astype(float)
    return st.models.logistic_regression(X, y, sites)


def separable_logistic():
    _, X, sites = rows()
    return st.models.logistic_regression(X, (X[:, 0] > 0).astype(float), sites, prior_std=100.0)


def poisson_with_large_counts():
    random, X, sites = rows()
    y = random.poisson(np.exp(9.2 + X @ [0.5, 0.2, 0])).astype(float)
    return st.models.poisson_regression(X, y, sites)


def student_t():
    random, X, sites = rows()
    return st.models.student_t_regression(X, X @ [1, 2, -1.0] + random.standard_t(3, 200), sites)


def student_t_in_other_units():
    random, X, sites = rows(1e3)
    y = X @ [1, 2, -1.0] + 1e3 * random.standard_t(3, 200)
    return st.models.student_t_regression(X, y, sites, prior_std=1e3)


def student_t_far_away():
    random, X, sites = rows()
    y = 1e4 + X @ [1, 2, -1.0] + random.standard_t(3, 200)
    return st.models.student_t_regression(X, y, sites, prior_std=1e5)


def cauchy_far_away():
    y = 1000 + np.random.default_rng(0).standard_cauchy(size=60)

    def log_likelihood(p, row):
        return -jnp.log1p(((row["y"] - p["m"]) / p["s"]) ** 2) - jnp.log(p["s"])

    parameters = {"m": (), "s": st.Parameter(constraint="positive")}
    shards = [{"y": y[k::3]} for k in range(3)]
    return st.Problem(
        log_likelihood, lambda p: -0.5 * (p["m"] / 1e4) ** 2 - p["s"] / 100, parameters, shards
    )


def curved_valley():
    def log_likelihood(p, row):
        return -row["share"] * ((1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2)

    return st.Problem(log_likelihood, lambda p: 0.0, {"x": (), "y": ()}, 3 * [{"share": [1 / 3]}])


def hierarchical(centred: bool, rows_each: int = 1) -> st.Problem:
    """Four groups; with many rows in each, the centred form has a mode beside its spike."""
    random = np.random.default_rng(1)

    def group(p, row):
        chosen = jnp.sum(row["is_here"] * p["theta"])
        return chosen if centred else p["mu"] + p["tau"] * chosen

    def log_prior(p):
        theta, tau = p["theta"], p["tau"]
        spread = jnp.sum(theta**2) / 2
        if centred:
            spread = jnp.sum((theta - p["mu"]) ** 2) / (2 * tau**2) + 4 * jnp.log(tau)
        return -tau / 5 - (p["mu"] / 5) ** 2 / 2 - spread

    parameters = {"mu": (), "tau": st.Parameter(constraint="positive"), "theta": (4,)}
    shards = [
        {
            "y": y + 10 * random.normal(size=rows_each) * (rows_each > 1),
            "is_here": np.tile(np.eye(4)[k], (rows_each, 1)),
        }
        for k, y in enumerate([28.0, 8.0, -3.0, 7.0])
    ]
    return st.Problem(
        lambda p, row: -0.5 * (row["y"] - group(p, row)) ** 2 / 100, log_prior, parameters, shards
    )


CASES = {
    linear: 6,
    linear_in_other_units: 8,
    linear_in_small_units: 11,
    vague_linear: 11,
    logistic: 6,
    separable_logistic: 7,
    poisson_with_large_counts: 10,
    student_t: 7,
    student_t_in_other_units: 12,
    student_t_far_away: 15,
    cauchy_far_away: 15,
    curved_valley: 14,
    lambda: hierarchical(centred=False): 8,
    lambda: hierarchical(centred=True, rows_each=200): 14,
}
"""Problems that begin far from their modes, and the number of sums that is allowed."""
NAMES = [make.__name__ for make in list(CASES)[:-2]] + ["non-centred", "centred, many rows"]


@pytest.mark.quick(4)
@pytest.mark.parametrize(("make", "most"), CASES.items(), ids=NAMES)
def test_the_mode_is_that_of_scipy_in_few_sums(make, most):
    problem = make()
    mode, sums = searched(problem)
    assert sums <= most
    assert mode.iterations < sums

    scale = mode.scale
    with jax.enable_x64(True):
        agents = problem.agents()

    def slope_and_curvature(z):
        _, gradient, hessian = derivatives_at(agents, mode.point + scale @ z)
        return scale.T @ gradient.sum(axis=0), scale.T @ hessian.sum(axis=0) @ scale

    with jax.enable_x64(True):
        start = np.full(problem.dim, 0.1)  # posterior standard deviations
        wanted = root(slope_and_curvature, start, jac=True, tol=1e-12)
        curvature = slope_and_curvature(np.zeros(problem.dim))[1]
    np.testing.assert_allclose(wanted.x, 0.0, atol=1e-6)
    np.testing.assert_allclose(curvature, np.eye(problem.dim), atol=1e-4)


def test_quadratic_potentials_take_two_sums():
    problem = unequal_linear_problem()
    mode, sums = searched(problem)
    mean, covariance = problem.exact_posterior()
    np.testing.assert_allclose(mode.point, mean, rtol=1e-12)
    np.testing.assert_allclose(mode.scale @ mode.scale.T, covariance, rtol=1e-9)
    assert (mode.iterations, sums) == (1, 2)


@pytest.mark.parametrize("make", [st.Network.ring, st.Network.complete, st.Network.path])
def test_over_a_network_an_iteration_takes_one_sum(make):
    problem, network = logistic(), make(5)
    with jax.enable_x64(True):
        gossip = Gossip(network)
        potential = NetworkPotential(problem.agents(network), gossip)
        mode = find_mode(potential, default_starts(problem.dim))
    alone = local_mode(problem)
    np.testing.assert_allclose(mode.point, alone.point, rtol=1e-9)
    np.testing.assert_allclose(mode.scale @ mode.scale.T, alone.scale @ alone.scale.T, rtol=1e-9)
    sums, last_broadcast = mode.iterations + 1, network.radius
    assert gossip.ledger.rounds == sums * gossip.rounds_per_sum + last_broadcast


def test_many_parameters_are_searched_by_diagonals(monkeypatch):
    """L-BFGS, to the same mode, with nothing of size dim^2 in a message."""
    whole, _ = searched(poisson_with_large_counts())
    monkeypatch.setattr(potentials, "LARGEST_DENSE_HESSIAN", 3)
    mode, sums = searched(poisson_with_large_counts())
    np.testing.assert_allclose(mode.point, whole.point, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mode.hessian, np.diag(whole.hessian), rtol=1e-3)
    assert mode.scale.shape == (4,)
    assert sums <= 40


def test_a_saddle_is_left():
    """Between two modes the slope is zero, but F curves downwards."""

    def log_likelihood(p, row):
        return row["share"] * jnp.logaddexp(-0.5 * (p["x"] - 10) ** 2, -0.5 * (p["x"] + 10) ** 2)

    problem = st.Problem(log_likelihood, lambda p: 0.0, {"x": ()}, 3 * [{"share": [1 / 3]}])
    mode, sums = searched(problem)
    assert abs(mode.point) == pytest.approx(10.0)
    assert sums <= 5


def linear_density():
    return st.Problem(
        lambda p, row: p["x"] * row["s"], lambda p: 0.0, {"x": ()}, [{"s": [1.0]}, {"s": [2.0]}]
    )


def equal_observations():
    """The log-precision t of four equal observations, without a prior, grows without end."""

    def log_likelihood(p, row):
        return -0.5 * (row["y"] - p["m"]) ** 2 * jnp.exp(p["t"]) + 0.5 * p["t"]

    return st.Problem(log_likelihood, lambda p: 0.0, {"m": (), "t": ()}, 2 * [{"y": [1.0, 1.0]}])


def separable_without_prior():
    x = np.linspace(0.05, 1, 20)
    return st.Problem(
        lambda p, row: -jnp.logaddexp(0.0, -row["x"] * p["b"]),
        lambda p: 0.0,
        {"b": ()},
        [{"x": x[::2]}, {"x": x[1::2]}],
    )


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "make",
    [
        lambda: hierarchical(centred=True),
        linear_density,
        equal_observations,
        separable_without_prior,
    ],
    ids=["centred", "linear", "precision", "separable"],
)
def test_where_there_is_no_mode_is_known_soon(make):
    problem = make()
    with jax.enable_x64(True):
        potential = Counting(problem.agents())
        with pytest.raises(NoModeError, match=r"still rises at .*write it non-centred"):
            find_mode(potential, default_starts(problem.dim), problem.point_as_text)
    assert len(potential.sums) <= 30


def test_a_start_where_a_derivative_is_not_finite_is_left():
    def log_likelihood(p, row):
        return jnp.where(p["m"] > 0.05, -0.5 * (row["y"] - p["m"]) ** 2, jnp.nan)

    shards = [{"y": [2.0, 1.0]}, {"y": [3.0]}]
    problem = st.Problem(log_likelihood, lambda p: 0.0, {"m": ()}, shards)
    mode, _ = searched(problem)
    assert mode.point == pytest.approx(2.0, abs=1e-6)
    with jax.enable_x64(True), pytest.raises(TuningError, match="not finite"):
        find_mode(LocalPotential(problem.agents()), [np.array([-1.0])], problem.point_as_text)


def test_the_irregular_network_needs_no_more_rounds_than_its_sums():
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    with jax.enable_x64(True):
        gossip = Gossip(network)
        find_mode(NetworkPotential(problem.agents(network), gossip), default_starts(3))
    assert gossip.ledger.rounds == 2 * gossip.rounds_per_sum + network.radius

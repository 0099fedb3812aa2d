"""The convergence theory: the paper's theorem recomputed, and what is true without it."""

import dataclasses
import functools
import io

import jax
import networkx as nx
import numpy as np
import pytest
import scipy.optimize
from rich.console import Console
from scipy.special import gamma, gammaln

from starlings import CADMM, DADMMS, Network, models, sample
from starlings.errors import DisconnectedNetworkWarning
from starlings.random.addresses import Round, chain_keys
from starlings.sampling import start_positions
from starlings.theory import (
    Conditioning,
    Distances,
    Moments,
    coefficients,
    contraction_rate,
    convergence_report,
    gaussian_w2,
    graph_matrices,
    law,
    noise_norm,
    paper_law,
    print_report,
    quadratic_model,
    regular_multipliers,
    regular_variances,
    true_distances,
    wasserstein_bound,
)

GRAPHS = {
    "ring": Network.ring(5),
    "complete": Network.complete(5),
    "star": Network.star(6),
    "path": Network.path(4),
    "grid": Network.grid(2, 3),
    "small world": Network.small_world(8, neighbours=4, rewire=0.3, seed=1),
}
graphs = pytest.mark.parametrize("network", GRAPHS.values(), ids=GRAPHS.keys())
rhos = pytest.mark.parametrize("rho", [0.05, 0.7, 6.0])


@functools.cache
def random_problem(size, dim=2, seed=0, low=0.5, high=6.0):
    """Quadratics with unequal curvatures, axes and minima."""
    rng = np.random.default_rng(seed)
    bases = np.linalg.qr(rng.normal(size=(size, dim, dim)))[0]
    curvatures = rng.uniform(low, high, size=(size, dim))
    hessians = (bases * curvatures[:, None, :]) @ bases.transpose(0, 2, 1)
    return models.gaussian(hessians, rng.normal(size=(size, dim)))


@functools.cache
def spread_problem(low, high, size):
    """One parameter, with curvatures evenly spread over [low, high]."""
    return models.gaussian(np.linspace(low, high, size)[:, None, None])


@functools.cache
def unit_numbers(network):
    return Conditioning.of(spread_problem(1.0, 1.0, network.size), network)


def numbers_of(network, low, high):
    return dataclasses.replace(unit_numbers(network), strong_convexity=low, smoothness=high)


# The matrices, and Lemma 1


@graphs
def test_incidence_matrices_factor_the_laplacians(network):
    plus, minus, signless, laplacian, degrees = (m.toarray() for m in graph_matrices(network, 2))
    assert np.array_equal(plus @ plus.T / 2, signless)
    assert np.array_equal(minus @ minus.T / 2, laplacian)
    assert np.array_equal((signless + laplacian) / 2, degrees)
    assert np.array_equal(laplacian, np.kron(network.laplacian, np.eye(2)))


@graphs
def test_singular_values_are_those_of_the_incidence_matrices(network):
    plus, minus, *_ = (m.toarray() for m in graph_matrices(network))
    numbers = numbers_of(network, 1.0, 2.0)
    not_zero = np.linalg.svd(minus)[1][: network.size - 1]
    assert numbers.plus_max == pytest.approx(np.linalg.svd(plus)[1][0])
    assert numbers.minus_max == pytest.approx(not_zero[0])
    assert numbers.minus_min == pytest.approx(not_zero[-1])


def run_of_algorithm_one(problem, network, rho, rounds):
    """Positions (rounds + 1, agents dim) of the library's sampler, and the noise (rounds, ...)."""
    sampler = DADMMS(rho=rho, noise="paper", output="iterate")
    with jax.enable_x64(True):
        start = start_positions(problem, sampler, None, 1, 0, np.float64)[0]
        keys, shared = chain_keys(0, 1, network.size)
        noise = [
            jax.vmap(lambda key, k=k: Round(k, key, shared[0]).private_noise(start[0]))(keys[0])
            for k in range(1, rounds + 1)
        ]
    result = sample(problem, network, sampler, draws=rounds, chains=1, burn_in=0, progress=False)
    draws = next(iter(result.posterior.data_vars.values())).values[0]
    positions = np.concatenate([np.asarray(start)[None], draws]).reshape(rounds + 1, -1)
    return positions, np.asarray(noise).reshape(rounds, -1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quadratic", "logistic"])
def test_lemma_1_the_incidence_form_has_the_iterates_of_algorithm_1(kind):
    network, rho, rounds = Network.star(4), 0.8, 5
    problem = random_problem(4) if kind == "quadratic" else logistic_problem(4)
    X, w = run_of_algorithm_one(problem, network, rho, rounds)
    plus, minus, _, _, degrees = (m.toarray() for m in graph_matrices(network, 2))
    beta, Z = np.zeros(minus.shape[1]), X @ plus / 2
    with jax.enable_x64(True):
        gradient = jax.jit(lambda x: jax.vmap(lambda a, z: a.gradient(z))(problem.agents(), x))
        for k in range(rounds):
            slope = np.asarray(gradient(X[k + 1].reshape(4, 2))).ravel()
            beta = beta + rho / 2 * minus.T @ X[k + 1]
            left = slope + minus @ beta + np.sqrt(2) * degrees @ w[k]
            assert left == pytest.approx(rho * plus @ (Z[k] - Z[k + 1]), abs=1e-6)


# The contraction delta and the theorem's condition


def test_best_kappa_is_the_maximum_of_delta_at_every_rho():
    numbers = numbers_of(Network.star(6), 0.8, 3.0)
    for rho in np.geomspace(1e-4, 1e5, 19):
        best = numbers.best_kappa(rho)
        reached = numbers.delta(best, rho)
        others = [
            numbers.delta(1 + (best - 1) * factor, rho) for factor in np.geomspace(0.1, 10, 99)
        ]
        assert best > 1
        assert reached >= max(others) * (1 - 1e-9)
        assert reached == pytest.approx(max(others), rel=0.05)


@graphs
@pytest.mark.parametrize("high", [1.0, 1.7, 30.0])
def test_delta_max_is_the_numerical_maximum(network, high):
    numbers = numbers_of(network, 1.0, high)
    kappa, rho, delta_max = numbers.optimum()
    found = scipy.optimize.minimize_scalar(
        lambda log: -numbers.delta(numbers.best_kappa(np.exp(log)), np.exp(log)),
        bounds=(np.log(rho) - 5, np.log(rho) + 5),
        method="bounded",
    )
    assert -found.fun == pytest.approx(delta_max, rel=1e-6)
    assert numbers.delta(kappa, rho) == pytest.approx(delta_max, rel=1e-12)
    assert numbers.best_kappa(rho) == pytest.approx(kappa, rel=1e-9)


def test_three_forms_of_the_condition_agree():
    rng, seen = np.random.default_rng(3), set()
    for _ in range(400):
        low, ratio = np.exp(rng.uniform(-1, 4)), np.exp(rng.uniform(0, 3))
        numbers = Conditioning(*np.sort(rng.uniform(1, 5, 2))[::-1], 9.0, low, low * ratio)
        f, G = 1 / numbers.condition, 1 / numbers.graph_condition
        as_printed = f * np.sqrt(f**2 + 4 * G**2) - f**2 > 1 / low
        assert (numbers.condition < numbers.largest_condition()) == as_printed
        kappa, rho, delta = numbers.optimum()
        assert (2 * low * delta > 1) == as_printed
        assert (coefficients(numbers, rho, kappa).a < 1) == as_printed
        seen.add(bool(as_printed))
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("network", "graph_condition", "largest"),
    [(Network.ring(5), 1.7013, np.sqrt(5) - 1), (Network.complete(5), 1.2649, np.sqrt(6))],
)
def test_worked_examples_of_the_paper(network, graph_condition, largest):
    numbers = numbers_of(network, 2.0, 2.0)
    assert numbers.graph_condition == pytest.approx(graph_condition, abs=5e-5)
    assert numbers.largest_condition() == pytest.approx(largest, rel=1e-12)


# Contraction without a condition


class System:
    """D-ADMMS on (Z, beta), one parameter, f_i = m x^2 / 2 + (M - m) log cosh(x - s_i)."""

    def __init__(self, network, rho, low, high, seed):
        self.rng = np.random.default_rng(seed)
        self.plus, self.minus, _, _, degrees = (m.toarray() for m in graph_matrices(network))
        self.rho, self.low, self.high = rho, low, high
        self.D = np.diag(degrees)
        self.shift = self.rng.normal(size=network.size)

    def slope(self, x):
        return self.low * x + (self.high - self.low) * np.tanh(x - self.shift)

    def random_state(self, scale=1.0):
        X, potential = scale * self.rng.normal(size=(2, len(self.D)))
        return self.plus.T @ X / 2, self.minus.T @ potential

    def step(self, Z, beta, w):
        """X', Z' and beta': equations (10) to (12) of the paper, solved by bisection."""
        right = self.rho * self.plus @ Z - self.minus @ beta - np.sqrt(2) * self.D * w
        reach = (np.abs(right) + self.high) / self.low
        lower, upper = -reach, reach
        for _ in range(200):
            middle = (lower + upper) / 2
            above = self.slope(middle) + 2 * self.rho * self.D * middle > right
            lower, upper = np.where(above, lower, middle), np.where(above, middle, upper)
        X = (lower + upper) / 2
        return X, self.plus.T @ X / 2, beta + self.rho / 2 * self.minus.T @ X

    def length(self, Z, beta):
        """|U|_G."""
        return np.sqrt(self.rho * Z @ Z + beta @ beta / self.rho)

    def optimum(self):
        """Z* and beta*, from the minimum of the sum."""
        total = scipy.optimize.brentq(lambda x: self.slope(x).sum(), -50, 50, xtol=1e-14)
        x = np.full(len(self.D), total)
        return self.plus.T @ x / 2, -np.linalg.pinv(self.minus) @ self.slope(x)


@graphs
@rhos
def test_coupled_runs_contract_at_every_rho(network, rho):
    system, rate = (
        System(network, rho, 0.5, 4.0, 1),
        contraction_rate(numbers_of(network, 0.5, 4.0), rho),
    )
    for scale in (0.1, 1.0, 10.0):
        (Z, beta), (other_Z, other_beta) = system.random_state(scale), system.random_state(scale)
        for _ in range(8):
            w = system.rng.normal(size=network.size)
            before = system.length(Z - other_Z, beta - other_beta)
            _, Z, beta = system.step(Z, beta, w)
            _, other_Z, other_beta = system.step(other_Z, other_beta, w)
            assert system.length(Z - other_Z, beta - other_beta) <= rate * before


@graphs
@rhos
def test_one_round_of_noise_moves_the_state_by_at_most_its_norm(network, rho):
    system = System(network, rho, 0.5, 4.0, 2)
    for scale in (0.1, 1.0, 10.0):
        state, w = system.random_state(scale), scale * system.rng.normal(size=network.size)
        _, quiet_Z, quiet_beta = system.step(*state, 0 * w)
        _, Z, beta = system.step(*state, w)
        kick = np.linalg.norm(system.D * w) / (2 * np.sqrt(system.low))
        assert system.length(Z - quiet_Z, beta - quiet_beta) <= kick


@graphs
@rhos
@pytest.mark.parametrize("high", [0.2, 6.0])
def test_spectral_radius_is_below_the_guaranteed_rate(network, rho, high):
    problem = random_problem(network.size, low=0.2, high=high)
    numbers = Conditioning.of(problem, network)
    radius = law(problem, network, CADMM(rho=rho)).recursion(1).spectral_radius()
    assert radius < contraction_rate(numbers, rho) < 1
    assert numbers.largest_condition() == 0, "the theorem excludes these problems at every rho"


# The constant c that lost a factor 1 / rho


def both_sides(system, rho, c_factor, numbers, state, w):
    """The lower bound of step 2 of the proof: (left, right) of the inequality left >= right."""
    delta, s = numbers.delta(numbers.best_kappa(rho), rho), numbers.minus_min**2
    optimum_Z, optimum_beta = system.optimum()
    X, Z, beta = system.step(*state, w)
    t = np.linalg.norm(system.D * w)
    at_optimum = system.plus @ optimum_Z / (2 * system.D)
    left = system.length(Z - state[0], beta - state[1]) ** 2
    left += system.low * np.sum((X - at_optimum) ** 2)
    cross = np.linalg.norm(system.minus @ (beta - optimum_beta)) * t
    right = delta * system.length(Z - optimum_Z, beta - optimum_beta) ** 2
    right += -2 * np.sqrt(2) * delta * c_factor / s * cross + 2 * delta / (rho * s) * t**2
    return left, right


@graphs
def test_the_proof_needs_the_corrected_c(network):
    rho = 0.5
    system, numbers = System(network, rho, 0.5, 4.0, 3), numbers_of(network, 0.5, 4.0)
    slowest = np.linalg.eigh(network.laplacian)[1][:, 1]
    w = slowest / system.D
    Z, beta = system.optimum()
    state = Z, beta - np.sqrt(2) * np.linalg.pinv(system.minus) @ slowest
    left, right = both_sides(system, rho, 1.0, numbers, state, w)
    assert right > left + 0.01, "the display as printed is false here"
    left, right = both_sides(system, rho, 1 / rho, numbers, state, w)
    assert right == pytest.approx(left, abs=1e-9), "and sharp when corrected"


@graphs
@rhos
def test_the_corrected_display_holds(network, rho):
    system, numbers = System(network, rho, 0.5, 4.0, 4), numbers_of(network, 0.5, 4.0)
    for scale in (0.1, 1.0, 10.0):
        state, w = system.random_state(scale), system.rng.normal(size=network.size)
        left, right = both_sides(system, rho, 1 / rho, numbers, state, w)
        assert left >= right


@graphs
@rhos
def test_lemma_2_holds_pathwise_even_without_c(network, rho):
    system, numbers = System(network, rho, 0.5, 4.0, 5), numbers_of(network, 0.5, 4.0)
    a, b, _, _, e = coefficients(numbers, rho)
    m, q = system.low, 1 / (np.sqrt(2) * system.low) + np.sqrt(2)
    Z_star, beta_star = system.optimum()
    for scale in (0.1, 1.0, 10.0, 100.0):
        (Z, beta), w = system.random_state(scale), system.rng.normal(size=network.size)
        u, t = system.length(Z - Z_star, beta - beta_star), np.linalg.norm(system.D * w)
        _, Z, beta = system.step(Z, beta, w)
        r = np.sqrt(2) * b * q / m + b * q**2 + b / (2 * m**2) - e
        bound = a * u**2 + 2 * b * q / np.sqrt(m) * t * u + r * t**2
        assert system.length(Z - Z_star, beta - beta_star) ** 2 <= bound
        improved = contraction_rate(numbers, rho) * u + t / (2 * np.sqrt(m))
        assert system.length(Z - Z_star, beta - beta_star) <= improved <= np.sqrt(bound)


def test_c_differs_by_rho_alone():
    numbers = numbers_of(Network.ring(5), 2.0, 3.0)
    right, printed = coefficients(numbers, 0.25), coefficients(numbers, 0.25, corrected=False)
    assert right.c == pytest.approx(4 * printed.c)
    assert right._replace(c=0) == printed._replace(c=0)


def test_coefficients_by_the_eigenvalues_of_the_laplacian():
    network, rho, m = Network.star(6), 0.3, 0.8
    numbers = numbers_of(network, m, 3.0)
    a, b, c, d, e = coefficients(numbers, rho, kappa=2.0)
    delta, eigenvalues = numbers.delta(2.0, rho), network.laplacian_spectrum()
    assert (a, b) == pytest.approx(((1 + 0.5 / m) / (1 + delta), 0.5 / (1 + delta)))
    assert d == pytest.approx(rho * eigenvalues[-1])
    assert e == pytest.approx(delta / ((1 + delta) * rho * eigenvalues[1]))
    assert c == pytest.approx(np.sqrt(2) * e)


def test_kappa_must_exceed_one():
    with pytest.raises(ValueError, match="`kappa` must be above 1"):
        coefficients(numbers_of(Network.ring(5), 2.0, 3.0), 1.0, kappa=1.0)


# The terms of the bound


def test_noise_norm_is_a_chi_mean_on_regular_graphs():
    mean, square = noise_norm(Network.complete(4), dim=3)
    chi = np.sqrt(2) * np.exp(gammaln(6.5) - gammaln(6))
    assert mean == pytest.approx(3 * chi, rel=1e-12)
    assert square == 9 * 12


def test_noise_norm_with_unequal_degrees():
    # Degrees 1, 2, 1 and two parameters: |Dw|^2 is Gamma(2, 2) + Exponential(8), whose transform
    # 1 / ((1 + 2t)^2 (1 + 8t)) splits into partial fractions.
    parts = (-4 / 9 * np.sqrt(2) * gamma(1.5), -1 / 3 * np.sqrt(2) * gamma(2.5))
    expected = sum(parts) + 16 / 9 * np.sqrt(8) * gamma(1.5)
    mean, square = noise_norm(Network.path(3), dim=2)
    assert mean == pytest.approx(expected, rel=1e-12)
    assert square == 12


def test_noise_terms_are_the_extremes_of_the_display_before_they_are_split():
    network, problem, rho = Network.star(4), random_problem(4), 0.7
    bound, numbers = wasserstein_bound(problem, network, rho), Conditioning.of(problem, network)
    (a, b, c, d, e), m = bound.coefficients, bound.strong_convexity
    q = np.sqrt(2) * (1 + 1 / (2 * m))

    def right_side(u):
        """The bound on |U' - U*|_G^2 for |U - U*|_G = u and |D w| = 1, square root not split."""
        near = np.sqrt(u**2 / m + 1 / (2 * m**2))
        dual = numbers.minus_max * np.sqrt(rho) * u + d * (near + 1 / (np.sqrt(2) * m))
        return a * u**2 + b * (2 * q * near + q**2 + 1 / (2 * m**2)) + c * dual - e

    mean, square = noise_norm(network, 2)
    assert bound.mean_r == pytest.approx(right_side(0.0) * square)
    assert bound.mean_y == pytest.approx((right_side(1e6) - a * 1e12) / 1e6 * mean, rel=1e-4)


@graphs
def test_initial_error_from_the_optimality_conditions(network):
    problem, rho = random_problem(network.size), 0.6
    plus, minus, *_ = (m.toarray() for m in graph_matrices(network, 2))
    X = np.tile(problem.exact_posterior()[0], network.size)
    H, b = problem.quadratic.hessian, problem.quadratic.linear
    gradient = np.einsum("nij,nj->ni", H, X.reshape(-1, 2)).ravel() - b.ravel()
    beta = -np.linalg.pinv(minus) @ gradient
    assert minus @ beta == pytest.approx(-gradient, abs=1e-9)
    primal = (np.sum(plus**2) + np.sum((plus.T @ X) ** 2)) / 4
    start = wasserstein_bound(problem, network, rho).start
    assert start**2 == pytest.approx(rho * primal + beta @ beta / rho, rel=1e-10)


def test_constant_terms_are_distances_of_gaussians():
    network, problem = Network.star(4), random_problem(4)
    m = Conditioning.of(problem, network).strong_convexity
    mean, covariance = problem.exact_posterior()
    spread = np.kron(np.diag(network.degrees**2 / (2 * m**2)), np.eye(2))
    mode, copies = np.tile(mean, 4), np.kron(np.eye(4), covariance)
    bound = wasserstein_bound(problem, network, 1.0)
    assert bound.target_term == pytest.approx(gaussian_w2(mode, spread, mode, copies), rel=1e-9)
    assert bound.noise_term == pytest.approx(np.sqrt(np.trace(spread)), rel=1e-12)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize(
    ("network", "low", "high"), [(Network.ring(5), 2.0, 2.4), (Network.complete(5), 20.0, 24.0)]
)
def test_the_bound_is_true_and_vacuous(network, low, high, corrected):
    problem = spread_problem(low, high, 5)
    rho = Conditioning.of(problem, network).optimum()[1]
    bound = wasserstein_bound(problem, network, rho, corrected=corrected)
    truth = np.array([each.product for each in true_distances(problem, network, rho, 40)])
    lemma, theorem = bound.lemma(40), bound.theorem(40)
    assert bound.coefficients.a < 1
    assert np.all(truth <= lemma)
    assert np.all(lemma <= theorem * (1 + 1e-12))
    assert np.all(np.diff(theorem) < 0)
    covariance = problem.exact_posterior()[1]
    mode_alone = np.sqrt(5 * np.trace(covariance))
    assert bound.noise_term > mode_alone, "one constant alone exceeds knowing the mode only"
    assert bound.limit() > 50 * mode_alone > 50 * truth[-1]


def test_the_lemma_holds_where_the_theorem_does_not():
    network, problem = Network.path(4), random_problem(4)
    bound = wasserstein_bound(problem, network, 0.5)
    truth = [each.product for each in true_distances(problem, network, 0.5, 20)]
    assert bound.coefficients.a > 1
    assert np.all(np.isinf(bound.theorem(3)))
    assert np.isinf(bound.lemma(10_000)[-1])
    assert np.all(bound.lemma(20) >= truth)


def test_perfect_agreement_is_far_from_independent_copies():
    problem = spread_problem(2.0, 2.0, 5)
    mean, covariance = problem.exact_posterior()
    agreed = Moments(np.tile(mean, (5, 1)), np.kron(np.ones((5, 5)), covariance))
    product, worst, average = Distances.of(agreed, problem)
    assert worst == pytest.approx(0, abs=1e-7)
    assert average == pytest.approx(0, abs=1e-7)
    assert product**2 == pytest.approx(2 * (5 - np.sqrt(5)) * np.trace(covariance))


def test_distances_approach_those_of_the_stationary_law():
    network, problem = Network.ring(5), random_problem(5)
    *_, last = true_distances(problem, network, 2.0, 200)
    limit = Distances.of(paper_law(problem, network, 2.0).stationary(), problem)
    assert last == pytest.approx(limit, rel=1e-6)


# Closed forms on regular graphs


REGULAR = {
    "ring": Network.ring(6),
    "complete": Network.complete(5),
    "cube": Network(nx.convert_node_labels_to_integers(nx.hypercube_graph(3))),
}


@pytest.mark.parametrize("network", REGULAR.values(), ids=REGULAR.keys())
@rhos
@pytest.mark.parametrize("noise", ["paper", "private"])
def test_regular_closed_forms_match_the_exact_law(network, rho, noise):
    m, size, n = 1.3, network.size, network.degrees[0]
    problem = spread_problem(m, m, size)
    exact = law(problem, network, DADMMS(rho=rho, noise=noise, output="iterate"))
    variances = regular_variances(network, m, rho, 2 * n**2 if noise == "paper" else 4 * rho * n)
    moments = exact.stationary()
    assert np.diag(moments.covariance) == pytest.approx(np.full(size, variances.mean()), rel=1e-8)
    assert moments.average()[1][0, 0] == pytest.approx(variances[0] / size, rel=1e-8)
    assert np.sort(np.linalg.eigvalsh(moments.covariance)) == pytest.approx(np.sort(variances))
    slowest = regular_multipliers(network, m, rho).max()
    assert slowest == pytest.approx(exact.recursion(1).spectral_radius(), rel=1e-6)


def test_variance_ratios_of_the_average():
    network, m, rho = Network.ring(5), 1.0, 5.0
    of = {v: regular_variances(network, m, rho, v)[0] * m for v in (8.0, 40.0, 41.0)}
    assert of[8.0] == pytest.approx(0.1951220, abs=1e-7)
    assert of[40.0] == pytest.approx(1 / (1 + m / (8 * rho)))
    assert of[41.0] == pytest.approx(1.0, rel=1e-14)


def test_closed_forms_refuse_irregular_graphs():
    with pytest.raises(ValueError, match=r"regular, but its degrees are \[1, 3\]"):
        regular_variances(Network.star(4), 1.0, 1.0, 1.0)


# Problems that are not quadratic, and the report


def logistic_problem(size):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(20 * size, 2))
    y = rng.uniform(size=20 * size) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))
    return models.logistic_regression(
        X, y.astype(float), np.repeat(np.arange(size), 20), intercept=False
    )


@pytest.mark.slow
def test_quadratic_model_has_the_local_curvatures_and_the_mode():
    problem = logistic_problem(3)
    model = quadratic_model(problem)
    mode = model.exact_posterior()[0]
    assert model.quadratic.hessian == pytest.approx(np.asarray(problem.hessians(mode)))
    steps = 1e-4 * np.concatenate([np.eye(2), -np.eye(2)])
    around = [float(problem.potential(mode + step)) for step in steps]
    assert min(around) > float(problem.potential(mode))
    elsewhere = quadratic_model(problem, [0.0, 0.0])
    assert elsewhere.quadratic.hessian == pytest.approx(np.asarray(problem.hessians([0.0, 0.0])))
    assert quadratic_model(model) is model


def test_report_of_a_problem_that_the_theorem_excludes():
    network, problem = Network.ring(20), random_problem(20, low=2.0, high=5.0)
    report = convergence_report(problem, network, 5.0)
    values = {row.symbol: row.value for row in report.rows()}
    assert not report.local
    assert values["m_f delta"] == pytest.approx(report.numbers.strong_convexity * report.delta)
    assert values["m_f delta"] <= values["m_f delta_max"] < 0.5
    assert values["radius"] < values["(1+delta)^-1/2"] < 1
    assert "condition fails: it needs m_f delta > 1/2, here 0." in report.verdict()
    assert "at most" in report.verdict()
    assert f"rate {report.rate:.4g} per round or faster" in report.verdict()


def test_report_of_a_problem_that_the_theorem_covers():
    problem = spread_problem(20.0, 24.0, 5)
    report = convergence_report(problem, Network.complete(5), 6.0)
    assert report.bound == wasserstein_bound(problem, Network.complete(5), 6.0)
    assert "condition holds" in report.verdict()
    assert "it holds at rho = 6.29" in (
        convergence_report(problem, Network.complete(5), 6000.0).verdict()
    )


def test_report_prints_every_row_and_says_where_it_is_local():
    report = convergence_report(logistic_problem(4), Network.star(4), 1.0, corrected=False)
    text = io.StringIO()
    print_report(report, Console(file=text, width=120))
    assert report.local
    assert "near that point only" in " ".join(text.getvalue().split())
    assert "c as printed" in text.getvalue()
    for row in report.rows():
        assert row.name in text.getvalue()
        assert row.meaning in text.getvalue()


def test_large_problems_are_reported_without_exact_laws():
    report = convergence_report(random_problem(5), Network.ring(5), 1.0, largest=9)
    assert report.spectral_radius is None
    assert report.stationary is None
    assert [row.value for row in report.rows()].count(None) == 4
    assert "posterior" not in report.verdict()


def test_what_the_theory_is_not_about():
    with pytest.warns(DisconnectedNetworkWarning):
        alone = Network.no_edges(3)
    with pytest.raises(ValueError, match="no edges"):
        Conditioning.of(random_problem(3), alone)
    flat = models.gaussian(np.array([[[0.0]], [[1.0]]]))
    with pytest.raises(ValueError, match="strongly convex, but the smallest curvature is 0"):
        convergence_report(flat, Network.path(2), 1.0)
    with pytest.raises(ValueError, match="`rho` must be positive"):
        convergence_report(random_problem(3), Network.path(3), -1.0)
    with pytest.raises(ValueError, match="not quadratic"):
        Conditioning.of(logistic_problem(3), Network.path(3))

"""Proximal maps, and minima with penalties, against SciPy and optimality conditions."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import starlings as st
from starlings.problem.penalties import PENALTIES, check_fits
from starlings.problem.supports import SUPPORTS
from starlings.solvers.objective import tolerance
from starlings.solvers.proximal import proximal_point
from tests.problems import logistic_rows, unequal_linear_problem
from tests.quick import quick_cases

DIM, GROUPS = 4, (0, 1, 1, 0)
CENTRE = (0.1, -0.2, 0.0, 0.3)
EXAMPLES = {
    "lasso": st.Lasso((0.5, 0.0, 2.0, 1.0)),
    "group-lasso": st.GroupLasso((1.0, 0.4), GROUPS),
    "ridge": st.Ridge(0.7),
    "box": st.Box((-0.5, 0.0, -np.inf, 0.2), 0.4),
    "ball": st.Ball(0.7, CENTRE),
    "simplex": st.Simplex(1.5),
}
STEP = 0.6


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def parts(x):
    """Positive and negative parts, in which absolute values are linear."""
    return x[:DIM] - x[DIM:], x[:DIM] + x[DIM:]


def minimised(name, smooth, start):
    """The minimum of smooth + g by SciPy: variables and constraints in which both are smooth."""
    how = {"method": "SLSQP", "options": {"ftol": 1e-15, "maxiter": 2000}}
    if name == "lasso":
        strength = np.array([0.5, 0.0, 2.0, 1.0])
        doubled = np.concatenate([np.maximum(start, 0), np.maximum(-start, 0)])

        def value(u):
            x, size = parts(u)
            return smooth(x) + strength @ size

        found = scipy.optimize.minimize(value, doubled, bounds=[(0, None)] * 2 * DIM, **how)
        return parts(found.x)[0]
    if name == "group-lasso":  # lengths t_G as variables, with |x_G| <= t_G
        masks = np.array([np.equal(GROUPS, g) for g in (0, 1)])
        how["constraints"] = {"type": "ineq", "fun": lambda u: u[DIM:] ** 2 - masks @ u[:DIM] ** 2}
        how["bounds"] = [(None, None)] * DIM + [(0, None)] * 2
        lengthened = np.append(start, [5.0, 5.0])

        def value_and_lengths(u):
            return smooth(u[:DIM]) + u[DIM:] @ [1.0, 0.4]

        return scipy.optimize.minimize(value_and_lengths, lengthened, **how).x[:DIM]
    limits = {
        "ridge": {},
        "box": {"bounds": list(zip([-0.5, 0.0, -np.inf, 0.2], [0.4] * DIM, strict=True))},
        "ball": {
            "constraints": {"type": "ineq", "fun": lambda x: 0.49 - np.sum((x - CENTRE) ** 2)}
        },
        "simplex": {
            "bounds": [(0, None)] * DIM,
            "constraints": {"type": "eq", "fun": lambda x: x.sum() - 1.5},
        },
    }[name]
    own = (lambda x: 0.35 * x @ x) if name == "ridge" else (lambda x: 0.0)
    return scipy.optimize.minimize(lambda x: smooth(x) + own(x), start, **limits, **how).x


def test_every_kind_has_an_example():
    assert {name: type(penalty) for name, penalty in EXAMPLES.items()} == PENALTIES | SUPPORTS


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_proximal_map_is_the_minimum_that_scipy_finds(name):
    penalty = EXAMPLES[name]
    for x in np.random.default_rng(3).normal(size=(5, DIM)) * 1.5:
        wanted = minimised(
            name, lambda z, x=x: np.sum((z - x) ** 2) / (2 * STEP), np.full(DIM, 0.3)
        )
        found = np.asarray(penalty.prox(jnp.asarray(x), STEP))
        np.testing.assert_allclose(found, wanted, atol=2e-5)
        part = penalty.part(0.5).prox(jnp.asarray(x), 2 * STEP)
        np.testing.assert_allclose(part, found, rtol=1e-13)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_gradient_of_an_envelope_is_what_the_map_removes(name):
    """By the definition of the envelope, g(p) + |x - p|^2 / 2s at p = prox(x), and differences."""
    penalty, rng = EXAMPLES[name], np.random.default_rng(4)

    @jax.jit
    def envelope(x):
        nearest = penalty.prox(x, STEP)
        return penalty.value(nearest) + jnp.sum((x - nearest) ** 2) / (2 * STEP)

    for x in rng.normal(size=(5, DIM)) * 1.5:
        slope = scipy.optimize.approx_fprime(x, lambda z: float(envelope(jnp.asarray(z))), 1e-7)
        found = penalty.removed(jnp.asarray(x), STEP) / STEP
        np.testing.assert_allclose(found, slope, atol=1e-5)


def test_a_support_is_zero_inside_and_on_its_edge_and_infinite_outside():
    for name in SUPPORTS:
        support = EXAMPLES[name]
        for x in np.random.default_rng(5).normal(size=(20, DIM)) * 2:
            edge = support.project(jnp.asarray(x))
            assert support.value(edge) == 0
            assert np.isinf(support.value(edge + 1e-6 * (x - edge) / np.linalg.norm(x - edge)))


def solve(problem, penalty, index, curvature, linear):
    agent = jax.tree.map(lambda a: a[index], problem.agents())
    start = jnp.full(problem.dim, 0.3)
    found = jax.jit(proximal_point)(agent, curvature, jnp.asarray(linear), start, penalty=penalty)
    slope = agent.gradient(found.point) + curvature * found.point - jnp.asarray(linear)
    return found, slope


QUADRATIC, CURVED = "quadratic", "logistic"


@pytest.mark.parametrize("kind", quick_cases([QUADRATIC, CURVED], [QUADRATIC]))
@pytest.mark.parametrize("name", quick_cases(EXAMPLES, ["group-lasso"]))
def test_a_proximal_step_with_a_penalty_is_a_fixed_point(kind, name):
    """z is the minimum of phi + g if and only if z = prox_g(z - grad phi(z))."""
    if kind == QUADRATIC:
        quadratic = unequal_linear_problem().quadratic
        extended = np.stack(
            [np.pad(H, (0, 1)) + np.diag([0, 0, 0, 0.5]) for H in quadratic.hessian]
        )
        problem = st.models.gaussian(extended, np.pad(quadratic.linear, ((0, 0), (0, 1))))
    else:
        problem = st.models.logistic_regression(*logistic_rows())  # four parameters
    for index in range(problem.num_agents):
        for curvature in (0.05, 3.0):
            linear = np.array([1.0, -5.0, 2.0, 0.5])
            found, slope = solve(problem, EXAMPLES[name], index, curvature, linear)
            fixed = EXAMPLES[name].prox(found.point - slope, 1.0)
            np.testing.assert_allclose(fixed, found.point, atol=1e-9)
            assert found.residual <= tolerance(np.float64)


def test_a_step_in_one_dimension_is_a_closed_form_and_zeros_are_exact():
    problem = st.models.gaussian([[[2.0]]], [[0.3]])
    found, _ = solve(problem, st.Lasso(1.0), 0, 1.0, [0.5])
    assert found.point[0] == 0.0
    assert found.iterations == 2  # the solution, and that it is one
    found, _ = solve(problem, st.Lasso(0.1), 0, 1.0, [0.5])
    assert found.point[0] == pytest.approx(0.7 / 3, rel=1e-15)


def test_a_step_without_a_minimum_has_an_infinite_residual():
    found, _ = solve(st.models.gaussian([[[-2.0]]]), st.Lasso(0.1), 0, 1.0, [0.5])
    assert np.isinf(found.residual)


REFUSED = {
    "negative": (lambda: st.Lasso(-1.0), "`strength` must not be negative, got -1.0"),
    "text": (lambda: st.Lasso("much"), "`strength` must be a number or a list of numbers"),
    "gap": (lambda: st.GroupLasso(1.0, (0, 2)), "from 0 on and without gaps"),
    "fraction": (lambda: st.GroupLasso(1.0, (0.0, 1.0)), "`groups` must be a list"),
    "precision": (lambda: st.Ridge(0.0), "`precision` must be positive"),
}


@pytest.mark.parametrize(("make", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_penalty_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda g: st.DADMMS(1.0, penalty=g),
        lambda g: st.CADMM(1.0, g),
        lambda g: st.SPLA(1.0, 4, penalty=g),
        lambda g: st.PULA(1.0, g),
        lambda g: st.PMALA(1.0, g),
        lambda g: st.MYULA(1.0, g, 1.0),
        lambda g: st.DEPSGLD(1.0, g, 1.0),
    ],
)
def test_samplers_refuse_what_does_not_fit(make):
    with pytest.raises(TypeError, match="`penalty` must be a penalty such as"):
        make(0.5)
    sampler = make(st.Lasso((1.0, 2.0)))
    problem, one = unequal_linear_problem().pooled(), st.Network.path(1)
    with pytest.raises(ValueError, match="`penalty` does not fit a model of 3 parameters"):
        sampler.check(problem, one)
    moved = problem.affine(np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="a function of the model's own coordinates"):
        make(st.Lasso(1.0)).check(moved, one)


def test_groups_for_another_number_of_parameters_are_refused():
    with pytest.raises(ValueError, match="`groups` is for 4 coordinates, and x has 3"):
        check_fits(EXAMPLES["group-lasso"], unequal_linear_problem(), "P-ULA")


def test_results_say_which_penalty_it_was():
    problem, network = st.models.gaussian(np.ones((3, 2, 2)) + np.eye(2)), st.Network.path(3)
    sampler = st.DADMMS(2.0, penalty=st.Lasso((0.0, 1.0)))
    result = st.sample(problem, network, sampler, draws=1, chains=1, burn_in=0, check=False)
    settings = json.loads(result.attrs["sampler_settings"])
    assert settings["penalty"] == {"kind": "lasso", "strength": [0.0, 1.0]}

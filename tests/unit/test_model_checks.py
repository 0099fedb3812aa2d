"""A model that cannot work is refused when its problem is built, with what to do."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st

SHARDS = {"a": {"y": [1.0, 2.0]}, "b": {"y": [3.0]}}


def normal(p, row):
    return -0.5 * (row["y"] - p["m"]) ** 2


def prior(p):
    return -0.5 * p["m"] ** 2


LIKELIHOODS = {
    "a Python if": (lambda p, row: -1.0 if row["y"] > p["m"] else 1.0, r"`jnp.where\(condition, a"),
    "a function of NumPy": (lambda p, row: -np.exp(p["m"]) * row["y"], "functions of `jax.numpy`"),
    "a function of math": (lambda p, row: -math.exp(p["m"]) * row["y"], "cannot be compiled"),
    "a column that is not there": (
        lambda p, row: -row["yy"] * p["m"],
        r"asks for 'yy', but the columns of the rows are \['y'\] and the parameters are \['m'\]. "
        "Did you mean 'y'",
    ),
    "several numbers": (lambda p, row: -p["m"] * jnp.ones(3), r"one number .* got shape \(3,\)"),
    "nothing": (lambda p, row: None, "must return one number for a row, got None"),
    "one argument": (lambda p: 0.0, "`log_likelihood` fails with TypeError: .* 2 were given"),
    "shapes that do not fit": (
        lambda p, row: jnp.ones(3) @ jnp.ones(2),
        "`log_likelihood` fails with TypeError: dot_general",
    ),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_likelihood_that_cannot_work_is_refused_when_built(name):
    log_likelihood, text = LIKELIHOODS[name]
    with pytest.raises(ValueError, match=text):
        st.Problem(log_likelihood, prior, {"m": ()}, SHARDS)


PRIORS = {
    "several numbers": (lambda p: -(p["m"] ** 2) * jnp.ones(2), "`log_prior` must return one"),
    "another name": (lambda p: -(p["mu"] ** 2), r"asks for 'mu', but the parameters are \['m'\]"),
    "a Python if": (lambda p: 0.0 if p["m"] > 0 else -1.0, "`log_prior` cannot be compiled"),
}


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_that_cannot_work_is_refused_when_built(name):
    log_prior, text = PRIORS[name]
    with pytest.raises(ValueError, match=text):
        st.Problem(normal, log_prior, {"m": ()}, SHARDS)


@pytest.mark.parametrize("name", ["chain", "draw", "agent", "a/b", "x_dim_0", "", 3])
def test_names_that_no_file_can_keep_are_refused(name):
    with pytest.raises((ValueError, TypeError), match=r"of a parameter must|no parameter can"):
        st.Problem(lambda p, row: 0.0, lambda p: 0.0, {"x": (2,), name: ()}, SHARDS)


def test_one_value_for_all_rows_is_refused():
    shards = {site: {**rows, "sd": 2.0} for site, rows in SHARDS.items()}
    with pytest.raises(ValueError, match=r"'sd' of site 'a' is one value.*functools.partial"):
        st.Problem(normal, prior, {"m": ()}, shards)


@pytest.mark.slow
def test_derived_values_are_kept_with_the_draws(tmp_path):
    problem = st.Problem(
        normal,
        prior,
        {"m": ()},
        SHARDS,
        derived=lambda p: {"powers": jnp.stack([p["m"], p["m"] ** 2])},
    )
    result = st.sample(problem, st.Network.path(2), draws=20, check=False)
    assert problem.num_saved_values == 3
    m, powers = result.posterior["m"].values, result.posterior["powers"].values
    np.testing.assert_array_equal(powers, np.stack([m, m**2], axis=-1))
    again = st.load(result.save(tmp_path / "draws.nc"))
    np.testing.assert_array_equal(again.posterior["powers"].values, powers)
    assert set(again.check(reference={"m": np.linspace(0, 3, 50)}).table.index) == {
        "m",
        "powers[0]",
        "powers[1]",
    }
    for derived, text in (
        (lambda p: {"n": p["n"]}, "`derived` asks for 'n'"),
        (lambda p: {"draw": p["m"]}, "no parameter can be called 'draw'"),
        (lambda p: p["m"] ** 2, "`derived` must return a mapping of names to values"),
    ):
        with pytest.raises(ValueError, match=text):
            st.Problem(normal, prior, {"m": ()}, SHARDS, derived=derived)


def test_no_law_of_an_unknown_sampler():
    with pytest.raises(ValueError, match="no exact law is known for Metropolis; there is one for"):
        st.theory.law(
            st.models.gaussian(np.ones((3, 1, 1))), st.Network.ring(3), st.Metropolis(0.1, 1)
        )

"""Random effects of sites: their prior, their potentials, and their names in results."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import starlings as st
from starlings.models.priors import Prior
from starlings.models.random_effects import RandomEffects, default_sd_priors
from tests.local.problems import sites_rows

LABELS = ("Intercept", "age", "dose")


def effects(q=2, **settings):
    return RandomEffects(LABELS[:q], default_sd_priors(np.arange(q)), **settings)


def row(p, row):
    eta = row["x"] @ p["beta"] + row["offset"]
    return row["y"] * eta - jnp.logaddexp(0.0, eta)


def prior(p):
    return -0.5 * jnp.sum(p["beta"] ** 2)


def problem(**settings):
    rows = {s: {**c, "r": c["x"]} for s, c in sites_rows((12, 15, 20), logistic=True).items()}
    return effects(**settings).problem(row, prior, {"beta": (2,)}, rows)


@pytest.mark.quick(1)
@pytest.mark.parametrize("concentration", [2.5, 1.0])
def test_correlations_have_the_density_of_lewandowski_kurowicka_and_joe(concentration):
    """det(R)^(eta - 1) in the entries of R, by the Jacobian of the partial correlations."""
    found, below = effects(3, concentration=concentration), np.tril_indices(3, -1)

    def entries(c):
        root = found.root({"partial_site": c})
        return (root @ root.T)[below]

    with jax.enable_x64(True):
        constants = []
        for c in np.random.default_rng(0).uniform(-0.9, 0.9, size=(4, 3)):
            p = {"partial_site": jnp.asarray(c), "sd_site": jnp.ones(3)}
            correlations = np.eye(3)
            correlations[below] = correlations.T[below] = entries(p["partial_site"])
            jacobian = np.linalg.slogdet(jax.jacobian(entries)(p["partial_site"]))[1]
            in_entries = float(found.log_prior(p)) - jacobian
            constants.append(in_entries - (concentration - 1) * np.linalg.slogdet(correlations)[1])
            assert np.linalg.eigvalsh(correlations).min() > 0
    np.testing.assert_allclose(constants, constants[0], atol=1e-10)


@pytest.mark.quick(1)
@pytest.mark.parametrize("is_correlated", [True, False])
def test_potentials_are_those_of_the_equations(is_correlated):
    """At one point: the rows of each site with its effects, and all priors, typed in."""
    found = problem(is_correlated=is_correlated)
    beta, log_sd, t, z = [0.3, -0.5], [0.2, -1.0], 0.4, np.array([1.2, -0.7])
    rho = np.tanh(t) if is_correlated else 0.0
    sd = np.exp(log_sd)
    u = sd * [z[0], rho * z[0] + np.sqrt(1 - rho**2) * z[1]]
    point = np.concatenate([beta, log_sd, [t] if is_correlated else [], z])
    shared = stats.halfnorm.logpdf(sd, scale=[2.5, 2.5]).sum() + np.sum(log_sd)
    shared -= 0.5 * np.sum(np.square(beta))
    if is_correlated:
        shared += np.log(0.5) + np.log(1 - rho**2)  # uniform, and the determinant of tanh
    for rows, value in zip(found.shards.values(), found.potentials(point), strict=True):
        eta = rows["x"] @ (beta + u)
        likelihood = np.sum(rows["y"] * eta - np.logaddexp(0, eta))
        expected = -likelihood - stats.norm.logpdf(z).sum() - shared / 3
        assert value == pytest.approx(expected, rel=1e-12)
    saved = found.saved_values(point)
    np.testing.assert_allclose(saved["site_effect"], u, rtol=1e-12)
    assert "site_effect" in found.local_names


@pytest.mark.quick(1)
def test_correlations_that_round_to_an_end_have_a_density_and_a_gradient():
    with jax.enable_x64(True):
        found = problem()
        for t in (30.0, -400.0):
            point = jnp.array([0.3, -0.5, 0.2, -1.0, t, 1.2, -0.7])
            assert np.isfinite(found.potentials(point)).all()
            gradient = jax.grad(found.log_prior)(point)
            assert np.isfinite(gradient).all()


@pytest.mark.slow
def test_a_summary_names_the_effects_of_every_site():
    result = st.sample(
        problem(), st.Network.path(3), method="hmc", draws=25, chains=64, check=False
    )
    index = list(result.summary().index)
    assert "site_effect[site 1, age]" in index
    assert "correlation_site[Intercept, age]" in index
    assert len(result.summary(parameters="site_effect")) == 6
    assert "sd_site[age]" in index
    table = result.check().table
    assert (table["rhat"] < 1.2).all()


def test_priors_must_fit_the_labels():
    with pytest.raises(ValueError, match="one prior for each"):
        RandomEffects(LABELS, (Prior.of("half_normal(1)"),))

"""Problems with local parameters: potentials, pooling, and what cannot be done with them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import starlings as st
from starlings.errors import LocalParametersError
from starlings.problem.hub import with_hub
from tests.local.problems import gaussian_problem, joint_posterior, logistic_problem, sites_rows


def test_the_potentials_sum_to_the_joint_density():
    """At any point, less what it is at another: by the rows of all sites together."""
    problem = logistic_problem()
    pooled, random = problem.pooled(), np.random.default_rng(0)
    assert (problem.dim, problem.num_shared, pooled.dim) == (6, 4, 4 + 2 * 6)
    for joint in random.normal(size=(3, pooled.dim)):
        own = joint[4:].reshape(6, 2)
        parts = [problem.potentials(np.append(joint[:4], own[i]))[i] for i in range(6)]
        assert pooled.potential(joint) == pytest.approx(sum(parts), rel=1e-12)


def test_a_quadratic_problem_is_pooled_to_its_closed_form():
    mean, covariance = gaussian_problem().pooled().exact_posterior()
    expected = joint_posterior()
    np.testing.assert_allclose(mean, expected[0], atol=1e-10)
    np.testing.assert_allclose(covariance, expected[1], atol=1e-10)


def test_saved_values_that_depend_on_local_parameters_are_local():
    problem = logistic_problem()
    assert set(problem.local_names) == {"u", "effect"}
    values = problem.pooled().saved_values(np.zeros(16))
    assert {name: v.shape for name, v in values.items()} == {
        "beta": (2,), "sd": (2,), "u": (6, 2), "effect": (6, 2), "odds": (),
    }  # fmt: skip


REFUSED = {
    "one shot": lambda p, n: st.sample(p, n, method="consensus"),
    "tuned": lambda p, n: st.sample(p, n, method="dadmms"),
    "a sampler": lambda p, n: st.sample(p, n, st.DULA(0.01, 0.1)),
    "tune": st.tune,
    "compare": st.compare,
    "a stand-in": lambda p, n: st.without(p, n, ["site 3"], "stand-in"),
    "a hub": lambda p, n: with_hub(p),
    "coordinates": lambda p, n: p.affine(np.zeros(4), np.ones(4)),
}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_what_needs_shared_parameters_is_refused_with_a_remedy(use):
    with pytest.raises(LocalParametersError, match=r"where parameters are local, as u .*hmc"):
        use(gaussian_problem(), st.Network.path(4))


def test_a_local_parameter_needs_a_prior_and_company():
    row, rows = lambda p, row: -(row["y"] ** 2), {"a": {"y": [1.0]}}
    own = {"u": st.Parameter((), local=True)}
    with pytest.raises(ValueError, match="`local_prior` must say"):
        st.Problem(row, lambda p: 0.0, {"b": (), **own}, rows)
    with pytest.raises(ValueError, match="all `parameters` are local"):
        st.Problem(row, lambda p: 0.0, own, rows, local_prior=lambda p: 0.0)
    with pytest.raises(ValueError, match="no parameter is local"):
        st.Problem(row, lambda p: 0.0, {"b": ()}, rows, local_prior=lambda p: 0.0)
    with pytest.raises(ValueError, match=r"`log_prior` asks for 'u', but the parameters are"):
        st.Problem(row, lambda p: p["u"], {"b": (), **own}, rows, local_prior=lambda p: p["u"])


def hierarchical(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand([2]))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    u = numpyro.sample("u", dist.Normal(0, sd).expand([2]))
    numpyro.sample("y", dist.Bernoulli(logits=x @ (beta + u)), obs=y)


def test_latent_sites_of_a_numpyro_model_can_be_local():
    """The potentials are those of the same model written by hand."""
    rows = sites_rows((3, 5), logistic=True)
    problem = st.Problem.from_numpyro(hierarchical, rows, local=["u"])
    assert (problem.num_shared, problem.num_local) == (3, 2)

    def row(p, row):
        eta = row["x"] @ (p["beta"] + p["u"])
        return row["y"] * eta - jnp.logaddexp(0.0, eta)

    def own_prior(p):
        return dist.Normal(0, p["sd"]).log_prob(p["u"]).sum()

    def prior(p):
        return dist.Normal(0, 2).log_prob(p["beta"]).sum() + dist.HalfNormal(1.0).log_prob(p["sd"])

    parameters = {"beta": (2,), "sd": st.Parameter((), "positive")}
    parameters["u"] = st.Parameter((2,), local=True)
    typed = st.Problem(row, prior, parameters, rows, local_prior=own_prior)
    z = np.array([0.3, -0.2, 0.4, 1.0, -0.5])
    np.testing.assert_allclose(problem.potentials(z), typed.potentials(z), rtol=1e-12)
    with pytest.raises(ValueError, match="the prior of a shared latent site depends on a local"):
        st.Problem.from_numpyro(hierarchical, rows, local=["sd"])
    with pytest.raises(ValueError, match=r"`local` names \['v'\]"):
        st.Problem.from_numpyro(hierarchical, rows, local=["v"])

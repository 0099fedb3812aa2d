"""The three questions, on draws whose faults are known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import starlings as st
from conftest import paper_problem
from starlings.diagnostics import check, compare


def normal_draws(shift=0.0, scale=1.0, chains=4, draws=1000, drift=0.0):
    """Two agents, a vector of two and a scalar; the second agent is moved and stretched."""
    random = np.random.default_rng(0)
    beta = random.normal(size=(chains, draws, 2, 2))
    sigma = random.normal(size=(chains, draws, 2))
    beta[:, :, 1] = shift + scale * beta[:, :, 1]
    beta += drift * np.arange(chains)[:, None, None, None]
    coordinates = {"agent": ["north", "south"], "beta_dim_0": ["age", "dose"]}
    dims = ["chain", "draw", "agent"]
    variables = {"beta": ([*dims, "beta_dim_0"], beta), "sigma": (dims, sigma)}
    return xr.Dataset(variables, coords=coordinates)


def exact_reference(count=20_000):
    random = np.random.default_rng(1)
    return {"beta": random.normal(size=(count, 2)), "sigma": random.normal(size=count)}


@pytest.mark.filterwarnings("ignore")
def test_good_draws_pass():
    answer = check(normal_draws(), 0.02, exact_reference())
    assert answer.ok
    assert "Nothing speaks against" in str(answer)
    assert list(answer.table.index) == ["beta[age]", "beta[dose]", "sigma"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("draws", "predicted", "reference", "text"),
    [
        (normal_draws(drift=0.5), None, None, "Not converged: R-hat of beta"),
        (normal_draws(draws=60), None, None, "Too short"),
        (normal_draws(shift=0.3), None, None, "The agents disagree"),
        (normal_draws(), 0.4, None, "0.40 sd are predicted"),
        (normal_draws(scale=1.4), None, exact_reference(), "Wrong law: beta"),
    ],
)
def test_each_fault_is_named(draws, predicted, reference, text):
    answer = check(draws, predicted, reference)
    assert not answer.ok
    assert any(text in problem for problem in answer.problems)


def test_comparison_with_a_known_gaussian():
    """N(0.5, 1.5^2) against N(0, 1): W2 is sqrt(0.5^2 + 0.5^2), and intervals are too wide."""
    table = compare(normal_draws(shift=0.5, scale=1.5, draws=5000), exact_reference(100_000))
    south = table[(table["agent"] == "south") & (table["parameter"] == "beta[age]")].iloc[0]
    # 20,000 draws: errors of about 1.5/sqrt(20,000) = 0.01
    assert south["mean_error"] == pytest.approx(0.5, abs=0.04)
    assert south["sd_ratio"] == pytest.approx(1.5, abs=0.04)
    assert south["w2"] == pytest.approx(np.sqrt(0.5), abs=0.04)
    assert south["coverage_90%"] > 0.96
    north = table[(table["agent"] == "north") & (table["parameter"] == "sigma")].iloc[0]
    assert north["w2"] < 0.04
    assert north["coverage_50%"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.filterwarnings("ignore")
def test_a_result_checks_itself_against_the_exact_posterior():
    problem = paper_problem(5)
    result = st.sample(problem, st.Network.ring(5), draws=1500, chains=4, thin=4)
    mean, covariance = problem.exact_posterior()
    exact = np.random.default_rng(2).multivariate_normal(mean, covariance, size=50_000)
    answer = result.check(reference={"beta": exact})
    assert answer.ok, str(answer)
    biased = st.sample(
        problem, st.Network.ring(5), st.DADMMS(rho=5.0, noise="paper"), draws=1500, thin=4
    )
    assert not biased.check(reference={"beta": exact}).ok


def test_references_must_fit():
    with pytest.raises(ValueError, match=r"no draws of \['sigma'\]"):
        compare(normal_draws(), {"beta": np.zeros((5, 2))})
    with pytest.raises(ValueError, match="3 entries a draw, not 2"):
        compare(normal_draws(), {"beta": np.zeros((5, 3)), "sigma": np.zeros(5)})

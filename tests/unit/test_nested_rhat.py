"""Nested R-hat: its value, what it says of many short chains, and its place in the verdict."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import starlings as st
from starlings.diagnostics.checking import quick_check
from starlings.diagnostics.nested_rhat import nested_rhat, stationary_nested_rhat
from starlings.diagnostics.statistics import convergence

AXES = {"chain_axis": 0, "draw_axis": 1}


def transcription(draws, labels):
    """Eqs. (1) to (5) of one entry, chain by chain."""
    names = sorted(set(labels))
    groups = [[list(x) for x, own in zip(draws, labels, strict=True) if own == k] for k in names]
    means = [[sum(x) / len(x) for x in group] for group in groups]
    whole = [sum(m) / len(m) for m in means]
    centre = sum(whole) / len(whole)
    B = sum((m - centre) ** 2 for m in whole) / (len(whole) - 1)
    W = 0.0
    for group, m, own in zip(groups, means, whole, strict=True):
        if len(m) > 1:
            W += sum((x - own) ** 2 for x in m) / (len(m) - 1) / len(groups)
        if len(group[0]) > 1:
            squares = [sum((v - a) ** 2 for v in x) for x, a in zip(group, m, strict=True)]
            W += sum(squares) / (len(group[0]) - 1) / len(m) / len(groups)
    return (1 + B / W) ** 0.5


def autoregressive(chains, draws, correlation, seed=0):
    """Stationary AR(1) chains of sd 1, with shape (chain, draw)."""
    random = np.random.default_rng(seed)
    x = np.empty((chains, draws))
    x[:, 0] = random.normal(size=chains)
    for t in range(1, draws):
        noise = np.sqrt(1 - correlation**2) * random.normal(size=chains)
        x[:, t] = correlation * x[:, t - 1] + noise
    return x


def result_of(values, superchains=None):
    """A result with the draws (chain, draw) of one parameter, alike at two agents."""
    both = np.repeat(values[:, :, None], 2, axis=2)
    group = xr.Dataset({"x": (["chain", "draw", "agent"], both)}, {"agent": ["north", "south"]})
    tree = xr.DataTree.from_dict({"posterior": group, "sample_stats": xr.Dataset()})
    result = st.Result(tree)
    if superchains is not None:
        result.set_attribute("superchains", superchains)
    return result


@pytest.mark.parametrize("shape", [(12, 1), (12, 2), (12, 7)])
@pytest.mark.parametrize("superchains", [2, 4, 6])
def test_the_value_is_that_of_the_equations(shape, superchains):
    draws = np.random.default_rng(1).normal(size=(*shape, 3, 2))
    labels = np.random.default_rng(2).permutation(np.arange(12) % superchains) * 5 - 3
    found = nested_rhat(draws, labels)
    assert found.shape == (3, 2)
    for entry in np.ndindex(3, 2):
        exact = transcription(draws[(..., *entry)], labels.tolist())
        np.testing.assert_allclose(found[entry], exact, rtol=1e-12)


def test_one_chain_in_each_superchain_is_the_variance_of_means_over_that_within():
    draws = np.random.default_rng(3).normal(size=(5, 20))
    np.testing.assert_allclose(
        nested_rhat(draws, np.arange(5)), transcription(draws, range(5)), rtol=1e-12
    )


def test_arviz_has_the_same_value():
    from arviz_stats.base import array_stats

    if not hasattr(array_stats, "rhat_nested"):
        pytest.skip("this version of arviz-stats has no nested R-hat")
    draws, labels = np.random.default_rng(4).normal(size=(12, 9)), np.arange(12) % 3
    exact = array_stats.rhat_nested(draws, labels, method="identity", **AXES)
    np.testing.assert_allclose(nested_rhat(draws, labels), exact, rtol=1e-12)


def test_many_short_stationary_chains_have_converged_and_only_nested_rhat_says_so():
    """Chains of five draws with an autocorrelation time of 19 draws."""
    draws, labels = autoregressive(2048, 5, 0.9), np.arange(2048) % 16
    plain = convergence(draws[:, :, None, None]).rhat[0, 0]
    assert plain > 1.5
    assert nested_rhat(draws, labels) < 1.01


@pytest.mark.parametrize(("chains", "draws"), [(64, 1), (16, 4), (8, 50)])
def test_what_is_expected_in_stationarity(chains, draws):
    """Over many superchains, to four standard errors of a variance.

    B is 1 / (M n), and W is 1 for one draw a chain and else 1 + 1 / n.
    """
    count = 2000
    x = np.random.default_rng(5).normal(size=(count * chains, draws))
    found = nested_rhat(x, np.repeat(np.arange(count), chains)) ** 2 - 1
    expected = stationary_nested_rhat(chains, draws) ** 2 - 1
    assert expected == pytest.approx(1 / (chains * draws))
    within = 1 + 1 / draws if draws > 1 else 1.0
    assert found == pytest.approx(expected / within, rel=4 * np.sqrt(2 / count))


def test_superchains_that_remember_their_start_are_found():
    starts = np.repeat([-1.0, 0.0, 1.0, 2.0], 64)
    draws = starts[:, None] + 0.5 * np.random.default_rng(6).normal(size=(256, 3))
    labels = np.repeat(np.arange(4), 64)
    assert nested_rhat(draws, labels) > 2
    assert np.isnan(nested_rhat(np.ones((4, 2)), [0, 0, 1, 1]))


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([0, 0, 1], r"one whole number for each of 4 chains, got int64 of shape \(3,\)"),
        ([0.0, 0.0, 1.0, 1.0], "got float64"),
        ([0, 0, 0, 1], "{0: 3, 1: 1} chains by label"),
        ([7, 7, 7, 7], "at least two superchains"),
    ],
)
def test_wrong_labels_are_refused(labels, text):
    with pytest.raises(ValueError, match=text):
        nested_rhat(np.zeros((4, 2)), labels)


def test_draws_without_a_variance_are_refused():
    with pytest.raises(ValueError, match="start more chains at each point"):
        nested_rhat(np.zeros((4, 1)), [0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"must have shape \(chain, draw, ...\), got \(4,\)"):
        nested_rhat(np.zeros(4), [0, 0, 1, 1])


def test_the_verdict_uses_it_where_superchains_are_recorded():
    draws, labels = autoregressive(2048, 5, 0.9), (np.arange(2048) % 16).tolist()
    plain, nested = result_of(draws).check(), result_of(draws, labels).check()
    assert "Not converged: R-hat of x" in plain.problems[0]
    assert str(nested).startswith("converged: nested R-hat at most 1.00")
    assert not any("converged" in problem for problem in nested.problems)
    assert nested.table.loc["x", "rhat"] == nested_rhat(draws, labels)
    summary = result_of(draws, labels).summary()
    assert summary.loc["x", "rhat"] == nested_rhat(draws, labels)


@pytest.mark.parametrize("draws", [1, 3])
def test_short_chains_that_have_not_mixed_are_warned_of(draws):
    labels = np.repeat(np.arange(4), 64)
    values = labels[:, None] + np.random.default_rng(7).normal(size=(256, draws))
    result = result_of(values, labels.tolist())
    check = result.check()
    assert "Not converged: nested R-hat of x at agent north" in check.problems[0]
    assert "an unknown number of effective draws" in str(check)
    quick = quick_check(result.posterior, result.attrs)
    assert "nested R-hat" in quick.problems[0]
    alone = result_of(autoregressive(1, 400, 0.0), [0])
    assert quick_check(alone.posterior, alone.attrs).rhat_name == "R-hat"

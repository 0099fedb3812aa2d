"""The law of shared candidates: its density, its draws, and the fit to weighted points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from starlings.methods import proposal as module
from starlings.methods.proposal import FEWEST_FITTED, REFITTED_HEAVY_SHARE, Proposal

HEAVY_VARIANCE = 7 / 5
"""Variance of every entry of a multivariate t with 7 degrees of freedom."""
SHAPES = [(1, False), (1, True), (2, False), (2, True), (200, False), (200, True)]
"""Numbers of parameters, and whether the scale is a diagonal matrix."""


HEAVY = 0.8
"""Heavy share of the proposals here, larger than in runs, so that tests see the heavy part."""


def proposal_of(dim: int, is_diagonal: bool) -> Proposal:
    """A proposal that is neither centred nor round."""
    random = np.random.default_rng(dim)
    sizes = np.exp(random.normal(size=dim))
    lower = np.tril(random.normal(size=(dim, dim)), -1) / np.sqrt(dim)
    scale = sizes if is_diagonal else np.diag(sizes) @ (np.eye(dim) + lower)
    return Proposal(random.normal(size=dim), scale, HEAVY)


def covariance_of(proposal: Proposal) -> np.ndarray:
    """R R'."""
    scale = np.diag(proposal.scale) if proposal.scale.ndim == 1 else proposal.scale
    return scale @ scale.T


def unscaled(proposal: Proposal, points: np.ndarray) -> np.ndarray:
    """R^-1 (z - m) for points z (point, dim)."""
    scale = np.diag(proposal.scale) if proposal.scale.ndim == 1 else proposal.scale
    return np.linalg.solve(scale, (points - proposal.centre).T).T


@pytest.mark.parametrize("heavy_share", [0.2, 0.5])
def test_the_density_integrates_to_one(heavy_share):
    proposal = Proposal(np.array([3.0]), np.array([[2.5]]), heavy_share)

    def density(z):
        return float(np.exp(proposal.log_density(np.array([[z]]))[0]))

    found, error = integrate.quad(density, -np.inf, np.inf, epsabs=1e-10)
    assert found == pytest.approx(1, abs=max(error, 1e-9))


@pytest.mark.parametrize(("dim", "is_diagonal"), SHAPES)
def test_the_density_is_a_mixture_of_a_normal_and_a_t(dim, is_diagonal):
    proposal = proposal_of(dim, is_diagonal)
    points = np.concatenate([proposal.candidates(64, 1), 100 * proposal.candidates(64, 2)])
    shape = covariance_of(proposal)
    normal = stats.multivariate_normal(proposal.centre, shape).logpdf(points)
    heavy = stats.multivariate_t(proposal.centre, shape, df=7).logpdf(points)
    expected = np.logaddexp(np.log(1 - HEAVY) + normal, np.log(HEAVY) + heavy)
    np.testing.assert_allclose(proposal.log_density(points), expected, rtol=1e-9)


@pytest.mark.parametrize(("dim", "is_diagonal"), SHAPES)
def test_candidates_have_that_law(dim, is_diagonal):
    """By the laws of single entries and of the radius, which knows them all.

    Shared candidates are more even than independent ones, so that a test for these does not reject
    them more often than it says.
    """
    proposal = proposal_of(dim, is_diagonal)
    points = unscaled(proposal, proposal.candidates(4096, 5))

    def entry(w):
        return (1 - HEAVY) * stats.norm.cdf(w) + HEAVY * stats.t.cdf(w, 7)

    def squared_radius(r):
        return (1 - HEAVY) * stats.chi2.cdf(r, dim) + HEAVY * stats.f.cdf(r / dim, dim, 7)

    for k in {0, dim // 2, dim - 1}:
        assert stats.kstest(points[:, k], entry).pvalue > 1e-3
    assert stats.kstest(np.sum(points**2, axis=1), squared_radius).pvalue > 1e-3


@pytest.mark.parametrize(("dim", "is_diagonal"), SHAPES)
def test_candidates_have_the_moments_of_that_law(dim, is_diagonal):
    """Within five standard errors of independent points, over all pairs of entries.

    In 200 dimensions some pairs of a Sobol sequence are ten standard errors apart.
    """
    proposal, number = proposal_of(dim, is_diagonal), 4096
    points = unscaled(proposal, proposal.candidates(number, 7))
    variance = 1 - HEAVY + HEAVY * HEAVY_VARIANCE
    fourth = 3 * (1 - HEAVY) + 3 * HEAVY * HEAVY_VARIANCE**2 * (7 - 2) / (7 - 4)
    assert np.abs(points.mean(axis=0)).max() < 5 * np.sqrt(variance / number)
    moments = points.T @ points / number
    apart = np.abs(moments - variance * np.eye(dim))
    diagonal = np.sqrt((fourth - variance**2) / number)
    off_diagonal = np.sqrt(fourth / 3 / number)  # E w_i^2 w_j^2 = E w_i^4 / 3 for round laws
    assert np.diag(apart).max() < 5 * diagonal
    assert (apart - np.diag(np.diag(apart))).max() < 5 * off_diagonal


@pytest.mark.parametrize("is_diagonal", [False, True])
def test_centre_and_scale_move_the_standard_candidates(is_diagonal):
    proposal = proposal_of(3, is_diagonal)
    standard = Proposal(np.zeros(3), np.ones(3), proposal.heavy_share)
    moved = unscaled(proposal, proposal.candidates(32, 1))
    np.testing.assert_allclose(moved, standard.candidates(32, 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 200])
def test_the_same_seed_gives_the_same_points(dim):
    proposal = Proposal.standard(dim, is_diagonal=True)
    points = proposal.candidates(64, np.uint64(2**63 + 5))
    np.testing.assert_array_equal(points, proposal.candidates(64, np.uint64(2**63 + 5)))
    assert not np.isin(points, proposal.candidates(64, np.uint64(2**63 + 6))).any()
    dense = Proposal.standard(dim, is_diagonal=False).candidates(64, 3)
    np.testing.assert_array_equal(proposal.candidates(64, 3), dense)
    assert proposal.candidates(1, 0).shape == (1, dim)


def test_points_at_the_faces_of_the_cube_are_finite(monkeypatch):
    corners = np.array([[a, b] for a in (0.0, 0.7, 1.0) for b in (0.0, 1.0)])

    class Corners:
        def __init__(self, dim, scramble, rng):
            pass

        def random(self, number):
            return corners[:number]

    monkeypatch.setattr(module.stats.qmc, "Sobol", Corners)
    points = Proposal.standard(1, is_diagonal=False).candidates(6, 0)
    assert np.isfinite(points).all()
    np.testing.assert_array_equal(np.sign(points[:, 0]), [-1, 1] * 3)


def test_more_parameters_than_a_sobol_sequence_has():
    """A normal candidate has one size in all entries, and so has one of the t."""
    dim = stats.qmc.Sobol.MAXDIM
    points = Proposal.standard(dim, is_diagonal=True).candidates(8, 0)
    assert points.shape == (8, dim)
    for row in points:
        size = np.sqrt(np.mean(row**2))
        assert stats.kstest(row / size, stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("is_diagonal", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 20])
def test_a_fit_has_the_weighted_moments(dim, is_diagonal):
    random = np.random.default_rng(dim)
    points = random.normal(size=(4000, dim)) @ random.normal(size=(dim, dim)) + 3.0
    weights = random.exponential(size=4000)
    weights /= weights.sum()
    assert 1 / np.sum(weights**2) > FEWEST_FITTED * dim
    fitted = Proposal.fitted(points, weights, is_diagonal)
    np.testing.assert_allclose(fitted.centre, np.average(points, axis=0, weights=weights))
    covariance = np.cov(points.T, aweights=weights, ddof=0).reshape(dim, dim)
    if is_diagonal:
        np.testing.assert_allclose(fitted.scale, np.sqrt(np.diag(covariance)))
    else:
        np.testing.assert_allclose(fitted.scale @ fitted.scale.T, covariance, atol=1e-12)
        np.testing.assert_array_equal(fitted.scale, np.tril(fitted.scale))
    assert fitted.heavy_share == REFITTED_HEAVY_SHARE


@pytest.mark.parametrize("is_diagonal", [False, True])
def test_a_fit_to_few_points_leans_on_the_identity(is_diagonal):
    """Three points span no covariance in four dimensions, and one point none at all."""
    points, weights = np.random.default_rng(0).normal(size=(3, 4)), np.array([0.5, 0.3, 0.2])
    known = 1 / (0.38 * 10 * 4)
    expected = known * np.cov(points.T, aweights=weights, ddof=0) + (1 - known) * np.eye(4)
    fitted = Proposal.fitted(points, weights, is_diagonal)
    found = covariance_of(fitted)
    np.testing.assert_allclose(found, np.diag(np.diag(expected)) if is_diagonal else expected)
    alone = Proposal.fitted(points[:1], np.ones(1), is_diagonal)
    np.testing.assert_allclose(covariance_of(alone), (1 - 1 / 40) * np.eye(4))
    assert np.isfinite(alone.log_density(points)).all()

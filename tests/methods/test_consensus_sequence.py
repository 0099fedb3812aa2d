"""The sequential sampler of global consensus Monte Carlo against exact laws of every tie."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import starlings as st
from starlings.theory import law
from tests.curved import GRID, ROWS, curved_problem, hub_density, hub_weights
from tests.problems import unequal_linear_problem

TIES = np.geomspace(0.2, 0.01, 20)
MEAN, COVARIANCE = unequal_linear_problem().exact_posterior()
SITES, DIM = 6, 3


def around_the_mode(z):
    """Positions and their squared distances from the posterior mean, (particle, 2, dim)."""
    return np.stack([z, (z - MEAN) ** 2], axis=1)


@cache
def found(seed=1, particles=1000, threshold=0.5):
    problem = unequal_linear_problem()
    how = {"particles": particles, "threshold": threshold, "seed": seed}
    return st.consensus_sequence(problem, TIES, **how)


@cache
def exact_moments():
    """The same of the exact law of every tie, (tie, 2, dim)."""
    problem, network = st.with_hub(unequal_linear_problem(), prior="hub")
    laws = [law(problem, network, st.GlobalConsensusMC(tie)).stationary() for tie in TIES]
    moments = [each.agent(network.centre) for each in laws]
    return np.array([[m, np.diag(C) + (m - MEAN) ** 2] for m, C in moments])


def exact_log_ratios():
    """Of the integrals of mu(z) prod_j N(x_j; z, l) exp(-f_j(x_j)): Gaussians in all variables."""
    problem, _ = st.with_hub(unequal_linear_problem(), prior="hub")
    H, b = (np.asarray(part) for part in (problem.quadratic.hessian, problem.quadratic.linear))

    def log_integral(tie):
        star = np.block(
            [[np.array([[SITES]]), -np.ones((1, SITES))], [-np.ones((SITES, 1)), np.eye(SITES)]]
        )
        K = np.kron(star, np.eye(DIM)) / tie
        for i, own in enumerate(H):
            K[i * DIM : (i + 1) * DIM, i * DIM : (i + 1) * DIM] += own
        log_det = np.linalg.slogdet(K)[1]
        return (b.ravel() @ np.linalg.solve(K, b.ravel()) - log_det - SITES * DIM * np.log(tie)) / 2

    logs = np.array([log_integral(tie) for tie in TIES])
    return logs - logs[0]


@pytest.mark.parametrize("threshold", [0.5, 0.0])
def test_every_tie_has_its_exact_law(threshold):
    """Means and variances of 20 ties, with particles drawn anew and with weights alone."""
    sequence = found(threshold=threshold)
    assert sequence.resampled.any() == (threshold > 0)
    estimates = sequence.estimates(around_the_mode)
    scores = (estimates.estimate - exact_moments()) / estimates.error
    assert np.abs(scores).max() < 4.5
    assert (
        np.abs(sequence.estimates(around_the_mode).estimate[0] - exact_moments()[-1]).max() > 0.05
    )
    away = (sequence.log_ratios - exact_log_ratios())[1:] / sequence.log_ratio_errors[1:]
    assert np.abs(away).max() < 4
    assert np.abs(sequence.weights.sum(axis=1) - 1).max() < 1e-12


def test_at_no_width_it_is_the_posterior():
    """The bias of the smallest tie is seen, and is gone after the regression."""
    sequence = found(particles=4000)
    target = np.array([MEAN, np.diag(COVARIANCE)])
    at_zero = sequence.at_zero(around_the_mode, largest=0.05)
    assert np.abs((at_zero.estimate - target) / at_zero.error).max() < 4
    one = sequence.estimates(around_the_mode)
    assert np.abs((one.estimate - target) / one.error)[-1].max() > 6
    assert np.all(at_zero.error < np.abs(one.estimate[0] - target).max())


@pytest.mark.slow
def test_errors_are_those_between_runs():
    """Of estimates, of logarithms of integrals, and of what the regression makes of them."""
    runs = [found(seed, particles=400) for seed in range(60)]
    pairs = {
        "estimates": [run.estimates(around_the_mode)[:2] for run in runs],
        "at zero": [run.at_zero(around_the_mode) for run in runs],
        "integrals": [(run.log_ratios[1:], run.log_ratio_errors[1:]) for run in runs],
    }
    for name, found_ones in pairs.items():
        values, errors = (np.array(each) for each in zip(*found_ones, strict=True))
        share = np.sqrt(np.mean(errors**2, axis=0)) / values.std(axis=0, ddof=1)
        assert 0.85 < np.median(share) < 1.2, name


@pytest.mark.slow
def test_where_it_is_not_gaussian():
    """Two sites with several modes each: waves of z in every tie, integrals, and the posterior."""
    ties, how = np.geomspace(0.4, 0.005, 20), {"particles": 1500, "threshold": 0.9, "seed": 2}
    sequence = st.consensus_sequence(curved_problem(), ties, **how)
    assert sequence.resampled.sum() > 3

    def waves(z):
        return np.hstack([np.cos(2 * z), np.sin(2 * z), np.cos(4 * z), np.sin(4 * z)])

    grid = waves(GRID[:, None])
    exact = np.array([hub_density(tie, "hub") @ grid for tie in ties])
    estimates = sequence.estimates(waves)
    assert np.abs((estimates.estimate - exact) / estimates.error).max() < 4.5
    sums = [np.log(hub_weights(tie, "hub").sum()) - len(ROWS) / 2 * np.log(tie) for tie in ties]
    away = (sequence.log_ratios - (sums - sums[0]))[1:] / sequence.log_ratio_errors[1:]
    assert np.abs(away).max() < 4
    posterior = hub_density(1e-6, "hub") @ grid
    at_zero = sequence.at_zero(waves, largest=0.03)
    assert np.abs((at_zero.estimate - posterior) / at_zero.error).max() < 4
    assert np.abs((estimates.estimate[0] - posterior) / estimates.error[0]).max() > 8


def test_what_is_sent_is_counted():
    """Down and up in every sweep, and the numbers of those that were drawn, all as one message."""
    sequence, sweeps = found(), 50 + 2 * (len(TIES) - 1)
    times = int(sequence.resampled.sum())
    assert sequence.sent.rounds == 2 * sweeps
    assert sequence.sent.messages == SITES * (2 * sweeps + times)
    assert sequence.sent.floats == SITES * 1000 * (2 * sweeps * DIM + times)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strengths": [0.1, 0.2]}, "`strengths` must be positive numbers in descending order"),
        ({"strengths": [0.1, 0.0]}, "`strengths` must be positive numbers"),
        ({"threshold": 1.5}, "`threshold` must be between 0"),
        ({"particles": 1}, "`particles` must be a whole number of at least 2"),
        ({"sweeps": 0}, "`sweeps` must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        st.consensus_sequence(unequal_linear_problem(), **({"strengths": [0.2, 0.1]} | given))

"""Headline results of papers of the field, at a size that fits here; docs/the-field.md has them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.comparison.samplers.settings import units_of
from starlings.errors import StabilityError
from starlings.methods import one_shot
from starlings.theory import law
from tests.laws.mixtures import iterates
from tests.problems import paper_problem, skewed_problem, unequal_linear_problem


def four_sites(turn):
    """Curvatures in the ratio 1 to 4 at each site, its axes turned by so much from the last."""
    hessians, modes = [], []
    for i in range(4):
        c, s = np.cos(turn * i), np.sin(turn * i)
        axes = np.array([[c, -s], [s, c]])
        hessians.append(axes @ np.diag([0.4, 1.6]) @ axes.T / 4)
        modes.append(4 * np.array([np.cos(1.3 * i), np.sin(2.1 * i)]))
    return st.models.gaussian(np.array(hessians), np.array(modes))


def rounds_of_fa_ld(turn, local_steps):
    """Rounds until the hub stays within 0.1 posterior radii, at the best of a grid of steps."""
    samplers = [st.FedAvgLangevin(eta, local_steps) for eta in np.geomspace(1, 1e-3, 13)]
    how = {"target": 0.1, "rounds": 2000, "progress": False}
    found = st.compare(four_sites(turn), st.Network.ring(4), {"fa-ld": samplers}, **how)
    return found.table["round"].item()


def test_local_steps_save_rounds_where_curvatures_agree_and_cost_where_they_differ():
    """FA-LD: by exact laws, at its best step each time."""
    alike = [rounds_of_fa_ld(0.0, count) for count in (1, 10)]
    unlike = [rounds_of_fa_ld(np.pi / 4, count) for count in (1, 10)]
    assert alike == [52, 8]
    assert unlike == [18, 198]


@pytest.mark.slow
def test_reference_points_and_memory_take_off_the_noise_of_minibatches_too():
    """QLSD of one level, with 3 of the 30 rows of ten sites that differ, against all rows.

    Variances add as in `test_hub_qlsd`, since the errors have mean zero given the past.
    """
    random, sites = np.random.default_rng(0), np.repeat(np.arange(10), 30)
    truth = np.column_stack([np.cos(0.2 * np.pi * sites), np.sin(0.2 * np.pi * sites)])
    X = random.normal(size=truth.shape)
    y = np.sum(X * truth, axis=1) + random.normal(size=len(X))
    plain = st.models.linear_regression(X, y, sites, noise_std=1.0, prior_std=3.0, intercept=False)
    problem, network = st.with_hub(plain)
    mean, covariance = plain.exact_posterior()
    precision = np.linalg.inv(covariance)
    eta = 0.05 / np.linalg.eigvalsh(precision).max()
    langevin = st.QLSD(eta, "plain", levels=None)
    exact = law(problem, network, langevin).stationary().agent(0)[1]
    how = {"chains": 600, "burn_in": 400, "draws": 3, "apart": 60}
    start = iterates(problem, network, langevin, **how)

    def ratio(form, **settings):
        noisy = st.QLSD(eta, form, levels=1, batch_size=3, **settings)
        apart = (iterates(problem, network, noisy, **how) - start).reshape(-1, 2)
        return np.trace((exact + apart.T @ apart / len(apart)) @ precision) / 2

    assert np.trace(exact @ precision) / 2 == pytest.approx(1.025, abs=1e-3)
    assert ratio("plain") == pytest.approx(1.69, abs=0.1)
    assert ratio("fixed-point", mode=mean) == pytest.approx(1.029, abs=2e-3)
    assert ratio("variance-reduced", refresh=10) == pytest.approx(1.027, abs=2e-3)


@pytest.mark.slow
def test_combinations_of_skewed_draws():
    """Means in posterior sd, and ratios of sd, with 20,000 exact draws from each of five sites."""
    problem, grid, count = skewed_problem(), np.linspace(-6, 4, 2001), 20_000
    with jax.enable_x64(True):
        at_all = jax.vmap(lambda agent: jax.vmap(agent.potential)(grid[:, None]))
        potentials = np.asarray(at_all(problem.agents())).T
    random = np.random.default_rng(0)

    def density(potential):
        found = np.exp(potential.min() - potential)
        return found / found.sum()

    passed = [np.cumsum(density(own)) for own in potentials.T]
    draws = np.array([np.interp(random.uniform(size=count), own, grid) for own in passed])[
        ..., None
    ]
    posterior = density(potentials.sum(axis=1))
    mean = posterior @ grid
    sd = np.sqrt(posterior @ (grid - mean) ** 2)

    def mixture(is_corrected):
        shape = (count, len(draws))
        numbers, chances = random.integers(count, size=shape), np.log(random.uniform(size=shape))
        chance = one_shot.Randomness(numbers, chances, random.normal(size=(count, 1)))
        with jax.enable_x64(True):
            return one_shot.mixture(draws, chance, is_corrected)[count // 5 :]

    found = {
        "consensus": one_shot.combine(draws),
        "nonparametric": mixture(False),
        "semiparametric": mixture(True),
    }
    away = {name: (each.mean() - mean) / sd for name, each in found.items()}
    width = {name: each.std() / sd for name, each in found.items()}
    assert away["consensus"] == pytest.approx(1.2, abs=0.1)
    assert width["consensus"] == pytest.approx(1.27, abs=0.05)
    for name in ("nonparametric", "semiparametric"):
        assert abs(away[name]) < 0.25
        assert 0.75 < width[name] < 1.1


def test_proximal_maps_of_a_token_are_stable_at_every_step():
    """SPLA at fifty times the step at which Langevin dynamics explodes."""
    problem, network = unequal_linear_problem(), st.Network.ring(6)
    network = network.matched_to(problem.sites)
    pooled = problem.pooled()
    limit = 2 / np.linalg.eigvalsh(np.linalg.inv(problem.exact_posterior()[1])).max()
    alone = st.Network.path(1).matched_to(pooled.sites)
    law(pooled, alone, st.MYULA(0.99 * limit, None, 1.0)).stationary()
    with pytest.raises(StabilityError):
        law(pooled, alone, st.MYULA(1.01 * limit, None, 1.0)).stationary()
    cycle = law(problem, network, st.SPLA.on(network, 50 * limit)).whole_cycle()
    assert cycle.spectral_radius() < 0.1


@pytest.mark.parametrize(("rows", "bound"), [(50, 9.0), (1000, 2.5)])
def test_what_the_noise_of_langevin_steps_hides_for_nothing(rows, bound):
    """DP-SGLD: epsilon at delta 1e-5 of ten relaxation times, with an average 5 % too wide."""
    problem = paper_problem(5, rows)
    network = st.Network.ring(5).matched_to(problem.sites)
    (sampler,) = st.DPSGLD.candidates(units_of(problem, network, np.array([0.1])))
    plain = law(problem, network, st.DSGLD(sampler.step_size))
    average = plain.stationary().covariance.reshape(5, 2, 5, 2).mean(axis=(0, 2))
    ratio = np.trace(np.linalg.solve(problem.exact_posterior()[1], average)) / 2
    assert ratio == pytest.approx(1.047, abs=0.003)
    found = sampler.attributes(1, int(10 * plain.relaxation_rounds()))
    assert found["temperature"] == 1.0
    assert found["privacy_epsilon"] == pytest.approx(bound, abs=0.1)

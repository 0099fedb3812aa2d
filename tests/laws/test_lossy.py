"""Asynchronous D-ADMMS has the right law where messages are lost, late or not sent.

The figures of `TABLE` were computed independently, for the problems of `lossy.table_problem`: the
worst agent's W2 distance over the root of the trace, and the mean ratio of variances to those of
the posterior. Those without a clock are exact; those with it have Monte Carlo errors up to 0.01.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.errors import NoLawError
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.runtime.unreliable import OnLinks
from starlings.solvers.proximal import proximal_point
from starlings.testing.runs import z_scores
from starlings.theory import law
from tests.laws.lossy import (
    moving_frame,
    noise_as_today,
    penalty,
    stationary,
    table_problem,
    worst_w2_and_ratio,
)
from tests.quick import quick_cases

NETWORKS = {
    "ring 5": st.Network.ring(5),
    "ring 20": st.Network.ring(20),
    "star 20": st.Network.star(20),
    "path 20": st.Network.path(20),
    "complete 20": st.Network.complete(20),
}
TABLE = {
    ("ring 5", 0.1): {"today": (0.038, 0.945), "frame": (0.0149, 1.010)},
    ("ring 5", 0.3): {"today": (0.103, 0.823), "frame": (0.0160, 1.013), "clock": (0.016, 1.012)},
    ("ring 5", 0.5): {"today": (0.172, 0.705), "frame": (0.0173, 1.017), "clock": (0.016, 1.015)},
    ("ring 20", 0.1): {"today": (0.067, 0.960), "frame": (0.0584, 1.021)},
    ("ring 20", 0.3): {"today": (0.122, 0.844), "frame": (0.0581, 1.025), "clock": (0.057, 1.022)},
    ("ring 20", 0.5): {"today": (0.182, 0.733), "frame": (0.0579, 1.028), "clock": (0.057, 1.025)},
    ("star 20", 0.3): {"today": (0.115, 0.837), "frame": (0.0271, 1.016), "clock": (0.025, 1.010)},
    ("path 20", 0.3): {"today": (0.152, 0.866), "frame": (0.1324, 1.041), "clock": (0.129, 1.035)},
    ("complete 20", 0.3): {"today": (0.136, 0.768), "clock": (0.019, 1.005)},
}
"""By network and probability of loss: noise in the proximal step only, as D-ADMMS has it today;
the moving frame with the pace known; and the clock, which needs to know nothing."""
WAITING = {
    "ring 5": (0.0145, 1.009),
    "ring 20": (0.0586, 1.020),
    "star 20": (0.0276, 1.010),
    "complete 20": (0.0152, 1.009),
    "path 20": (0.1357, 1.035),
}
"""The same of D-ADMMS without loss."""
TABLE_ERROR = 0.01
"""Monte Carlo error of the figures with a clock."""
ALARM = 1e-5
"""Probability with which a comparison fails by chance."""
LIMIT = scipy.stats.norm.isf(ALARM / 2)
GROUPS = 20
"""Groups of chains from which standard errors are estimated."""


@pytest.mark.parametrize("name", WAITING)
def test_without_loss_the_exact_law_has_the_figures_of_the_table(name):
    network = NETWORKS[name]
    problem = table_problem(network.size)
    for sampler in (st.DADMMS(penalty(network)), st.AsyncDADMMS(penalty(network))):
        found = worst_w2_and_ratio(law(problem, network, sampler).stationary(), problem)
        np.testing.assert_allclose(found, WAITING[name], atol=6e-4)  # printed to 3 or 4 digits


EXACT = [case for case in TABLE if case[0] != "complete 20"]  # whose 380 links take minutes


@pytest.mark.parametrize("case", quick_cases(EXACT, [("ring 5", 0.3), ("star 20", 0.3)]), ids=str)
def test_exact_moments_have_the_figures_of_the_table(case):
    """So the moments that simulations are compared with are those of two derivations."""
    (name, loss), expected = case, TABLE[case]
    network = NETWORKS[name]
    problem, share = table_problem(network.size), 1 - loss
    rounds = 1500 if name.startswith("path") else 600
    today = stationary(problem, network, noise_as_today(), share, rounds)
    frame = stationary(problem, network, moving_frame(share), share, rounds)
    np.testing.assert_allclose(worst_w2_and_ratio(today, problem), expected["today"], atol=6e-4)
    np.testing.assert_allclose(worst_w2_and_ratio(frame, problem), expected["frame"], atol=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", quick_cases(["ring 5", "star 20", "path 20"], ["ring 5"]))
def test_simulations_in_the_moving_frame_have_the_exact_moments(name):
    """With a known pace the sampler is linear given what arrives: all means and covariances."""
    network, loss, rounds = NETWORKS[name], 0.3, 40
    problem, sampler = table_problem(network.size), st.AsyncDADMMS(penalty(network), pace=0.7)
    draws = simulated(sampler, problem, network.lossy(loss), 2000, Schedule(1, rounds - 1), zero)
    scores = z_scores(draws[0], stationary(problem, network, moving_frame(0.7), 1 - loss, rounds))
    assert np.abs(scores).max() < scipy.stats.norm.isf(ALARM / len(scores) / 2)
    other = stationary(problem, network, moving_frame(0.7), 1.0, rounds)  # nothing is lost
    assert np.abs(z_scores(draws[0], other)).max() > 10


CLOCK = [case for case in TABLE if "clock" in TABLE[case]]


@pytest.mark.slow
@pytest.mark.parametrize("case", quick_cases(CLOCK, [("ring 5", 0.3)]), ids=str)
def test_with_a_clock_nobody_needs_to_know_what_is_lost(case):
    (name, loss), wanted = case, TABLE[case]["clock"]
    network = NETWORKS[name]
    found = figures(st.AsyncDADMMS(penalty(network)), network.lossy(loss))
    assert found.are_near(wanted)
    assert found.are_near(WAITING[name])
    assert not found.are_near(TABLE[case]["today"])


@dataclass(frozen=True)
class _InTheStep(st.AsyncDADMMS):
    """Lost messages leave the links as they were, and noise is in the proximal step only."""

    def step(self, agent, state, inbox, round):
        averaged = (state.links + inbox.each) / 2
        links = jnp.where(inbox.arrived[:, None], averaged, state.links)
        r = 2 * self.rho
        kick = agent.degree * self._kick(agent) * round.shared_noise(state.position)
        linear = r * (links.sum(axis=0)[:-1] - kick)
        x = proximal_point(agent, r * agent.degree, linear, start=state.position).point
        later = round._replace(index=round.index + 1).shared_noise(x)
        new = state._replace(position=x, place=jnp.append(x, 0.0), links=links, upcoming=later)
        return new, st.no_info(x)


InTheStep = st.pytree(_InTheStep)


@pytest.mark.slow
def test_the_same_test_refuses_noise_that_a_lost_message_loses():
    """The naive version, which is D-ADMMS where nothing is lost, has the law of its column."""
    network, loss = NETWORKS["ring 5"], 0.3
    naive = InTheStep(penalty(network), pace=1.0)
    found = figures(naive, network.lossy(loss))
    assert not found.are_near(TABLE["ring 5", loss]["clock"])
    assert not found.are_near(WAITING["ring 5"])
    assert found.are_near(TABLE["ring 5", loss]["today"])


TOO_MUCH = {"loss": ({"loss": 0.5}, 2.0), "delay": ({"delay": 2}, 2.036)}
"""Faults, and the ratio of variances with noise in every round that does not know the pace."""


@pytest.mark.parametrize("name", quick_cases(TOO_MUCH, []))
def test_noise_in_every_round_without_the_pace_is_too_much(name):
    """Its variance is 1 / pace times too large, where the clock's is right within 0.1."""
    faults, ratio = TOO_MUCH[name]
    network = NETWORKS["ring 5"].lossy(**faults)
    wrong = figures(st.AsyncDADMMS(penalty(network), pace=1.0), network)
    assert wrong.ratio == pytest.approx(ratio, abs=0.05 + LIMIT * wrong.ratio_error)
    right = figures(st.AsyncDADMMS(penalty(network)), network)
    assert right.ratio == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_sites_that_sleep_and_links_that_differ():
    """Nobody is told: not who is slow, nor which links are bad."""
    network = NETWORKS["ring 5"]
    worst = np.zeros((5, 5))
    worst[0], worst[:, 0] = 0.6, 0.6
    for faults in ({"asleep": [0.8, 0, 0, 0, 0]}, {"loss": worst, "delay": [[0, 1, 0, 1, 1]]}):
        found = figures(st.AsyncDADMMS(penalty(network)), network.lossy(**faults))
        assert found.w2 < 0.08
        assert abs(found.ratio - 1) < 0.08 + LIMIT * found.ratio_error


MIXED = {
    "loss and delay": {"loss": 0.3, "delay": 2},
    "all": {"loss": 0.2, "delay": 1, "asleep": 0.2},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", quick_cases(MIXED, ["all"]))
def test_the_clock_goes_as_fast_as_the_pace_of_the_network(name):
    """Ticks in a round: known from the faults where they are the same in both directions."""
    faults = MIXED[name]
    network, rounds, chains = NETWORKS["ring 5"].lossy(**faults), 400, 50
    problem, sampler = table_problem(5), st.AsyncDADMMS(penalty(network))
    ticks = ticks_after((rounds, 2 * rounds), sampler, problem, network, chains)
    paces = (ticks[1] - ticks[0]).mean(axis=1) / rounds  # by chain, without the beginning
    error = paces.std(ddof=1) / np.sqrt(chains)
    assert paces.mean() == pytest.approx(network.pace, abs=LIMIT * error)


STOPS = {"ring 20": (1, 19), "star 20": (1, 37)}
"""A site that is away for good, and the ticks after which the clocks of all others stand."""


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPS)
def test_the_clock_stops_where_a_site_stays_away(name):
    """After about D / d_s ticks: the others cannot go where the missing site does not follow."""
    (site, ticks), network = STOPS[name], NETWORKS[name]
    asleep = np.zeros(network.size)
    asleep[site] = 1 - 1e-9
    problem, sampler = table_problem(network.size), st.AsyncDADMMS(penalty(network))
    found = ticks_after((1500, 1800), sampler, problem, network.lossy(asleep=asleep), 2)
    others = np.delete(found, site, axis=-1)
    np.testing.assert_array_equal(others[0], others[1])
    assert np.abs(others - ticks).max() <= 1


def test_no_law_is_claimed_where_messages_are_lost():
    network = NETWORKS["ring 5"]
    with pytest.raises(NoLawError, match="lossy"):
        law(table_problem(5), network.lossy(0.1), st.AsyncDADMMS(penalty(network)))


def simulated(sampler, problem, network, chains, schedule, start):
    """Draws (draw, chain, agent, dim)."""
    with jax.enable_x64(True):
        positions = jnp.broadcast_to(start(problem), (chains, problem.num_agents, problem.dim))
        agents = problem.agents(network)
        run = loop.run(sampler, agents, network, jnp.array(positions), 0, schedule)
        return run.joined().position


def zero(problem):
    return jnp.zeros(problem.dim)


def at_the_mean(problem):
    return jnp.asarray(problem.exact_posterior()[0])


@dataclass(frozen=True)
class Figures:
    """The two figures of the table with their Monte Carlo standard errors."""

    w2: float
    w2_error: float
    ratio: float
    ratio_error: float

    def are_near(self, wanted):
        """Whether both are within the errors of the table and of the simulation."""
        return all(
            abs(found - known) < TABLE_ERROR + LIMIT * error
            for found, known, error in zip(
                (self.w2, self.ratio), wanted, (self.w2_error, self.ratio_error), strict=True
            )
        )


def figures(sampler, network, chains=500, draws=80, thin=7):
    """From chains that start at the mean: 250 rounds are dropped, and every seventh is a draw."""
    problem = table_problem(network.size)
    found = simulated(sampler, problem, network, chains, Schedule(draws, 250, thin), at_the_mean)
    groups = np.array_split(np.moveaxis(found, 1, 0), GROUPS)
    whole = worst_w2_and_ratio(sample_moments(np.concatenate(groups)), problem)
    without = np.array(
        [
            worst_w2_and_ratio(
                sample_moments(np.concatenate(groups[:g] + groups[g + 1 :])), problem
            )
            for g in range(GROUPS)
        ]
    )
    centre = without.mean(axis=0)
    errors = np.sqrt((GROUPS - 1) * np.mean((without - centre) ** 2, axis=0))  # the jackknife
    best = GROUPS * np.array(whole) - (GROUPS - 1) * centre
    return Figures(*(float(x) for x in (best[0], errors[0], best[1], errors[1])))


def sample_moments(draws):
    """Means and covariances of all draws (chain, draw, agent, dim)."""
    flat = draws.reshape(-1, *draws.shape[2:])
    return st.theory.Moments(flat.mean(axis=0), np.cov(flat.reshape(len(flat), -1).T))


def ticks_after(rounds, sampler, problem, network, chains):
    """The ticks of all agents after so many rounds, (time, chain, agent)."""
    found = []
    with jax.enable_x64(True):
        positions = jnp.zeros((chains, problem.num_agents, problem.dim))
        process = loop._Process.of(
            sampler, problem.agents(network), network, positions, 0, Schedule(1, 0, 1), 1e9
        )
        carry, _ = process.begun(positions, None)
        assert isinstance(process.on_links, OnLinks)
        for more in np.diff((0, *rounds)):
            carry, _ = process._advanced(1e9, carry, 1, int(more))
            found.append(np.asarray(carry.states.state.tick))
    return np.array(found)

"""Runs by lock-step HMC from `sample` to the result: interruptions, resuming, starts, processes."""

from __future__ import annotations

import json
import os
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.errors import InterruptedWarning, PosteriorWarning, TuningError
from starlings.methods.hmc import SummedChains
from starlings.network.gossip import Gossip
from starlings.results.result import Result
from starlings.sampling.by_hmc import FEWEST_DRAWS
from tests.methods_hmc.test_hmc_laws import eight_schools, half_line, unbounded_problem
from tests.mpi import mpi, needs_mpi
from tests.problems import flat, unequal_poisson_problem
from tests.quick import quick_cases

NETWORK = st.Network.path(6)
CHAINS, DRAWS = 16, 40


def run(problem=None, network=NETWORK, **options) -> Result:
    problem = unequal_poisson_problem() if problem is None else problem
    lengths = {"method": "hmc", "chains": CHAINS, "draws": DRAWS}
    return st.sample(problem, network, **{**lengths, "progress": False, "check": False, **options})


def assert_same(found, expected):
    """All draws, statistics and attributes, in every bit."""
    for group in ("posterior", "sample_stats"):
        assert found.tree[group].to_dataset().identical(expected.tree[group].to_dataset())


@pytest.fixture(scope="module")
def whole():
    """The run that is not interrupted."""
    return run()


@pytest.fixture
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Counted:
    """Leapfrogs that are counted; at the n-th one something happens."""

    def __init__(self, monkeypatch, at=None, event=None):
        self.made, plain = 0, SummedChains.leapfrogs

        def counted(sums, number, *arguments):
            before, self.made = self.made, self.made + number
            if at is not None and before < at <= self.made:
                event()
            return plain(sums, number, *arguments)

        monkeypatch.setattr(SummedChains, "leapfrogs", counted)


def calls_of(monkeypatch, *methods) -> list[str]:
    """The names of these methods, once for each of their calls."""
    made = []

    def noted(name, plain):
        def call(*arguments):
            made.append(name)
            return plain(*arguments)

        return call

    for owner, name in methods:
        monkeypatch.setattr(owner, name, noted(name, getattr(owner, name)))
    return made


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def press_ctrl_c_twice():
    raise KeyboardInterrupt  # the second one is not deferred


@pytest.fixture(scope="module")
def all_leapfrogs():
    """Leapfrogs of the whole run, and of its warm-up."""
    with pytest.MonkeyPatch.context() as patch:
        short = Counted(patch)
        run(draws=1)
    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch)
        run()
    assert 0 < short.made < counted.made
    return counted.made, short.made


# Interrupted runs


@pytest.mark.usefixtures("default_handler")
@pytest.mark.parametrize("every", [10_000, 10])
@pytest.mark.parametrize("share", [0.01, 0.7])
@pytest.mark.slow
def test_ctrl_c_in_the_warm_up_keeps_what_was_done(
    tmp_path, monkeypatch, whole, all_leapfrogs, share, every
):
    """A sum takes ten rounds, so that a checkpoint every ten rounds is one after each leapfrog."""
    total, warm = all_leapfrogs
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": every}
    with monkeypatch.context() as patch:
        before = Counted(patch, max(1, round(share * warm)), press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            run(**kept)
    after = Counted(monkeypatch)
    assert_same(run(**kept, resume=True), whole)
    assert before.made + after.made == total


@pytest.mark.slow
@pytest.mark.usefixtures("default_handler")
@pytest.mark.parametrize("every", [10_000, 10])
def test_ctrl_c_among_the_draws_returns_them_and_the_rest_follows(
    tmp_path, monkeypatch, whole, all_leapfrogs, every
):
    total, warm = all_leapfrogs
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": every}
    with monkeypatch.context() as patch:
        before = Counted(patch, (warm + total) // 2, press_ctrl_c)
        with pytest.warns(InterruptedWarning, match=r"after \d+ of 40 draws; .*`resume=True`"):
            part = run(**kept)
    count = part.posterior.sizes["draw"]
    assert 0 < count < DRAWS
    assert part.attrs["interrupted"] == f"after {count} of 40 draws"
    np.testing.assert_array_equal(part.posterior["beta"], whole.posterior["beta"][:, :count])
    after = Counted(monkeypatch)
    assert_same(run(**kept, resume=True), whole)
    assert before.made + after.made == total


@pytest.mark.slow
@pytest.mark.usefixtures("default_handler")
def test_ctrl_c_without_a_checkpoint_returns_the_draws(monkeypatch, whole, all_leapfrogs):
    Counted(monkeypatch, sum(all_leapfrogs) // 2, press_ctrl_c)
    with pytest.warns(InterruptedWarning, match=r"after \d+ of 40 draws; returning those\.$"):
        part = run()
    count = part.posterior.sizes["draw"]
    np.testing.assert_array_equal(part.posterior["beta"], whole.posterior["beta"][:, :count])
    np.testing.assert_array_equal(part.sample_stats["lp"], whole.sample_stats["lp"][:, :count])


@pytest.mark.quick(2)
@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.8, 0.99])
def test_a_run_that_ends_at_any_moment_goes_on_from_its_last_checkpoint(
    tmp_path, monkeypatch, whole, all_leapfrogs, share
):
    """Seven leapfrogs from one checkpoint to the next end within a trajectory, or anywhere."""
    total, warm = all_leapfrogs
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 70}
    with monkeypatch.context() as patch:
        before = Counted(patch, round(share * total), press_ctrl_c_twice)
        if share * total > warm + 20:
            with pytest.warns(InterruptedWarning):
                run(**kept)
        else:
            with pytest.raises(KeyboardInterrupt):
                run(**kept)
    after = Counted(monkeypatch)
    assert_same(run(**kept, resume=True), whole)
    assert total <= before.made + after.made < total + 2 * 7


@pytest.mark.slow
@pytest.mark.usefixtures("default_handler")
def test_the_number_of_draws_is_not_changed_by_an_interruption(tmp_path, monkeypatch):
    """It is predicted by the draws so far, at moments that do not depend on interruptions."""
    problem, kept = eight_schools(), {"checkpoint": tmp_path / "run"}
    how = {"network": st.Network.path(8), "chains": None, "draws": 500, "seed": 3}
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        expected = run(problem, **how)
    assert expected.posterior.sizes["draw"] > max(FEWEST_DRAWS, 4 * 500 / 128)
    with monkeypatch.context() as patch:
        Counted(patch, counted.made - 30, press_ctrl_c)
        with pytest.warns(InterruptedWarning):
            run(problem, **how, **kept)
    assert_same(run(problem, **how, **kept, resume=True), expected)


def test_a_finished_run_goes_on_to_more_draws_and_is_cut_to_fewer(tmp_path, monkeypatch, whole):
    kept = {"checkpoint": tmp_path / "run", "resume": True}
    run(draws=25, **kept)
    assert_same(run(**kept), whole)
    counted = Counted(monkeypatch)
    assert_same(run(**kept), whole)
    fewer = run(draws=25, **kept)
    assert counted.made == 0
    assert "interrupted" not in fewer.attrs
    np.testing.assert_array_equal(fewer.posterior["beta"], whole.posterior["beta"][:, :25])
    assert_same(run(**kept), whole)


def test_draws_go_to_few_files_and_to_the_output(tmp_path, monkeypatch, whole):
    monkeypatch.setattr("starlings.sampling.by_hmc.DRAWS_PER_FILE", 15)
    folder, files = tmp_path / "run", []
    plain = SummedChains.leapfrogs

    def noted(*arguments):
        files.append(len(list(folder.glob("draws-*"))))
        return plain(*arguments)

    monkeypatch.setattr(SummedChains, "leapfrogs", noted)
    result = run(checkpoint=folder, output=tmp_path / "draws.nc")
    assert max(files) == 2
    assert not folder.exists()
    np.testing.assert_array_equal(result.posterior["beta"], whole.posterior["beta"])
    result.tree.close()


def test_another_run_is_not_resumed(tmp_path):
    kept = {"checkpoint": tmp_path / "run", "resume": True}
    run(draws=2, **kept)
    for other in ({"seed": 1}, {"chains": 4}, {"method": "auto"}):
        with pytest.raises(ValueError, match="holds another run"):
            run(**{"draws": 2, **other}, **kept)


# What a result says


def test_a_result_has_statistics_and_what_was_sent(whole):
    stats, attrs = whole.sample_stats, whole.attrs
    assert attrs["method"] == "hmc"
    assert set(json.loads(attrs["sampler_settings"])) == {"step", "trajectory_length"}
    acceptance = stats["acceptance_rate"].values
    assert acceptance.shape == (CHAINS, DRAWS)
    assert 0.7 < acceptance.mean() < 1
    assert not stats["diverging"].values.any()
    assert attrs["divergent_share"] == attrs["undefined_share"] == 0
    sent = stats["bytes_sent"].isel(chain=0).values
    assert (np.diff(sent, axis=0) >= 0).all()
    agreed = 8 * 2 * 5  # one number, up and down the tree of six agents, before the first draw
    assert sent[-1].sum() + agreed == pytest.approx(attrs["bytes_sent"], abs=6)  # whole bytes
    assert stats["disagreement"].values.max() < 1e-12  # the rounding error of a mean


def test_lp_is_the_log_density_of_the_draws(whole):
    """Up to a constant: the coordinates of the chains have another unit of volume."""
    problem = unequal_poisson_problem()
    beta = whole.posterior["beta"].values[:5, :5, 0].reshape(-1, 3)
    constant = whole.sample_stats["lp"].values[:5, :5].ravel()
    constant = constant + [problem.potential(b) for b in beta]
    np.testing.assert_allclose(constant, constant[0], atol=1e-9)


@pytest.mark.slow
def test_superchains_are_recorded_where_there_are_any(whole):
    assert "superchains" not in whole.attrs
    grouped = run(chains=32, draws=2)
    assert json.loads(grouped.attrs["superchains"]) == np.repeat(np.arange(16), 2).tolist()


@pytest.mark.slow
def test_progress_is_shown(capsys):
    run(chains=None, draws=10, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("lock-step HMC; 40 effective draws")
    begun = [line for line in lines if line.startswith(("warm-up of HMC", "sampling by HMC"))]
    assert begun[0] == "warm-up of HMC: 95 trajectories"
    assert begun[1].startswith("warm-up of HMC: 95 of 95 trajectories in ")
    assert begun[2] == "sampling by HMC: 16 draws of each chain"
    assert begun[3].startswith("sampling by HMC: 16 of 16 draws of each chain in ")


@pytest.mark.slow
def test_seeds_are_independent_runs(whole):
    again, other = run(), run(seed=1)
    assert_same(again, whole)
    assert not np.isin(other.posterior["beta"], whole.posterior["beta"]).any()


def test_float32_is_the_same_run_rounded(whole):
    """Sums and chains have 64 bits in any case; only what is recorded is shorter."""
    short, long = run(precision="float32").posterior["beta"], whole.posterior["beta"]
    apart, scale = np.abs(short - long).max(), 10 * np.abs(long).max()  # of standard deviations
    assert 0 < apart < scale * np.finfo(np.float32).eps


# Networks


@pytest.mark.slow
@pytest.mark.parametrize("agents", quick_cases([1, 2], [1]))
def test_one_agent_and_two(tmp_path, monkeypatch, agents):
    """Also a single agent, which sends nothing, saves its run as often as it is asked to."""
    hessians = [np.diag([1.0, 4.0]) / agents] * agents
    problem, network = st.models.gaussian(hessians), st.Network.path(agents)
    expected = run(problem, network)
    assert (expected.attrs["bytes_sent"] == 0) == (agents == 1)
    with monkeypatch.context() as patch:
        total, others = Counted(patch), calls_of(patch, (Gossip, "_at_all"), (SummedChains, "at"))
        run(problem, network)
    limits = 2  # rounds in which two sites agree on them
    rounds = limits + len(others) + total.made  # every sum, flood and leapfrog takes one round
    assert expected.attrs["network_rounds"] == (0 if agents == 1 else rounds)
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 5}
    with monkeypatch.context() as patch:
        Counted(patch, total.made // 2, press_ctrl_c_twice)
        with pytest.raises(KeyboardInterrupt):
            run(problem, network, **kept)
    after = Counted(monkeypatch)
    assert_same(run(problem, network, **kept, resume=True), expected)
    assert after.made <= total.made // 2 + 10


def test_any_graph_gives_nearly_the_same_draws(whole):
    """Sums differ in rounding only."""
    other = run(network=st.Network.complete(6))
    np.testing.assert_allclose(other.posterior["beta"], whole.posterior["beta"], atol=1e-8)
    assert other.attrs["network_rounds"] < whole.attrs["network_rounds"]


MPI_CASES = {
    "a regression": "unequal_poisson_problem(), st.Network.path(6)",
    "no mode": "unbounded_problem(), st.Network.path(4)",
    "an abrupt end": "abrupt_problem(), st.Network.path(3)",
}
"""Problems and networks of the next test."""


@pytest.mark.slow
@needs_mpi
def test_two_processes_have_the_same_draws():
    """One problem after another in one job, since a job takes seconds to start.

    All have 128 chains: with fewer, a warm-up is so long that rounding errors grow to 1e-8.
    """
    program = f"""
import numpy as np
import starlings as st
from starlings.runtime.mpi.cluster import Cluster
from tests.methods_hmc.test_hmc_runs import abrupt_problem, run, unbounded_problem
from tests.mpi import placed
from tests.problems import unequal_poisson_problem
cases = [{", ".join(f"({case})" for case in MPI_CASES.values())}]
with Cluster() as cluster:
    for problem, network in cases:
        part, shared = placed(cluster, problem, network)
        assert 0 < len(part.shards) < network.size
        found = run(part, shared, chains=128, draws=5)
        assert (found is not None) == cluster.is_first
        if found is not None:
            alone = run(problem, network, chains=128, draws=5)
            for name, values in found.posterior.items():
                np.testing.assert_allclose(values, alone.posterior[name], rtol=0, atol=1e-8)
            for name in ("network_rounds", "bytes_sent", "divergent_share"):
                assert found.attrs[name] == alone.attrs[name], name
        print("the same")
"""
    done = mpi(2, "-c", program)
    assert done.stdout.count("the same") == 2 * len(MPI_CASES), done.stderr


# Starts


def abrupt_problem():
    """N(1, 1) above zero at three sites, of which one is not defined below it."""
    return st.Problem(half_line, flat, {"x": ()}, [{"share": [s]} for s in (0.2, 0.3, 0.5)])


def far_line(p, row):
    """N(60, 1) above 50, and undefined below it."""
    return 0 * jnp.sqrt(p["x"] - 50) - 0.5 * row["share"] * (p["x"] - 60) ** 2


def far_problem():
    return st.Problem(far_line, flat, {"x": ()}, [{"share": [0.5]}, {"share": [0.5]}])


@pytest.mark.slow
def test_starts_that_are_not_finite_are_left_out():
    """About half of the points around zero are outside of the support."""
    result = run(abrupt_problem(), st.Network.path(3))
    assert (result.posterior["x"].values > 0).all()
    assert 0 < result.attrs["undefined_share"] < 1


def test_a_posterior_that_no_start_finds_is_refused_with_a_remedy():
    with pytest.raises(TuningError, match=r"any of 128 points .* sites '0', '1' give NaN"):
        run(far_problem(), st.Network.path(2))


@pytest.mark.slow
@pytest.mark.parametrize("initial", [{"x": 58.0}, np.full((CHAINS, 1, 1), 58.0)])
def test_initial_values_say_where_it_is(initial):
    result = run(far_problem(), st.Network.path(2), initial=initial)
    draws = result.posterior["x"].values
    assert abs(draws.mean() - 60) < 0.5
    assert draws.std() == pytest.approx(1, abs=0.3)


@pytest.mark.slow
def test_initial_values_move_the_starts_where_there_is_no_mode():
    problem, network = unbounded_problem(), st.Network.path(4)
    plain, moved = run(problem, network), run(problem, network, initial={"x": np.ones(8), "y": 0.3})
    assert not np.isin(moved.posterior["y"], plain.posterior["y"]).any()
    for result in (plain, moved):
        assert abs(result.posterior["y"].values.mean()) < 0.3


@pytest.mark.slow
def test_a_run_that_ends_before_its_number_of_draws_says_so(monkeypatch):
    """Here after one attempt; and a run that has them says how many."""
    enough = run(chains=None, draws=100)
    assert enough.attrs["effective_draws"] >= enough.attrs["wanted_draws"] == 400
    assert "Fewer than asked for" not in str(enough.check())
    monkeypatch.setattr("starlings.sampling.by_hmc.LONGEST", 1)
    how = {"network": st.Network.path(8), "chains": None, "draws": 700}
    with pytest.warns(PosteriorWarning, match=r"Fewer than asked for: .* where 2,800 were asked"):
        short = run(eight_schools(), **how, check=True)
    assert 0 < short.attrs["effective_draws"] < short.attrs["wanted_draws"] == 2800
    assert "effective_draws" not in run(draws=2).attrs  # nobody asked for a number of them

"""A run that is interrupted and resumed ends with the draws of one that was not."""

from __future__ import annotations

import io
import json

import jax
import numpy as np
import pytest

import starlings as st
from starlings.errors import CheckpointError, CheckpointWarning
from starlings.problem.shards import digest
from starlings.runtime import chunks, loop
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.chunks import next_chunk
from starlings.runtime.recording import Record, Recording, Schedule
from starlings.system.files import append_checksum
from starlings.tuning import tune
from tests.problems import unequal_linear_problem
from tests.quick import quick_cases

NETWORK = st.Network.ring(6)
LENGTHS = {"draws": 60, "burn_in": 35, "thin": 3, "chains": 2, "seed": 4, "progress": False}
SAMPLERS = {
    "dadmms": st.DADMMS(rho=2.0),
    "dsghmc": st.DSGHMC(step_size=0.01, friction=7.0, batch_size=1),
    "midpoint": st.MidpointADMMS(rho=2.0),
    "metropolis": st.Metropolis.on(NETWORK, 0.3, "sum"),
    "tuned": None,
    "one chain": st.DADMMS(rho=2.0),
}


class LostError(RuntimeError):
    pass


def lose_after(monkeypatch, most: int) -> None:
    """End the run by an error after so many chunks of a few rounds."""
    advance, done = loop.advance, []

    def lossy(*arguments, **options):
        done.append(1)
        if len(done) > most:
            raise LostError
        return advance(*arguments, **options)

    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr(loop, "advance", lossy)


@pytest.mark.parametrize("name", quick_cases(SAMPLERS, ["one chain"]))
@pytest.mark.parametrize("most", [3, 40])
def test_a_resumed_run_has_the_same_draws(tmp_path, monkeypatch, name, most):
    problem, sampler = unequal_linear_problem(), SAMPLERS[name]
    chains = 1 if name == "one chain" else LENGTHS["chains"]
    settings = {**LENGTHS, "check": False, "chains": chains}
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 10, **settings}
    if name == "tuned":  # whose pilots are not to be interrupted
        st.sample(problem, NETWORK, sampler, **{**kept, "draws": 1})
        kept["resume"] = True
    with monkeypatch.context() as during:
        lose_after(during, most)
        with pytest.raises(LostError):
            st.sample(problem, NETWORK, sampler, **kept)
    assert list((tmp_path / "run").glob("state-*.npz"))
    resumed = st.sample(problem, NETWORK, sampler, **{**kept, "resume": True})
    whole = st.sample(problem, NETWORK, sampler, **settings)
    for group in ("posterior", "sample_stats"):
        assert resumed.tree[group].to_dataset().identical(whole.tree[group].to_dataset())


@pytest.mark.slow
def test_a_finished_run_can_be_prolonged(tmp_path, monkeypatch):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run", "resume": True}
    st.sample(problem, NETWORK, sampler, **{**LENGTHS, "draws": 25}, **kept)
    longer = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    whole = st.sample(problem, NETWORK, sampler, **LENGTHS)
    np.testing.assert_array_equal(longer.posterior["beta"], whole.posterior["beta"])

    def never(*_, **__):
        raise AssertionError("all draws are there")

    monkeypatch.setattr(loop, "advance", never)
    again = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    np.testing.assert_array_equal(again.posterior["beta"], whole.posterior["beta"])


def test_draws_go_to_a_file_slab_by_slab(tmp_path, monkeypatch):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    monkeypatch.setattr("starlings.results.gather.SLAB_BYTES", 7 * 2 * 6 * 3 * 8)  # seven draws
    target = tmp_path / "draws.nc"
    kept = {"output": target, "checkpoint": tmp_path / "run"}
    opened = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    whole = st.sample(problem, NETWORK, sampler, **LENGTHS)
    for group in ("posterior", "sample_stats"):
        wanted = whole.tree[group].to_dataset()
        assert st.load(target).tree[group].to_dataset().identical(wanted)
        assert opened.tree[group].to_dataset().equals(wanted)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::starlings.errors.InterruptedWarning")
def test_an_interrupted_run_keeps_its_folder_also_where_it_wrote_a_file(tmp_path, monkeypatch):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 10}
    output = {"output": tmp_path / "draws.nc"}
    advance, calls = loop.advance, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) > 40:
            raise KeyboardInterrupt
        return advance(*arguments, **options)

    with monkeypatch.context() as during:
        during.setattr(chunks, "CHUNK_SECONDS", 1e-9)
        during.setattr(loop, "advance", interrupted)
        part = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept, **output)
    assert 0 < part.posterior.sizes["draw"] < LENGTHS["draws"]
    part.tree.close()
    assert (tmp_path / "run").is_dir()
    resumed = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept, resume=True)
    whole = st.sample(problem, NETWORK, sampler, **LENGTHS)
    np.testing.assert_array_equal(resumed.posterior["beta"], whole.posterior["beta"])


def test_states_of_another_version_are_refused(tmp_path):
    problem, kept = unequal_linear_problem(), {"checkpoint": tmp_path / "run"}
    st.sample(problem, NETWORK, SAMPLERS["dadmms"], **LENGTHS, **kept)
    for file in (tmp_path / "run").glob("state-*.npz"):
        with np.load(file) as arrays:
            fewer = {name: arrays[name] for name in arrays.files if name != "leaf_1"}
        np.savez(file, **fewer)
        append_checksum(file)
    with pytest.raises(CheckpointError, match="of another version"):
        st.sample(problem, NETWORK, SAMPLERS["dadmms"], **LENGTHS, **kept, resume=True)


def test_another_run_is_refused(tmp_path):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run"}
    st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    with pytest.raises(CheckpointError, match="holds a run; resume it"):
        st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    other = {**LENGTHS, "seed": 5}
    with pytest.raises(CheckpointError, match="another run: its `seed` is 4, not 5"):
        st.sample(problem, NETWORK, sampler, **other, **kept, resume=True)
    with pytest.raises(CheckpointError, match="the rows of site '0', or the model"):
        st.sample(unequal_linear_problem(8), NETWORK, sampler, **LENGTHS, **kept, resume=True)
    with pytest.raises(CheckpointError, match="its `initial` is None, not"):
        st.sample(problem, NETWORK, sampler, **LENGTHS, **kept, resume=True, initial=np.zeros(3))
    shards = {site: (rows["x"], rows["y"]) for site, rows in problem.shards.items()}
    X, y = (np.concatenate(columns) for columns in zip(*shards.values(), strict=True))
    sites = np.repeat(list(shards), [len(y) for _, y in shards.values()])
    narrower = st.models.linear_regression(
        X, y, sites, noise_std=1.0, prior_std=0.1**0.5, intercept=False
    )
    with pytest.raises(CheckpointError, match="or the model, are not those of"):
        st.sample(narrower, NETWORK, sampler, **LENGTHS, **kept, resume=True)
    with pytest.raises(ValueError, match="`checkpoint_every` must be"):
        st.sample(problem, NETWORK, sampler, **LENGTHS, checkpoint=tmp_path, checkpoint_every=0)


def test_what_only_some_processes_saved_does_not_count(tmp_path):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 30}
    whole = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    last = max((tmp_path / "run").glob("state-*.npz"))
    last.rename(last.with_name(last.name.replace("0-of-1", "0-of-2")))  # and 1-of-2 never came
    resumed = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept, resume=True)
    np.testing.assert_array_equal(resumed.posterior["beta"], whole.posterior["beta"])


def test_missing_draws_are_named(tmp_path):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 30}
    st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    next((tmp_path / "run").glob("draws-000000000010-*.npz")).unlink()
    with pytest.raises(CheckpointError, match="draws 10 to 20 are not in"):
        st.sample(problem, NETWORK, sampler, **LENGTHS, **kept, resume=True)


def test_missing_last_draws_are_named(tmp_path):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 30}
    whole = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    next((tmp_path / "run").glob("draws-000000000050-000000000060-*.npz")).unlink()
    with pytest.warns(CheckpointWarning, match="draws from 50 on are not in .* goes on from round"):
        again = st.sample(problem, NETWORK, sampler, **LENGTHS, **kept, resume=True)
    np.testing.assert_array_equal(again.posterior["beta"], whole.posterior["beta"])


def test_tuning_survives_json():
    problem = unequal_linear_problem()
    tuning = tune(problem, NETWORK)
    shared, own = tuning.parts()
    again = type(tuning).from_parts(json.loads(json.dumps(shared)), own)
    assert again.record() == tuning.record()
    assert again.sampler == tuning.sampler
    np.testing.assert_array_equal(again.tilt_curvature, tuning.tilt_curvature)


@pytest.mark.parametrize("every", [None, 1, 7, 10, 1000])
@pytest.mark.parametrize("rounds", [1, 8, 100])
def test_chunks_make_the_whole_schedule_and_meet_every_checkpoint(every, rounds):
    schedule = Schedule(draws=23, burn_in=31, thin=4)
    done, draws, checkpoints = 0, 0, []
    while draws < schedule.draws:
        chunk = next_chunk(schedule, done, rounds, capacity=5, every=every)
        assert chunk.rounds <= max(rounds, schedule.thin)
        assert chunk.draws <= 5
        done, draws = done + chunk.rounds, draws + chunk.is_recorded * chunk.draws
        if chunk.is_checkpoint:
            checkpoints.append(done)
    assert done == schedule.num_rounds
    others = []
    done = draws = 0
    while draws < schedule.draws:
        chunk = next_chunk(schedule, done, 3, capacity=2, every=every)
        done, draws = done + chunk.rounds, draws + chunk.is_recorded * chunk.draws
        others += [done] if chunk.is_checkpoint else []
    assert others == checkpoints  # whatever the pace of a process
    burnt = range(every or 31, 31, every or 31)
    draws_between = 23 if every is None else -(-every // 4)
    drawn = [31 + 4 * draws for draws in range(draws_between, 23, draws_between)]
    assert checkpoints == [*burnt, 31, *drawn, 123]


def test_a_checkpoint_is_whole_or_not_there(tmp_path, monkeypatch):
    problem, sampler = unequal_linear_problem(), SAMPLERS["dadmms"]
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 30}

    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space left"):
        st.sample(problem, NETWORK, sampler, **LENGTHS, **kept)
    assert not list((tmp_path / "run").glob("*.npz"))
    assert not list((tmp_path / "run").glob("*.partial"))


class Placed:
    """One of two processes, whose barriers nobody waits at."""

    size, incoming, outgoing, said = 2, np.arange(0), np.arange(0), None

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def barrier(self) -> None:
        pass

    def broadcast(self, value):
        """What the first process says, which is asked for first here."""
        if self.rank == 0:
            Placed.said = value
        return Placed.said


def carry_at(round: int, agents: int) -> loop.Carry:
    states = (np.full((1, agents, 2), round, np.float32),)
    return loop.Carry(states, np.array(round, np.int32), np.zeros((1, agents), np.int32))


def test_a_moment_that_one_process_missed_is_forgotten_by_all(tmp_path):
    """Twice the job is lost in the midst of checkpoint 100, by one process and then the other."""
    held = (np.array([0, 2, 3]), np.array([1, 4, 5]))
    kept = [
        Checkpoint(tmp_path, 10, NETWORK.distributed(some, Placed(rank)), np.zeros((3, 1)))
        for rank, some in enumerate(held)
    ]
    four = Record(np.zeros((4, 1, 3, 2)), np.zeros((4, 1, 3)))
    for each in kept:
        each.save(carry_at(90, 3), Recording())
    state = next(tmp_path.glob("state-*90-1-of-2.npz"))
    whole = state.read_bytes()
    kept[0].save(carry_at(100, 3), Recording([four], kept[0]))
    for _ in range(2):
        state.write_bytes(whole)
        other = state.with_name(state.name.replace("1-of-2", "0-of-2"))
        other.write_bytes(_with_agents(whole, held[0]))
        append_checksum(other)
        for each in kept:
            found, draws = each.restored(carry_at(0, 3))
            assert int(found.round) == 90
            assert draws.count == 0
        assert not list(tmp_path.glob("*100*"))
        kept[1].save(carry_at(100, 3), Recording([four], kept[1]))


def numbered_carry(round: int, agents: np.ndarray) -> loop.Carry:
    """Two leaves and a divergence that tell the round and the agent."""
    by_agent = 1000.0 * round + np.asarray(agents, float)
    states = (by_agent[None, :, None] + np.zeros((2, 1, 3)), -by_agent[None] * np.ones((2, 1)))
    divergence = np.full((2, len(agents)), round, np.int32) + np.asarray(agents, np.int32)
    return loop.Carry(states, np.array(round, np.int32), divergence)


def numbered_draws(first: int, last: int, agents: np.ndarray) -> Record:
    """Draws whose positions and residuals tell draw and agent."""
    numbers = 1000.0 * np.arange(first, last)[:, None, None] + np.asarray(agents)
    by_chain = np.repeat(numbers, 2, axis=1)
    return Record(by_chain[..., None].repeat(3, axis=-1), -by_chain)


def test_any_division_of_the_agents_goes_on_from_any_other(tmp_path):
    """Saved by two processes, whose agents take turns, and by one; restored by others."""
    every = np.arange(6)
    for rank, held in enumerate((np.array([0, 2, 5]), np.array([1, 3, 4]))):
        network = NETWORK.distributed(held, Placed(rank))
        kept = Checkpoint(tmp_path, 10, network, held[:, None] + 1.0)
        recording = Recording(store=kept)
        recording.add(numbered_draws(0, 4, held), 4)
        kept.save(numbered_carry(20, held), recording)
    for held in (every, np.array([3]), np.array([0, 4, 5])):
        network = NETWORK if len(held) == 6 else NETWORK.distributed(held, Placed(0))
        kept = Checkpoint(tmp_path, 10, network, held[:, None] + 1.0)
        start = jax.tree.map(jax.numpy.asarray, numbered_carry(0, held))
        carry, recording = kept.restored(start)
        wanted, draws = numbered_carry(20, held), numbered_draws(0, 4, held)
        for found, known in zip(jax.tree.leaves(carry), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(found, known)
        for found, known in zip(recording.joined(), draws, strict=True):
            np.testing.assert_array_equal(found, known)


def test_the_newest_moment_is_gone_on_from(tmp_path):
    """The one before it is kept besides, in case that the newest is damaged."""
    every = np.arange(6)
    kept = Checkpoint(tmp_path, 10, NETWORK, np.ones((6, 1)))
    recording = Recording(store=kept)
    for round, (first, last) in {20: (0, 4), 30: (4, 7), 40: (7, 9)}.items():
        recording.add(numbered_draws(first, last, every), last - first)
        kept.save(numbered_carry(round, every), recording)
    states = sorted(file.name for file in tmp_path.glob("state-*.npz"))
    assert states == [f"state-{round:012d}-0-of-1.npz" for round in (30, 40)]
    again = Checkpoint(tmp_path, 10, NETWORK, np.ones((6, 1)))
    start = jax.tree.map(jax.numpy.asarray, numbered_carry(0, every))
    carry, found = again.restored(start)
    assert int(carry.round) == 40
    np.testing.assert_array_equal(found.joined().position, numbered_draws(0, 9, every).position)


def test_a_digest_tells_names_shapes_types_and_values_apart():
    rows = {"x": np.arange(4.0), "y": np.ones(4)}
    others = [
        {"x": rows["x"], "z": rows["y"]},
        {"x": rows["y"], "y": rows["x"]},
        {"x": rows["x"].reshape(2, 2), "y": rows["y"]},
        {"x": rows["x"].view(np.int64), "y": rows["y"]},
        {"x": rows["x"] + [0, 0, 0, 1e-12], "y": rows["y"]},
        {"x": rows["x"]},
    ]
    assert len({digest(rows), *map(digest, others)}) == 1 + len(others)
    same = {"y": np.ones(4), "x": np.arange(8.0)[:4]}
    assert digest(same) == digest(rows)


def _with_agents(content: bytes, agents: np.ndarray) -> bytes:
    arrays = dict(np.load(io.BytesIO(content)))
    stream = io.BytesIO()
    np.savez(stream, **{**arrays, "agents": agents})
    return stream.getvalue()


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def keep(self, first: int, record: Record) -> None:
        assert first == sum(len(each.position) for each in self.records)
        self.records.append(record)

    def pieces(self, count: int):
        return iter(self.records)


@pytest.mark.parametrize("room", [1, 4, 7, 100])
@pytest.mark.parametrize("most", [5, 23, 40])
def test_a_recording_is_the_same_with_a_store(room, most):
    position = np.random.default_rng(0).normal(size=(23, 2, 3, 4))
    store = Kept()
    recording = Recording(store=store, room=room)
    for first in range(0, 23, 3):
        chunk = position[first : first + 3]
        recording.add(Record(chunk, chunk[..., 0]), len(chunk))
        assert sum(len(part.position) for part in recording.parts) < max(room, 2)
    assert len(store.records) == {1: 8, 4: 4, 7: 2, 100: 0}[room]
    recording, wanted = recording.cut(most), position[:most]
    assert recording.count == len(wanted)
    np.testing.assert_array_equal(recording.joined().position, wanted)
    for size in (1, 4, 23, 50):
        slabs = list(recording.slabs(size))
        assert {len(slab.position) for slab in slabs[:-1]} <= {size}
        np.testing.assert_array_equal(np.concatenate([s.residual for s in slabs]), wanted[..., 0])
    for examined in (4, 10, 1000):
        step = -(-2 * len(wanted) // examined)
        np.testing.assert_array_equal(recording.thinned(examined), wanted[::step])

"""What is kept of a run: which rounds make which draws, and parts of the draws."""

from __future__ import annotations

import numpy as np
import pytest

from starlings.runtime.recording import Record, Recording, Schedule

CHAINS, AGENTS, DIM = 2, 3, 1


def recording_of(*lengths):
    """Parts of these lengths whose draw k has all positions k and all residuals -k."""
    recording, ends = Recording(), np.cumsum(lengths)
    for length, end in zip(lengths, ends, strict=True):
        numbers = np.arange(end - length, end + 2.0)  # with room to spare, as chunks have
        position = np.tile(numbers[:, None, None, None], (1, CHAINS, AGENTS, DIM))
        recording.add(Record(position, -position[..., 0]), length)
    return recording


def numbers(positions):
    """The draws by number."""
    assert positions.shape[1:] == (CHAINS, AGENTS, DIM)
    assert np.all(positions == positions[:, :1, :1])
    return positions[:, 0, 0, 0].tolist()


def test_chunks_are_joined_without_the_room_to_spare():
    recording = recording_of(3, 1, 4)
    record = recording.joined()
    assert recording.count == 8
    assert numbers(record.position) == list(range(8))
    np.testing.assert_array_equal(record.residual, -record.position[..., 0])


@pytest.mark.parametrize("size", range(1, 10))
def test_slabs_of_any_size(size):
    slabs = [numbers(slab.position) for slab in recording_of(3, 1, 4).slabs(size)]
    assert slabs == [list(range(first, min(first + size, 8))) for first in range(0, 8, size)]


@pytest.mark.parametrize(("most", "step"), [(1, 16), (2, 8), (5, 4), (8, 2), (15, 2), (16, 1)])
def test_thinned_draws_are_the_first_and_every_so_many_th(most, step):
    """The recording has 8 draws of each of 2 chains."""
    assert numbers(recording_of(3, 1, 4).thinned(most)) == list(range(0, 8, step))


@pytest.mark.parametrize("draws", [1, 3, 5, 8, 20])
def test_the_first_draws_are_what_a_cut_leaves(draws):
    cut = recording_of(3, 1, 4).cut(draws)
    assert numbers(cut.joined().position) == list(range(min(draws, 8)))


def test_draws_are_thin_rounds_apart_after_the_burn_in():
    schedule = Schedule(draws=4, burn_in=10, thin=3)
    assert schedule.round_of(np.arange(4)).tolist() == [13, 16, 19, 22]
    assert schedule.num_rounds == 22

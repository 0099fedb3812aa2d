"""What the hub of a job sees: totals, and nothing of a single site. Without masks: everything."""

from __future__ import annotations

import functools
import itertools
import json

import numpy as np
import pytest
from scipy import stats

from starlings.privacy.fixed_point import LIMBS, Words, decoded
from starlings.results.disclosed import disclosed
from starlings.runtime.hub.messages import STAMP, Kind, array_of
from starlings.runtime.peers import values
from tests.engines.certificates import identity
from tests.engines.studies import SITES, Programs, check_draws, study


def added(programs: Programs) -> list[np.ndarray]:
    """What the hub adds of all sites, by call, (site, numbers)."""
    every = [np.stack([array_of(one[STAMP.size :]) for one in call]) for call in calls(programs, 1)]
    return [sent for sent in every if sent[1:].any()]


def flooded(programs: Programs) -> list[np.ndarray]:
    """What the first site tells the others of totals, while they send zeros, by call."""
    every = [np.stack([array_of(one[STAMP.size :]) for one in call]) for call in calls(programs, 1)]
    return [sent[0] for sent in every if not sent[1:].any()]


def calls(programs: Programs, kind: int) -> list[list[bytes]]:
    return [call for call in programs.seen if STAMP.unpack_from(call[0])[0] == kind]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """A masked run, and its results."""
    folder = tmp_path_factory.mktemp("masked")
    identities = {site: identity(site) for site in SITES}
    programs = Programs.of_study(study(folder), folder / "results", identities=identities)
    return programs, programs.run(), folder


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    """The same run without masks."""
    folder = tmp_path_factory.mktemp("clear")
    programs = Programs.of_study(study(folder, 'privacy = "none"\n'), folder / "results")
    programs.run()
    return programs


def test_draws_are_those_of_one_process(masked):
    _, results, folder = masked
    check_draws(folder / "trial.toml", results, privacy="totals")
    assert results["Ashby"].attrs["method"] == "weights"
    assert json.loads(results["Ashby"].attrs["data_of"]) == list(SITES)
    # all sites have the same bits: what they know of others are the same integers
    draws = {result.posterior["beta"].values.tobytes() for result in results.values()}
    assert len(draws) == 1


def test_a_result_says_what_whoever_runs_the_hub_can_read(masked, clear):
    _, results, _ = masked
    table = results["Ashby"].disclosed().set_index("kind")["readable by"]
    hidden = "nobody by itself; all sites, and whoever runs the hub: the total of all"
    assert table["potentials at shared candidates"] == hidden
    assert table["public key for masks"] == "everybody"
    attrs = results["Ashby"].attrs | {"privacy": "none"}
    shown = disclosed(attrs, ["Ashby"]).set_index("kind")["readable by"]
    wanted = "whoever runs the hub; all sites: what it forwards to them"
    assert shown["potentials at shared candidates"] == wanted


def test_totals_are_those_of_the_run_without_masks(masked, clear):
    """The hub, like everybody, can read totals."""
    totals = [
        decoded(Words.from_limbs(sent.sum(axis=0).reshape(-1, LIMBS)))[:-1]
        for sent in added(masked[0])
    ]
    wanted = [sent.sum(axis=0) for sent in added(clear)]
    assert len(totals) == len(wanted) > 3
    for total, want in zip(totals, wanted, strict=True):
        np.testing.assert_allclose(total, want, rtol=1e-9, atol=1e-9)


def test_masked_totals_have_the_same_bits_in_any_order(masked):
    for sent in added(masked[0]):
        for order in itertools.permutations(sent):
            assert functools.reduce(np.add, order).tobytes() == sent.sum(axis=0).tobytes()


def test_what_the_first_site_tells_the_others_follows_from_totals(masked, clear):
    """The scale of the posterior: the same with and without masks, and the hub can work it out."""
    assert len(flooded(masked[0])) == len(flooded(clear)) == 1
    np.testing.assert_allclose(flooded(masked[0])[0], flooded(clear)[0], rtol=1e-9, atol=1e-9)


def test_numbers_of_a_site_are_in_the_view_without_masks_only(masked, clear):
    """A number of a site, as the fixed-point integer that it is, never passes in the clear."""
    own = np.unique(np.concatenate([sent.ravel() for sent in added(clear)]).round(9))
    seen = [
        decoded(Words.from_limbs(part.reshape(-1, LIMBS)))
        for sent in added(masked[0])
        for part in sent
    ]
    assert not np.isin(np.concatenate(seen).round(9), own[own != 0]).any()


@pytest.mark.parametrize("coalition", [[0], [1], [2], [0, 1], [0, 2], [1, 2]])
def test_messages_of_less_than_all_sites_are_uniform_integers(masked, coalition):
    """The hub and what it adds up of one or two sites: random limbs, whatever their numbers are."""
    words = np.concatenate([sent[coalition].sum(axis=0) for sent in added(masked[0])])
    limbs = words.astype(np.uint64) % 2**32
    assert len(limbs) > 1000
    assert stats.kstest(limbs / 2**32, "uniform").pvalue > 1e-4
    if len(coalition) == 1:  # each bit of each limb: sums of two have carries in them
        bits = (limbs[:, None] >> np.arange(32, dtype=np.uint64)) & 1
        assert (np.abs(bits.mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(len(limbs))).all()


def test_what_else_passes_is_keys_counts_and_nothing_of_rows(masked):
    """Besides sums the hub forwards statements with keys, and small whole numbers."""
    programs, _, _ = masked
    assert not calls(programs, Kind.FORWARD)  # no message of a site to another one
    contents = [one[STAMP.size :] for call in calls(programs, Kind.EVERYBODY) for one in call]
    found = [values.decoded(content) for content in contents if content]
    statements = [each for each in found if isinstance(each, tuple)]
    assert [[type(part) for part in each] for each in statements] == 3 * [4 * [bytes]]
    others = [each for each in found if not isinstance(each, tuple)]
    assert all(each is None or type(each) in (bool, int) for each in others), others


def test_no_mask_is_used_twice(masked):
    """Two messages of a site differ in all limbs, and so do those of a run that begins anew."""
    programs, _, folder = masked
    again = Programs(programs.job, programs.rows, folder / "anew", programs.identities)
    again.run()
    for site in range(len(SITES)):
        limbs = np.concatenate(
            [sent[site] for sent in added(programs)] + [sent[site] for sent in added(again)]
        )
        assert len(np.unique(limbs)) > 0.99 * len(limbs)


def test_a_run_that_is_repeated_asks_the_hub_nothing_and_changes_no_bit(masked):
    programs, results, folder = masked
    before = {site: result.posterior["beta"].values.copy() for site, result in results.items()}
    again = Programs(programs.job, programs.rows, folder / "results")
    found = again.run()
    assert again.seen == []
    for site, draws in before.items():
        assert found[site].posterior["beta"].values.tobytes() == draws.tobytes()

"""Before anything else all sites agree on who they are, on a seed, and on keys for masks."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import numpy as np
import pytest

import starlings as st
from starlings.errors import SiteError
from starlings.privacy.guard_rails import GuardRails
from starlings.runtime.peers import values
from starlings.sites import agreement, approvals, certificates
from starlings.sites.agreement import agree
from starlings.sites.documents import as_text, now_utc
from starlings.sites.kit import Kit
from starlings.sites.manifest import Manifest
from tests.peers.flock import Flock
from tests.sites.rehearsals import SITES, provisioned

NETWORK = st.Network.path(3).matched_to(SITES)


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    """The kits of three sites, and the approvals that they have signed."""
    folder = tmp_path_factory.mktemp("trial")
    rehearsal = provisioned(folder)
    opened = [Kit.open(rehearsal.kits[site], folder / f"{site}-site") for site in SITES]
    return [(kit, kit.home.approval_path(kit.site).read_bytes()) for kit in opened]


def agreed(kits, folder, **faults):
    """What every site has after agreeing, of sites on a path."""

    def program(communicator):
        kit, approval = kits[communicator.rank]
        network = NETWORK.distributed([communicator.rank], communicator)
        found = agree(kit, approval, network, communicator, GuardRails())
        masks = network.masked(found.secrecy).secrecy.sum_masks(network)
        sent = communicator.sum(masks.masked(np.array([[float(communicator.rank)]])).sum(axis=0))
        return found.seed, masks.opened(sent).tolist()

    folder.mkdir(exist_ok=True)
    return Flock(NETWORK, program, folder, **faults).run()


def test_all_sites_have_one_seed_and_masks_that_cancel(kits, tmp_path):
    first, second = agreed(kits, tmp_path / "one"), agreed(kits, tmp_path / "other")
    assert len({seed for seed, _ in first}) == 1
    assert [total for _, total in first] == [[3.0]] * 3
    assert first[0][0] != second[0][0]  # another run has another seed


def test_a_site_that_is_killed_while_it_agrees_agrees_on_the_same(kits, tmp_path):
    found = agreed(kits, tmp_path, seed=1, kills=3)
    assert len({seed for seed, _ in found}) == 1
    assert [total for _, total in found] == [[3.0]] * 3


def test_a_run_that_began_with_valid_certificates_goes_on_when_they_have_ended(kits, tmp_path):
    later, journal = now_utc() + timedelta(days=200), tmp_path / "0.journal"
    agreed(kits, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for module in (agreement, approvals, certificates):
            patch.setattr(module, "now_utc", lambda: later)
        assert len({seed for seed, _ in agreed(kits, tmp_path)}) == 1
        assert as_text(later).encode() not in journal.read_bytes()
        refused(kits, tmp_path / "new", "the certificate was valid until")


def refused(kits, folder, text):
    with pytest.raises(SiteError, match=text):
        agreed(kits, folder)


def test_an_approval_of_another_site_is_refused(kits, tmp_path):
    (ashby, own), (brook, _), cliff = kits
    refused([(ashby, own), (brook, own), cliff], tmp_path, "'Brook'")


def test_a_site_with_another_manifest_is_refused(kits, tmp_path):
    """Its approval is of the manifest that all have, but what it runs is another one."""
    ashby, (brook, approval), cliff = kits
    content = {**brook.manifest.content, "number": 7}
    other = dataclasses.replace(brook, manifest=Manifest(content, brook.manifest.document))
    refused([ashby, (other, approval), cliff], tmp_path, "of another site or manifest|manifest")


def test_a_statement_that_was_changed_on_the_way_is_refused(kits, tmp_path, monkeypatch):
    """The site in the middle of the path puts in a key of its own for masks."""
    checked = agreement._checked

    def tampered(document, kit, site, *rest):
        if site != "Cliff" or kit.site != "Ashby":
            return checked(document, kit, site, *rest)
        approval, statement = values.decoded(document)
        place = statement.index(b'"mask_key":"') + len(b'"mask_key":"')
        changed = statement[:place] + b"00" * 32 + statement[place + 64 :]
        return checked(values.encoded((approval, changed)), kit, site, *rest)

    monkeypatch.setattr(agreement, "_checked", tampered)
    refused(kits, tmp_path, "the statement of 'Cliff' is not signed by 'Cliff'")


def test_a_machine_that_computes_other_numbers_is_refused(kits, tmp_path, monkeypatch):
    statement = agreement._statement

    def other_numbers(kit, *arguments):
        with monkeypatch.context() as patch:
            if kit.site == "Brook":
                patch.setattr(agreement, "numeric_fingerprint", lambda: "0" * 64)
            return statement(kit, *arguments)

    found = other_numbers(kits[1][0], kits[1][1], b"s" * 32, b"k" * 32)
    with pytest.raises(SiteError, match="'Brook' computes other numbers"):
        agreement._checked(found, kits[0][0], "Brook", now_utc())


def test_a_secret_that_differs_from_the_commitment_is_refused(kits, tmp_path, monkeypatch):
    monkeypatch.setattr(
        agreement,
        "_statement",
        lambda kit, approval, _, *rest: STATEMENT(kit, approval, b"another secret", *rest),
    )
    refused(kits, tmp_path, "did not reveal the secret")


def test_a_key_for_masks_of_which_every_secret_is_zero_is_refused(kits, tmp_path, monkeypatch):
    monkeypatch.setattr(
        agreement,
        "_statement",
        lambda kit, approval, secret, key, *rest: STATEMENT(
            kit, approval, secret, bytes(32) if kit.site == "Cliff" else key, *rest
        ),
    )
    refused(kits, tmp_path, "the statement of 'Cliff' cannot be used: `mask_key` is no key")


STATEMENT = agreement._statement

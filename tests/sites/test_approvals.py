"""Only the approval of this manifest, by this site, with a valid certificate, is one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from starlings.errors import SiteError
from starlings.sites.approvals import make_approval, verify_approval
from starlings.sites.documents import now_utc, sign, split
from starlings.sites.keys import key_hash, new_key
from starlings.sites.kit import Kit
from tests.sites.trials import edit, make_trial, opened


@pytest.fixture
def kit(folder) -> Kit:
    return Kit.open(folder / "kits" / "Ashby.zip")


def verify(approval, kit, site="Ashby", **options):
    return verify_approval(approval, kit.manifest, kit.authority, site, **options)


def refuses(text, approval, kit, **options):
    with pytest.raises(SiteError, match=text):
        verify(approval, kit, **options)


def test_an_approval_is_verified_by_others(kit, folder):
    found = verify(make_approval(kit), Kit.open(folder / "kits" / "Brook.zip"))
    assert found.site == "Ashby"
    assert found.key_hash == key_hash(kit.key.public_key())
    assert abs(found.time - now_utc()) < timedelta(minutes=1)


def test_every_changed_byte_is_noticed(kit):
    approval = make_approval(kit)
    for place in range(0, len(approval), 11):
        changed = bytearray(approval)
        changed[place] ^= 1
        refuses(".", bytes(changed), kit)
    for length in (0, 1, 100, len(approval) - 1):
        refuses(".", approval[:length], kit)
    refuses("not a table and a signature", approval + approval, kit)


def test_an_approval_signed_with_another_key(kit):
    content, _ = split(make_approval(kit), "approval", "it")
    refuses("not signed by 'Ashby'", sign(content, new_key()), kit)


def test_an_approval_by_another_site(kit, folder):
    brook = Kit.open(folder / "kits" / "Brook.zip")
    refuses("that of 'Brook' and not of 'Ashby'", make_approval(brook), kit)
    content, _ = split(make_approval(brook), "approval", "it")
    refuses("that of 'Brook'", sign({**content, "site": "Ashby"}, brook.key), kit)
    content, _ = split(make_approval(kit), "approval", "it")
    refuses("names the site 'Brook'", sign({**content, "site": "Brook"}, kit.key), kit)


def test_an_approval_of_another_manifest(kit, folder):
    old = make_approval(kit)
    edit(folder, "draws = 20", "draws = 21")
    opened(folder).publish()
    refuses("has to approve the newest manifest", old, Kit.open(kit.path))


def test_an_approval_from_another_trial(kit, tmp_path):
    other = make_trial(tmp_path / "other")
    foreign = make_approval(Kit.open(other / "kits" / "Ashby.zip"))
    refuses("not issued to a site by the authority", foreign, kit)


def test_an_approval_with_an_old_or_revoked_certificate(kit):
    approval = make_approval(kit)
    refuses("was valid until", approval, kit, now=now_utc() + timedelta(days=91))
    refuses("was revoked", approval, kit, revoked={kit.certificate.serial_number})
    refuses("is valid from", approval, kit, now=now_utc() - timedelta(days=2))


def test_an_approval_from_the_future(kit):
    later = now_utc() + timedelta(days=30)
    refuses("the future", make_approval(kit, later), kit)


def test_a_kit_that_cannot_be_used_approves_nothing(kit, folder):
    with pytest.raises(SiteError, match="was valid until"):
        make_approval(kit, now_utc() + timedelta(days=91))
    opened(folder).revoke("Ashby")
    with pytest.raises(SiteError, match="was revoked"):
        make_approval(Kit.open(kit.path))


def test_a_site_that_was_left_out_approves_nothing(kit, folder):
    edit(folder, '[sites.Ashby]\ncontact = "it@ashby.example"', "[sites.Elms]")
    opened(folder).publish()
    with pytest.raises(SiteError, match="not among the sites"):
        make_approval(Kit.open(kit.path))

"""From requests to kits, and what changes when a site is added, renewed or revoked."""

from __future__ import annotations

import stat
import sys
import zipfile
from datetime import timedelta

import pytest

from starlings.errors import SiteError
from starlings.sites.authority import Authority
from starlings.sites.certificates import Request
from starlings.sites.documents import now_utc
from starlings.sites.kit import Kit
from starlings.sites.manifest import Manifest
from starlings.sites.revocations import Revocations
from starlings.sites.site_data import SiteData
from tests.sites.trials import PASSPHRASE, SITES, edit, make_request_file, opened, write_rows


def kits(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "kits").glob("*.zip")}


def kit(folder, site="Ashby") -> Kit:
    return Kit.open(folder / "kits" / f"{site}.zip")


def test_a_kit_has_what_a_site_needs(folder):
    found = kit(folder)
    found.check_usable()
    assert (found.site, found.roster.sites) == ("Ashby", list(SITES))
    assert found.roster.neighbours == ["Brook", "Cliff"]
    assert found.roster.relays == ["wss://relay.example.org"]
    assert found.roster.relay_secret == kit(folder, "Brook").roster.relay_secret
    assert len(found.roster.relay_secret) == 32
    assert found.revoked == frozenset()
    assert found.manifest.hash == kit(folder, "Cliff").manifest.hash
    assert repr(found.relay_secret) not in repr(found) + repr(found.roster)


def test_the_study_of_a_kit_has_the_rows_of_its_site(folder):
    found = kit(folder)
    rows = write_rows(folder / "ashby.csv", names="AGE,dose,ill")
    own = folder / "ashby.toml"
    own.write_text('[data]\nfile = "ashby.csv"\n[columns]\nage = "AGE"\n')
    data = SiteData.open(own, "Ashby", list(found.manifest.content["columns"]))
    study = found.study(data)
    problem = study.make_problem(["Ashby"]).part_of(found.manifest.sites)
    assert problem.num_rows.sum() == len(rows.read_text().splitlines()) - 1
    assert study.make_network(found.manifest.sites).names == list(SITES)
    assert study.run_settings() == {"draws": 20, "privacy": "totals"}


def test_no_private_key_and_no_passphrase_is_in_any_kit(folder):
    homes = [folder / f"{site}-site" / "site.key" for site in SITES]
    bodies = [line for home in homes for line in home.read_bytes().splitlines()[1:-1]]
    numbers = [Kit.open(folder / f"kits/{site}.zip").key.private_numbers() for site in SITES]
    secrets = [number.private_value.to_bytes(32, "big") for number in numbers]
    authority = opened(folder).authority
    secrets.append(authority.key.private_numbers().private_value.to_bytes(32, "big"))
    secrets += bodies + [secret.hex().encode() for secret in secrets] + [PASSPHRASE.encode()]
    for path in (folder / "kits").iterdir():
        with_members = [path.read_bytes()]
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                with_members += [archive.read(name) for name in archive.namelist()]
        for data in with_members:
            assert b"PRIVATE KEY" not in data
            assert not any(secret in data for secret in secrets), path


def test_files_of_keys_are_for_their_owner_only(folder):
    for path in [*folder.glob("*-site/*"), *folder.glob("*-authority/*"), *folder.glob("kits/*")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    key = (folder / "trial-authority" / "authority.key").read_bytes()
    assert key.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY")


def test_a_second_time_changes_nothing(folder):
    before = {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    steps = opened(folder)
    requests = steps.read_requests([folder / f"{site}.request" for site in SITES])
    assert steps.issue(requests) == []
    assert before == {path: path.read_bytes() for path in (folder / "kits").iterdir()}


def test_a_kit_is_the_same_bytes_whenever_it_is_packed(folder):
    from starlings.sites import archive
    from starlings.sites.kit import MEMBERS

    path = folder / "kits" / "Ashby.zip"
    assert archive.packed(archive.unpacked(path, MEMBERS)) == path.read_bytes()


def test_adding_a_site_makes_one_kit_and_a_manifest_to_be_approved(folder):
    before, old = kits(folder), kit(folder).manifest
    edit(folder, "[sites.Cliff]", "[sites.Cliff]\n[sites.Downs]")
    steps = opened(folder)
    made = steps.issue(steps.read_requests([make_request_file(folder, "Downs")]))
    assert [path.name for path in made] == ["Downs.zip"]
    after = kits(folder)
    assert {name: after[name] for name in before} == before
    assert (kit(folder).manifest.number, old.number) == (2, 1)
    assert kit(folder).manifest.hash == kit(folder, "Downs").manifest.hash != old.hash
    assert kit(folder).roster.neighbours == ["Brook", "Cliff", "Downs"]


def test_renewing_a_site_makes_its_kit_and_nothing_else(folder):
    before = {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    serial = kit(folder).certificate.serial_number
    later = now_utc() + timedelta(days=60)
    steps = opened(folder, later)
    steps.issue(steps.read_requests([folder / "Ashby.request"]), renew=True)
    after = {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    assert {path.name for path in after if after[path] != before[path]} == {"Ashby.zip"}
    assert kit(folder).certificate.serial_number != serial
    kit(folder).check_usable(later + timedelta(days=80))


def test_revoking_a_site_changes_the_list_and_nothing_else(folder):
    before = {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    assert opened(folder).revoke("Brook").number == 1
    after = {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    assert {path.name for path in after if after[path] != before[path]} == {"revoked.list"}
    brook = kit(folder, "Brook")
    assert kit(folder).revoked == {brook.certificate.serial_number}
    with pytest.raises(SiteError, match="was revoked"):
        brook.check_usable()
    with pytest.raises(SiteError, match="revoked already"):
        opened(folder).revoke("Brook")


def test_an_old_list_or_manifest_does_not_come_back(folder):
    published = folder / "kits" / "revoked.list"
    old = published.read_bytes()
    opened(folder).revoke("Brook")
    kit(folder).install()
    published.write_bytes(old)
    assert kit(folder).revocations.number == 1
    edit(folder, "draws = 20", "draws = 30")
    opened(folder).publish()
    kit(folder).install()
    (folder / "kits" / "trial.manifest").unlink()
    assert kit(folder).manifest.number == 2


def test_two_manifests_with_one_number_are_refused(folder):
    steps = opened(folder)
    content = {**steps.authority.register.manifest, "created": "2020-01-01T00:00:00Z"}
    (folder / "kits" / "trial.manifest").write_bytes(steps.authority.sign(content))
    with pytest.raises(SiteError, match="both the number 1"):
        kit(folder)


def test_a_lost_key_needs_a_revocation_first(folder):
    (folder / "Ashby-site" / "site.key").unlink()
    file = make_request_file(folder, "Ashby")
    steps = opened(folder)
    requests = steps.read_requests([file])
    with pytest.raises(SiteError, match=r"for another key.*--revoke"):
        steps.issue(requests, renew=True)
    steps.revoke("Ashby")
    steps.issue(requests, renew=True)
    kit(folder).check_usable()


def test_wrong_passphrases_and_requests(folder, tmp_path):
    trial = folder / "trial.toml"
    with pytest.raises(SiteError, match="passphrase is wrong"):
        Authority.open(trial, "wrong")
    with pytest.raises(SiteError, match="passphrase is empty"):
        Authority.make(tmp_path / "other.toml", " ")
    with pytest.raises(SiteError, match="has the key of an authority already"):
        Authority.make(trial, PASSPHRASE)
    with pytest.raises(SiteError, match="not one of the sites"):
        opened(folder).read_requests([make_request_file(folder, "Elms")])
    twice = [folder / "Ashby.request"] * 2
    with pytest.raises(SiteError, match="second request"):
        opened(folder).read_requests(twice)


def test_a_request_that_was_changed_is_refused(folder):
    path = folder / "Ashby.request"
    text = path.read_bytes()
    for place in range(30, len(text) - 30, 7):
        changed = bytearray(text)
        changed[place] = ord("A") if changed[place] != ord("A") else ord("B")
        if changed[place] in b"\n" or text[place] in b"\n":
            continue
        with pytest.raises(SiteError, match=r"Ashby\.request"):
            Request.parse(bytes(changed), str(path))


def test_documents_of_one_kind_are_not_taken_for_another(folder):
    steps = opened(folder)
    authority = steps.authority.certificate
    manifest = (folder / "kits" / "trial.manifest").read_bytes()
    revoked = (folder / "kits" / "revoked.list").read_bytes()
    with pytest.raises(SiteError, match="not a document of the kind 'revocations'"):
        Revocations.parse(manifest, authority, "x")
    with pytest.raises(SiteError, match="not a document of the kind 'manifest'"):
        Manifest.parse(revoked, authority, "x")


MINE = "from starlings import DADMMS\n\n\nclass Mine(DADMMS):\n    pass\n"


def test_a_sampler_runs_from_the_file_that_was_signed(folder, monkeypatch):
    (folder / "signed_sampler.py").write_text(MINE)
    edit(folder, "[run]", '[sampler]\nname = "signed_sampler:Mine"\nrho = 2.0\n[run]')
    opened(folder).publish()
    monkeypatch.delitem(sys.modules, "signed_sampler", raising=False)
    (folder / "signed_sampler.py").unlink()
    rows = SiteData(write_rows(folder / "ashby.csv"), "Ashby")
    assert kit(folder).study(rows).make_sampler().rho == 2.0
    monkeypatch.delitem(sys.modules, "signed_sampler")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "signed_sampler.py").write_text(MINE)
    monkeypatch.syspath_prepend(folder / "elsewhere")
    with pytest.raises(ValueError, match="was imported from"):
        kit(folder).study(rows)
    monkeypatch.delitem(sys.modules, "signed_sampler")

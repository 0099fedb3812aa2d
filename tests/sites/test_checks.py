"""Every line of `starlings check`: what passes, what fails, and what it says to do."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest

from starlings.sites import kit_checks, reachability
from starlings.sites.documents import now_utc
from starlings.sites.kit import Kit
from starlings.sites.kit_checks import CHECKS, FAIL, PASS, SKIP, WARN, check_kit
from tests.sites.trials import edit, opened, write_rows


@pytest.fixture(autouse=True)
def _without_own_guard_rails(tmp_path, monkeypatch):
    empty = tmp_path / "guard-rails.toml"
    empty.write_text("")
    monkeypatch.setenv("STARLINGS_GUARD_RAILS", str(empty))


def checked(trial, **options) -> dict[str, tuple[str, str]]:
    options = {"is_offline": True, **options}
    lines = check_kit(trial / "kits" / "Ashby.zip", **options)
    return {line.name: (line.outcome, line.text) for line in lines}


def fails(lines, name: str, text: str) -> None:
    assert [each for each in lines if lines[each][0] == FAIL] == [name], lines
    assert text in lines[name][1]


def republish(folder, **changes) -> None:
    authority = opened(folder).authority
    content = {**authority.register.manifest, "number": 2, **changes}
    (folder / "kits" / "trial.manifest").write_bytes(authority.sign(content))


def test_a_site_that_can_take_part(folder):
    Kit.open("kits/Ashby.zip").install()
    lines = checked(folder, data=write_rows(folder / "ashby.csv"))
    assert list(lines) == list(CHECKS)
    assert {name: outcome for name, (outcome, _) in lines.items() if outcome != PASS} == {
        "relay": SKIP
    }
    assert "age, dose, ill in 40 rows" in lines["columns"][1]
    assert "3 parameters" in lines["guard rails"][1]


def test_without_rows_and_before_the_first_approval(folder):
    lines = checked(folder)
    assert lines["columns"][0] == lines["guard rails"][0] == SKIP
    assert lines["authority"][0] == WARN


def test_a_damaged_or_missing_kit(folder):
    path = folder / "kits" / "Ashby.zip"
    path.write_bytes(path.read_bytes()[:-1])
    fails(checked(folder), "kit", "cut short")
    path.unlink()
    fails(checked(folder), "kit", "there is no file")


def test_a_manifest_without_this_site(folder):
    edges = [["Brook", "Cliff"], ["Brook", "Downs"], ["Cliff", "Downs"]]
    republish(folder, sites={"Brook": "", "Cliff": "", "Downs": ""}, edges=edges)
    fails(checked(folder), "manifest", "not among the sites")


def test_a_manifest_that_was_changed(folder):
    path = folder / "kits" / "trial.manifest"
    path.write_bytes(path.read_bytes().replace(b'"totals"', b'"none"'))
    fails(checked(folder), "kit", "is not signed by the authority")


def test_a_revoked_certificate(folder):
    opened(folder).revoke("Ashby")
    fails(checked(folder), "certificate", "was revoked")


def test_dates(folder):
    assert checked(folder, now=now_utc() + timedelta(days=50))["dates"][0] == WARN
    late = checked(folder, now=now_utc() + timedelta(days=91))
    fails(late, "dates", "was valid until")
    assert "`--renew`" in late["dates"][1]
    early = checked(folder, now=now_utc() - timedelta(days=3))
    assert early["dates"][0] == early["clock"][0] == FAIL
    assert "Set the clock" in early["clock"][1]


def test_a_missing_key(folder):
    (folder / "Ashby-site" / "site.key").unlink()
    lines = checked(folder)
    assert lines["key file"][0] == lines["key"][0] == FAIL
    assert "starlings site request" in lines["key file"][1]


def test_a_key_that_others_can_read(folder):
    (folder / "Ashby-site" / "site.key").chmod(0o644)
    lines = checked(folder)
    assert lines["key file"][0] == lines["key"][0] == FAIL
    assert "chmod 600" in lines["key file"][1]


def test_the_key_of_another_site(folder):
    fails(checked(folder, folder=folder / "Brook-site"), "key", "is not the key for which")


def test_a_key_file_that_is_damaged(folder):
    (folder / "Ashby-site" / "site.key").write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA")
    fails(checked(folder), "key", "cannot be opened")


def test_versions(folder):
    republish(folder, versions={"starlings": "9.9", "Python": "3.11"})
    fails(checked(folder), "version", "pip install 'starlings[peers]==9.9'")
    versions = {**kit_checks.versions(), "JAX": "0.1"}
    republish(folder, versions=versions)
    assert checked(folder)["version"][0] == WARN


def test_a_machine_that_computes_differently(folder):
    republish(folder, numerics="00" * 32)
    fails(checked(folder), "numbers", "computes other numbers")


ROWS = {
    "no column": ({"names": "age,dos,ill"}, "columns", "has no column 'dose'"),
    "few rows": ({"rows": 10}, "guard rails", "fewest_rows"),
}


@pytest.mark.parametrize(("how", "name", "text"), ROWS.values(), ids=ROWS)
def test_rows(folder, how, name, text):
    lines = checked(folder, data=write_rows(folder / "ashby.csv", **how))
    assert lines[name][0] == FAIL
    assert text in lines[name][1]


def test_rows_that_are_no_numbers(folder):
    path = write_rows(folder / "ashby.csv")
    path.write_text(path.read_text() + "old,1,0\n")
    assert "'old' in line 42" in checked(folder, data=path)["columns"][1]
    assert checked(folder, data=folder / "none.csv")["columns"][0] == FAIL
    assert "neither a table" in checked(folder, data=folder / "rows.xlsx")["columns"][1]


def test_the_stricter_guard_rails_count(folder, monkeypatch):
    rows = write_rows(folder / "ashby.csv")
    own = folder / "own.toml"
    monkeypatch.setenv("STARLINGS_GUARD_RAILS", str(own))
    own.write_text("fewest_rows = 41\n")
    fails(checked(folder, data=rows), "guard rails", "has 40 rows and needs 41")
    own.write_text("fewest_rows = 1\n")
    edit(folder, "rounds = 5000", "rounds = 5000\nfewest_rows = 50")
    opened(folder).publish()
    fails(checked(folder, data=rows), "guard rails", "has 40 rows and needs 50")
    own.write_text("most_rounds = 4999\n")
    fails(checked(folder, data=rows), "guard rails", "most_rounds")


def test_relays(folder, monkeypatch):
    for name in reachability.PROXIES:
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        good = f"ws://127.0.0.1:{server.getsockname()[1]}"
        republish(folder, relay=[good])
        assert checked(folder, is_offline=False)["relay"] == (PASS, f"{good} answers")
    fails(checked(folder, is_offline=False), "relay", "does not answer")
    with socket.create_server(("127.0.0.1", 0)) as server:
        bad, good = good, f"ws://127.0.0.1:{server.getsockname()[1]}"
        republish(folder, relay=[bad, good])
        assert checked(folder, is_offline=False)["relay"][0] == WARN
        address = f"127.0.0.1:{server.getsockname()[1]}"
        republish(folder, relay=[], direct={"Brook": address, "Cliff": address})
        assert checked(folder, is_offline=False)["relay"][0] == PASS
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    republish(folder, relay=[good])
    assert checked(folder, is_offline=False)["relay"][0] == SKIP

"""The commands: what they ask, what they print, and with what they exit."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest

from starlings.sites.kit import Kit
from starlings.sites.transcript import Transcript
from tests.sites.trials import SITES, TRIAL, edit, make_request_file, starlings

TWO_WORDS = [("study", "init"), ("site", "request")]


def fails(outcome, text: str, code: int = 1) -> None:
    assert outcome.exit_code == code, outcome.output
    assert text in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", TWO_WORDS)
def test_commands_of_two_words_have_help_that_fits(words):
    outcome = starlings(*words, "-h", COLUMNS="80")
    assert outcome.exit_code == 0
    assert max(map(len, outcome.stdout.splitlines())) <= 80
    assert f"Example: starlings {' '.join(words)}" in outcome.stdout
    assert words[1] in starlings(words[0], "-h").stdout


def test_a_passphrase_is_asked_for_twice_and_not_shown(tmp_path, monkeypatch):
    monkeypatch.delenv("STARLINGS_PASSPHRASE", raising=False)
    trial = tmp_path / "trial.toml"
    trial.write_text(TRIAL)
    outcome = starlings(
        "study",
        "init",
        trial,
        typed="one\ntwo\nfour words\nfour words\n",
        STARLINGS_PASSPHRASE=None,
    )
    assert outcome.exit_code == 0, outcome.output
    assert "do not match" in outcome.output
    assert "four words" not in outcome.output
    assert stat.S_IMODE((tmp_path / "trial-authority/authority.key").stat().st_mode) == 0o600
    request = tmp_path / "Ashby.request"
    assert starlings("site", "request", trial, "--site", "Ashby").exit_code == 0
    wrong = starlings("provision", trial, request, "--yes")
    fails(wrong, "the passphrase is wrong")
    file = tmp_path / "words.txt"
    file.write_text("four words\n")
    assert starlings("provision", trial, request, "--yes", "--passphrase-file", file).exit_code == 0
    assert (tmp_path / "kits" / "Ashby.zip").is_file()


def test_what_init_refuses(folder, tmp_path):
    fails(starlings("study", "init", folder / "trial.toml"), "which is kept")
    trial = tmp_path / "other.toml"
    trial.write_text(TRIAL)
    fails(starlings("study", "init", trial, STARLINGS_PASSPHRASE=""), "passphrase is empty")
    trial.write_text(TRIAL.replace("age =", "aeg ="))
    fails(starlings("study", "init", trial), "other.toml: [columns] 'aeg' is not a column")
    assert not (tmp_path / "other-authority").exists()


def test_what_a_request_refuses(folder):
    outcome = starlings("site", "request", "trial.toml", "--site", "Ashbi")
    fails(outcome, "Did you mean 'Ashby'?")
    fails(starlings("site", "request", "none.toml", "--site", "A"), "no trial file at none.toml")
    (folder / "Ashby-site" / "site.key").chmod(0o640)
    fails(starlings("site", "request", "trial.toml", "--site", "Ashby"), "chmod 600")


def test_a_second_request_has_the_same_key(folder):
    first = starlings("site", "request", "trial.toml", "--site", "Ashby")
    assert first.stdout == starlings("site", "request", "trial.toml", "--site", "Ashby").stdout


def test_nothing_is_made_unless_fingerprints_were_compared(folder):
    edit(folder, "[sites.Cliff]", "[sites.Cliff]\n[sites.Downs]")
    before = {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    make_request_file(folder, "Downs")
    outcome = starlings("provision", "trial.toml", "--add", "Downs.request", typed="n\n")
    assert outcome.exit_code == 1
    assert "are they equal?" in outcome.output
    assert before == {path: path.read_bytes() for path in (folder / "kits").iterdir()}
    outcome = starlings("provision", "trial.toml", "--add", "Downs.request", typed="y\n")
    assert "Downs.zip: send it to Downs only" in outcome.stdout
    assert "manifest 2, NEW: send it to all sites" in outcome.stdout


def test_renew_and_revoke(folder):
    outcome = starlings("provision", "trial.toml", "--renew", "Ashby.request", "--yes")
    assert "kits/Ashby.zip: send it to Ashby only" in outcome.stdout
    assert starlings("provision", "trial.toml", "--revoke", "Brook", typed="n\n").exit_code == 1
    assert Kit.open("kits/Ashby.zip").revoked == frozenset()
    outcome = starlings("provision", "trial.toml", "--revoke", "Brook", typed="y\n")
    assert "Brook is revoked. Send kits/revoked.list (number 1)" in outcome.stdout
    assert len(Kit.open("kits/Ashby.zip").revoked) == 1
    fails(starlings("provision", "trial.toml", "--revoke", "Brok"), "Did you mean 'Brook'?")


def test_a_trial_that_changed_has_a_new_manifest(folder):
    edit(folder, "draws = 20", "draws = 40")
    outcome = starlings("provision", "trial.toml")
    assert "manifest 2, NEW" in outcome.stdout
    outcome = starlings("provision", "trial.toml")
    assert "NEW" not in outcome.stdout


def test_sites_without_a_kit_are_named(tmp_path):
    trial = tmp_path / "trial.toml"
    trial.write_text(TRIAL)
    starlings("study", "init", trial)
    starlings("site", "request", trial, "--site", "Ashby")
    outcome = starlings("provision", trial, tmp_path / "Ashby.request", "--yes")
    assert "Still without a kit: Brook, Cliff" in outcome.stdout


def test_check_exits_with_1_if_something_fails(folder):
    outcome = starlings("check", "kits/Ashby.zip", "--offline")
    assert outcome.exit_code == 0, outcome.output
    (folder / "Ashby-site" / "site.key").chmod(0o644)
    outcome = starlings("check", "kits/Ashby.zip", "--offline")
    assert outcome.exit_code == 1
    assert "FAIL  key file" in outcome.stdout


def test_nothing_is_signed_unless_the_answer_is_yes(folder):
    home = folder / "Ashby-site"
    outcome = starlings("approve", "kits/Ashby.zip", typed="n\n")
    assert outcome.exit_code == 1
    assert "Does Ashby approve this?" in outcome.output
    assert [path.name for path in home.iterdir()] == ["site.key"]
    assert starlings("approve", "kits/Ashby.zip", typed="y\n").exit_code == 0
    assert (home / "Ashby.approval").is_file()
    assert starlings("approve", "kits/Ashby.zip", "--yes").exit_code == 0


def test_what_would_be_sent_in_the_clear_is_said_aloud(folder):
    edit(folder, "draws = 20", 'draws = 20\nprivacy = "none"\nmethod = "weights"')
    starlings("provision", "trial.toml")
    outcome = starlings("approve", "kits/Ashby.zip", typed="n\n")
    assert "NOTHING IS MASKED" in outcome.stdout
    assert "manifest 2" in outcome.stdout


@pytest.mark.slow
def test_code_of_a_trial_is_shown_by_its_hash_and_not_run(folder):
    (folder / "of_the_trial.py").write_text(
        "from starlings import DADMMS\n\n\nclass Mine(DADMMS):\n    pass\n"
    )
    edit(folder, "[run]", '[sampler]\nname = "of_the_trial:Mine"\nrho = 2.0\n[run]')
    assert starlings("provision", "trial.toml").exit_code == 0
    (folder / "of_the_trial.py").write_text("raise SystemExit('run too early')")
    code = (
        "import sys; from starlings.cli import run; sys.argv = ['starlings', 'approve', "
        "'kits/Ashby.zip', '--yes']; run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "of_the_trial.py, SHA-256" in done.stdout


def test_audit_exits_with_1_if_transcripts_differ(tmp_path):
    for site, other in [SITES[:2], SITES[1::-1]]:
        with Transcript(tmp_path / f"{site}.log", site, "ab" * 32) as transcript:
            transcript.sent(other, 0, "round", site.encode())
            transcript.received(other, 0, "round", other.encode())
            transcript.end()
    files = [tmp_path / f"{site}.log" for site in SITES[:2]]
    outcome = starlings("audit", *files)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.count("PASS") == 4
    data = files[0].read_bytes()
    files[0].write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    outcome = starlings("audit", *files)
    assert outcome.exit_code == 1
    assert "FAIL" in outcome.stdout
    assert "has no end" in outcome.stdout
    assert starlings("audit", *files, "--running").exit_code == 0
    files[0].write_bytes(data.replace(b"round", b"xound", 1))
    fails(starlings("audit", *files), "was changed")


def test_what_is_shown_cannot_steer_a_terminal(folder):
    edit(folder, "it@ashby.example", "it\\u001b[2K\\u202egood")
    starlings("provision", "trial.toml")
    shown = starlings("approve", "kits/Ashby.zip", typed="n\n").stdout
    assert "it?[2K?good" in shown
    assert "\x1b" not in shown

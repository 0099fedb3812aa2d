"""Transcripts: what is edited, moved, left out or cut off is noticed, and so is what differs."""

from __future__ import annotations

import json

import pytest

from starlings.errors import SiteError
from starlings.sites.audit import audit
from starlings.sites.documents import canonical
from starlings.sites.transcript import NO_CHAIN, Lines, Transcript, chained

MANIFEST = "ab" * 32
MESSAGES = 6


def write(folder, mine: str, other: str, last: int = MESSAGES, ends: bool = True):
    path = folder / f"{mine}.log"
    with Transcript(path, mine, MANIFEST) as transcript:
        for number in range(last):
            transcript.sent(other, number, "round", f"{mine} {number}".encode())
            transcript.received(other, number, "round", f"{other} {number}".encode())
        if ends:
            transcript.end()
    return path


@pytest.fixture
def logs(tmp_path):
    return write(tmp_path, "Ashby", "Brook"), write(tmp_path, "Brook", "Ashby")


def rechained(lines: list[bytes]) -> bytes:
    """Lines with new chains, as a site would write them that has something to hide."""
    chain, made = NO_CHAIN, []
    for line in lines:
        entry = json.loads(line)
        entry.pop("chain")
        chain = chained(chain, entry)
        made.append(canonical({**entry, "chain": chain}))
    return b"\n".join([*made, b""])


def test_two_transcripts_agree(logs):
    found = audit(*logs)
    assert found.faults == []
    assert "Ashby -> Brook: 6 messages, all equal" in found.agreed
    assert "Brook -> Ashby: 6 messages, all equal" in found.agreed


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_every_changed_byte_is_noticed(logs, step):
    data = logs[0].read_bytes()
    for place in range(0, len(data), step):
        changed = bytearray(data)
        changed[place] ^= 1
        logs[0].write_bytes(changed)
        with pytest.raises(SiteError):
            list(Lines(logs[0]))


@pytest.mark.parametrize("change", ["left out", "moved", "twice", "first left out", "added"])
def test_lines_that_are_moved_left_out_or_added_are_noticed(logs, change):
    lines = logs[0].read_bytes().splitlines()
    changed = {
        "left out": lines[:3] + lines[4:],
        "moved": [*lines[:3], lines[4], lines[3], *lines[5:]],
        "twice": [*lines[:4], lines[3], *lines[4:]],
        "first left out": lines[1:],
        "added": [*lines, lines[-1]],
    }[change]
    logs[0].write_bytes(b"\n".join([*changed, b""]))
    with pytest.raises(SiteError, match="line"):
        audit(*logs)


def test_lines_cut_off_at_the_end_are_noticed(logs):
    data = logs[0].read_bytes()
    logs[0].write_bytes(data[:-10])
    with pytest.raises(SiteError, match="cut off in its last line"):
        audit(*logs)
    lines = data.splitlines(keepends=True)
    for count in range(1, len(lines)):
        logs[0].write_bytes(b"".join(lines[:count]))
        assert any("has no end" in fault for fault in audit(*logs).faults)
    logs[0].write_bytes(b"")
    with pytest.raises(SiteError, match="is empty"):
        audit(*logs)


FORGERIES = {
    "other contents": (lambda e: {**e, "digest": "00" * 32}, "other contents than were sent"),
    "another length": (lambda e: {**e, "bytes": 1}, "other contents than were sent"),
    "another kind": (lambda e: {**e, "kind": "sum"}, "other contents than were sent"),
}


@pytest.mark.parametrize(("change", "text"), FORGERIES.values(), ids=FORGERIES)
def test_a_new_chain_does_not_hide_what_the_other_site_knows(logs, change, text):
    lines = logs[0].read_bytes().splitlines()
    lines[3] = json.dumps(change(json.loads(lines[3]))).encode()
    logs[0].write_bytes(rechained(lines))
    assert any(text in fault for fault in audit(*logs).faults)


def test_messages_that_one_site_hides(logs):
    lines = logs[0].read_bytes().splitlines()
    logs[0].write_bytes(rechained([*lines[:3], *lines[5:]]))
    faults = audit(*logs).faults
    assert faults == [
        "Ashby -> Brook: 1 messages (number 1) were received and never sent.",
        "Brook -> Ashby: 1 messages (number 1) were sent and not received.",
    ]


def test_a_run_that_goes_on(tmp_path):
    a = write(tmp_path, "Ashby", "Brook", last=6, ends=False)
    b = write(tmp_path, "Brook", "Ashby", last=4, ends=False)
    assert audit(a, b, is_running=True).faults == []
    assert len(audit(a, b).faults) == 4


def test_a_restarted_site_goes_on_with_its_transcript(tmp_path):
    path = write(tmp_path, "Ashby", "Brook", last=4, ends=False)
    with path.open("ab") as file:
        file.write(b'{"bytes":12,"cha')
    assert write(tmp_path, "Ashby", "Brook") == path
    found = audit(path, write(tmp_path, "Brook", "Ashby"))
    assert found.faults == []
    with pytest.raises(SiteError, match="has ended"):
        write(tmp_path, "Ashby", "Brook", last=7)


DAMAGE = {
    "zeros": bytes(10_000),
    "zeros in lines": (bytes(30) + b"\n") * 5,
    "half a line and another": b'{"bytes":12,"cha\n{"bytes":12}\n',
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("lost", [0, 200], ids=["after the end", "over lines"])
def test_what_a_power_cut_has_damaged_is_written_again(tmp_path, damage, lost):
    path = write(tmp_path, "Ashby", "Brook", last=4, ends=False)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - lost] + damage)
    write(tmp_path, "Ashby", "Brook")
    assert audit(path, write(tmp_path, "Brook", "Ashby")).faults == []


def test_transcripts_that_do_not_belong_together(logs, tmp_path):
    with pytest.raises(SiteError, match="both of 'Ashby'"):
        audit(logs[0], logs[0])
    with pytest.raises(SiteError, match="in another run"):
        Transcript(logs[0], "Ashby", "cd" * 32)
    with pytest.raises(SiteError, match="in another run"):
        Transcript(logs[0], "Brook", MANIFEST)
    with pytest.raises(SiteError, match="no transcript at"):
        audit(logs[0], tmp_path / "none.log")
    other = tmp_path / "other"
    other.mkdir()
    with Transcript(other / "Brook.log", "Brook", "cd" * 32) as transcript:
        transcript.end()
    faults = audit(logs[0], other / "Brook.log").faults
    assert any("different runs" in fault for fault in faults)

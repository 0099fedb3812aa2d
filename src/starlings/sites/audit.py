"""Whether the transcripts of two sites agree: what one sent is what the other received."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from starlings.errors import SiteError
from starlings.sites.documents import Table
from starlings.sites.transcript import BEGAN, ENDED, RECEIVED, SENT, Lines

MOST_NAMED = 3
"""Messages that a fault names."""


@dataclass
class Heard:
    """A transcript whose chain is right."""

    path: Path
    site: str = ""
    manifest: str = ""
    has_ended: bool = False
    lines: int = 0
    messages: dict[tuple[str, str], dict[int, Table]] = field(default_factory=dict)
    """By `what` and other site, the messages by number."""

    @classmethod
    def read(cls, path: Path) -> Heard:
        """Read a transcript; one that was changed is an error."""
        heard = cls(path)
        for line in Lines(path):
            heard.lines += 1
            heard._take(line.what, line.entry)
        if not heard.site:
            raise SiteError(f"{path} is empty; ask the site for its transcript.")
        return heard

    def _take(self, what: str, entry: Table) -> None:
        if what == BEGAN:
            self.site, self.manifest = entry["site"], entry["manifest"]
        elif what == ENDED:
            self.has_ended = True
        else:
            stream = self.messages.setdefault((what, entry["other"]), {})
            number = entry["number"]
            if stream and number <= next(reversed(stream)):
                raise SiteError(
                    f"{self.path}: message {number} {what} ({entry['other']}) comes out of order."
                )
            stream[number] = {name: entry[name] for name in ("kind", "bytes", "digest")}

    def of(self, what: str, other: str) -> dict[int, Table]:
        """The messages sent to, or received from, another site."""
        return self.messages.get((what, other), {})


@dataclass(frozen=True)
class Audit:
    """What a comparison found."""

    agreed: list[str]
    """What is right, in sentences."""
    faults: list[str]
    """What is wrong, in sentences; none if the transcripts agree."""


def audit(first: Path, second: Path, is_running: bool = False) -> Audit:
    """Compare the transcripts of two sites that exchanged messages.

    Args:
        first: the transcript of one site.
        second: that of the other.
        is_running: whether the run still goes on, so that the last messages may be missing.
    """
    a, b = Heard.read(first), Heard.read(second)
    if a.site == b.site:
        raise SiteError(f"{first} and {second} are both of {a.site!r}; name those of two sites.")
    agreed = [f"{h.path}: {h.lines:,} lines of {h.site}, none changed or missing" for h in (a, b)]
    faults = [] if is_running else [_unended(heard) for heard in (a, b) if not heard.has_ended]
    if a.manifest != b.manifest:
        faults.append(
            f"{a.site} ran the manifest {a.manifest[:16]}, and {b.site} ran {b.manifest[:16]}: "
            "these are transcripts of different runs."
        )
    for sender, receiver in ((a, b), (b, a)):
        found = _compared(sender, receiver, is_running)
        faults += found
        if not found:
            count = len(receiver.of(RECEIVED, sender.site))
            agreed.append(f"{sender.site} -> {receiver.site}: {count:,} messages, all equal")
    return Audit(agreed, faults)


def _unended(heard: Heard) -> str:
    return (
        f"{heard.path} has no end: {heard.site} is still running (then add `--running`), was "
        "stopped, or somebody cut lines off."
    )


def _compared(sender: Heard, receiver: Heard, is_running: bool) -> list[str]:
    """The faults of the messages in one direction."""
    sent, got = sender.of(SENT, receiver.site), receiver.of(RECEIVED, sender.site)
    common = min(len(sent), len(got)) if is_running else None
    sent_numbers, got_numbers = list(sent)[:common], list(got)[:common]
    lost = [number for number in sent_numbers if number not in got]
    added = [number for number in got_numbers if number not in sent]
    other = [number for number in sent_numbers if number in got and sent[number] != got[number]]
    route = f"{sender.site} -> {receiver.site}"
    texts = {
        "were sent and not received": lost,
        "were received and never sent": added,
        "arrived with other contents than were sent": other,
    }
    return [f"{route}: {_listed(found)} {text}." for text, found in texts.items() if found]


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if numbers[MOST_NAMED:] else "")
    return f"{len(numbers):,} messages (number {shown})"

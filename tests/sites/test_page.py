"""The page on several organisations: its commands run as printed, and print what it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.sites.trials import starlings

PAGE = Path(__file__).parents[2] / "docs" / "real-sites.md"
BLOCKS = re.compile(r"^```(sh|text)\n(.*?)^```", re.S | re.M)
CHANGING = [
    (r"\b(?:[0-9a-f]{4} ){3,7}[0-9a-f]{4}\b", "FINGERPRINT"),
    (r"\b[0-9a-f]{16}\b", "HASH"),
    (r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "DATE"),
    (r"/\S*/(?=Ashby-site)", ""),
    (r"(JAX|NumPy|Python|starlings) \d[\d.]*\w*", r"\1 VERSION"),
]
"""What is different every time, with what stands for it."""


def printed_by(commands: str) -> str:
    made = []
    for command in commands.splitlines():
        words = command.split()[1:]
        is_asked = words[0] in ("provision", "approve")
        outcome = starlings(*words, typed="y\n" if is_asked else None, COLUMNS="100")
        assert outcome.exit_code == 0, outcome.output
        made.append(outcome.stdout)
    return "\n".join(made)


def steady(text: str) -> list[str]:
    """The words of a text without what changes; where lines break depends on it, too."""
    for pattern, stand_in in CHANGING:
        text = re.sub(pattern, stand_in, re.sub(r"\s+", " ", text))
    return text.split()


def test_commands_print_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCKS.findall(PAGE.read_text(encoding="utf-8"))
    commands = [(k, text) for k, (kind, text) in enumerate(blocks) if kind == "sh"]
    assert len(commands) == 6
    for place, text in commands:
        kind, expected = blocks[place + 1]
        assert kind == "text"
        assert steady(printed_by(text)) == steady(expected), text

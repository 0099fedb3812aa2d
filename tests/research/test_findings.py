"""Every finding in the docs shows code and what it prints: run the one, compare with the other."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

FINDINGS = Path(__file__).parents[2] / "docs" / "findings.md"
EXAMPLE = re.compile(
    r"^## (?P<title>.+?)$|^```python\n(?P<code>.*?)^```\n+```text\n(?P<out>.*?)^```", re.M | re.S
)

SLOW = ("paper_dula", "2 m_f delta at most", "D-ADMMS as printed")
"""Words of the examples that take several seconds each."""


def examples() -> list:
    """Each block of code with what is printed under it, named by the section it is in."""
    found, title = [], ""
    for match in EXAMPLE.finditer(FINDINGS.read_text(encoding="utf-8")):
        if match["title"]:
            title = match["title"].split(":")[0]
        else:
            marks = [pytest.mark.slow] if any(words in match["code"] for words in SLOW) else []
            found.append(pytest.param(match["code"], match["out"], id=title, marks=marks))
    return found


@pytest.mark.quick(1)
@pytest.mark.parametrize(("code", "printed"), examples())
def test_finding_prints_what_the_page_says(code, printed):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(FINDINGS), "exec"), {"__name__": "finding"})
    assert out.getvalue() == printed

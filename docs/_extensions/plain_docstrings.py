"""Show the docstrings of this library as they are written: plain text, not reStructuredText.

A docstring of this library follows a few rules that a reader of the source needs no markup for:

- text between single backticks is code, and a public name between them is a link;
- indented lines after a paragraph are equations or tables, and are shown exactly as they are;
- `Args:`, `Returns:`, `Raises:` and the like are sections in the style of Google;
- lines that begin with `>>>` are examples, which the tests run;
- `*`, `|` and `_` are themselves.

Sphinx reads docstrings as reStructuredText, where `|x|` is a substitution and `x_` a link. This
extension translates the first into the second before Sphinx (and its napoleon extension, which
knows the sections) gets to see it.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import starlings

SECTION = re.compile(r"(Args|Attributes|Examples?|Notes?|Raises|Returns|Warns|Yields):$")
ITEM = re.compile(r"(- |\d+\. )")
"""How an item of a list begins."""
ARGUMENT = re.compile(r"( {4}[*\w]+(?: \(.*?\))?:)(.*)$", re.S)
"""The name of an argument with its colon, and what is said of it."""
CODE = re.compile(r"``(.+?)``|`([^`]+)`", re.S)
BEFORE_NAPOLEON = 400
"""Priority of the handler; those of extensions that state none have 500 and run later."""


def translated(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText.

    >>> print("\\n".join(translated(["The norm |x| of `x`."])))
    The norm \\|x\\| of ``x``.
    """
    out: list[str] = []
    position, item_indent, in_section = 0, 0, False
    while position < len(lines):
        line = lines[position]
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(">>>"):
            end = _end(lines, position, lambda text: bool(text.strip()))
            out += ["", *lines[position:end]]
        elif SECTION.match(line):
            in_section, end = True, position + 1
            out += ["", line]
        elif not line.strip():
            end = position + 1
            out.append("")
        elif indent and not in_section and indent != item_indent:
            end = _end(lines, position, lambda text: not text.strip() or text.startswith(" "))
            out += ["", ".. code-block:: text", "", *lines[position:end], ""]
        else:
            begins_item = ITEM.match(line)
            if not indent:
                in_section = False
                if item_indent and not begins_item:
                    out.append("")
                item_indent = len(begins_item[0]) if begins_item else 0
            continues = functools.partial(_continues, indent=indent, in_section=in_section)
            end = _end(lines, position, continues)
            out += _prose("\n".join(lines[position:end])).split("\n")
        position = end
    return out


def _end(lines: list[str], start: int, belongs: Any) -> int:
    """Return the number of the first line after `start` that does not belong to its block."""
    end = start + 1
    while end < len(lines) and belongs(lines[end]):
        end += 1
    return end


def _continues(text: str, indent: int, in_section: bool) -> bool:
    """Return whether a line goes on with a paragraph, or with an argument of a section."""
    plain = text.lstrip()
    deeper = len(text) - len(plain) - indent
    if not plain or ITEM.match(plain) or SECTION.match(text):
        return False
    return deeper > 0 if in_section and indent == 4 else deeper == 0


def _prose(text: str) -> str:
    """Return a paragraph, or what is said of one argument, as reStructuredText."""
    argument = ARGUMENT.match(text)
    name, said = argument.groups() if argument else ("", text)
    pieces, position = [name], 0
    for code in CODE.finditer(said):
        after = said[code.end() : code.end() + 1]
        joint = "\\ " if after.isalnum() else ""  # `Problem`s: markup must end before a letter
        pieces += [_escaped(said[position : code.start()]), _code(code[1] or code[2]), joint]
        position = code.end()
    return "".join([*pieces, _escaped(said[position:])])


def _escaped(text: str) -> str:
    """Return text in which no character is markup."""
    text = re.sub(r"([\\*|])", r"\\\1", text)
    return re.sub(r"_(?=\W|$)", r"\\_", text)


def _code(text: str) -> str:
    """Return code, as a link if it is the name of something public."""
    name = text.removeprefix("starlings.").removesuffix("()")
    if name in starlings.__all__ and not name.startswith("_"):
        return f":py:obj:`{text} <starlings.{name}>`"
    return f"``{text}``"


def _translate(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    if lines and lines[0].startswith("Alias for field number"):  # what Python says of named tuples
        lines.clear()
    lines[:] = translated(lines)
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # or napoleon takes what is before a colon for a type


def setup(app: Any) -> dict[str, bool]:
    """Connect the translation to autodoc."""
    app.connect("autodoc-process-docstring", _translate, priority=BEFORE_NAPOLEON)
    return {"parallel_read_safe": True}

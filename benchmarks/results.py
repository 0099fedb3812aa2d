"""A results file: JSON that is complete at every moment, so that a stopped run can go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlings.system.files import atomic_write


class JsonFile:
    """A JSON file, read again at every use: another process may have changed it.

    Args:
        path: the file, which need not exist.
        check: called with the content; it raises an error where that is not what it should be.
    """

    def __init__(self, path: Path, check: Callable[[Any], None]) -> None:
        self.path, self.check = path, check

    def read(self, default: Any) -> Any:
        """The content, or the default where there is no file."""
        if not self.path.exists():
            return default
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            self.check(content)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{self.path} is not a results file of this command: {error}."
            raise ValueError(message) from None
        return content

    def write(self, content: Any) -> None:
        """Replace the file in one step: a reader sees either the old content or the new."""
        text = json.dumps(content, indent=1) + "\n"
        with atomic_write(self.path, len(text), checksum=False) as partial:
            partial.write_text(text, encoding="utf-8")

"""What a run has in common with itself when it starts again: its rows, its packages, its output."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import jax
import numpy as np

from starlings.errors import SiteError
from starlings.network.communicator import Communicator
from starlings.problem.shards import Rows
from starlings.sites.keys import write_private
from starlings.sites.manifest import versions


class HasRows(Protocol):
    """A problem, or a draft of one."""

    @property
    def shards(self) -> Mapping[str, Rows]:
        """The columns of each local site."""


def check_unchanged(problem: HasRows, communicator: Communicator) -> None:
    """Refuse to go on with other rows or packages than before a restart.

    This is on disk before anything is sent, so that no mask hides two different numbers, also where
    the machine stopped before it had the digests of the last messages on disk.
    """
    found = digest_of_rows(problem)
    if communicator.remembered(lambda: found) != found:
        raise SiteError(
            "the rows or a package have changed since this run began. Restore what was there, or "
            "start the run anew at all sites."
        )


def digest_of_rows(problem: HasRows) -> bytes:
    """A digest of what the messages of this site follow from, beside the manifest."""
    found = hashlib.sha256(str(versions()).encode())
    for array in jax.tree.leaves(dict(problem.shards)):
        rows = np.asarray(array)
        found.update(f" {rows.dtype} {rows.shape} ".encode() + rows.tobytes())
    return found.digest()


@dataclass(frozen=True)
class OwnOutput:
    """The output of a run, which the same run may write again."""

    note: Path
    """A file in the folder of the run that says where its output is."""
    output: Path

    @property
    def is_of_this_run(self) -> bool:
        """Whether this run has written it before."""
        return self.note.is_file() and self.note.read_text("utf-8") == str(self.output)

    def claim(self) -> None:
        """Note that this run writes it, which it may have not done before."""
        write_private(self.note, str(self.output).encode())

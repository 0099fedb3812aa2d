"""Where a run is written: the output file, and the checkpoint until that file is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlings.errors import check_count
from starlings.network.communicator import has_result
from starlings.results.gather import Run
from starlings.results.outputs import RunFiles
from starlings.results.result import Result
from starlings.runtime.checkpoint import Checkpoint
from starlings.sampling.request import Request
from starlings.system.progress import Progress

CHECKPOINT_EVERY = 10_000
"""Rounds from one checkpoint to the next, by default."""


@dataclass(frozen=True)
class Destination:
    """The files that a run writes, and how often it writes a checkpoint."""

    files: RunFiles
    checkpoint_every: int = CHECKPOINT_EVERY
    """Rounds from one checkpoint to the next."""

    def __post_init__(self) -> None:
        check_count(1, checkpoint_every=self.checkpoint_every)

    @contextmanager
    def reserved(self, request: Request, progress: Progress) -> Iterator[Checkpoint | None]:
        """A context in which no other run may write here, with the checkpoint if there is one."""
        is_writing = has_result(request.network.communicator)
        with self.files.locked(is_writing):
            if is_writing:
                self.files.check_space(request.size())
            yield self._checkpoint(request, progress)

    def _checkpoint(self, request: Request, progress: Progress) -> Checkpoint | None:
        """The folder of the run, new or found to hold the same run."""
        if self.files.folder is None:
            return None
        every, digests = self.checkpoint_every, request.digests()
        checkpoint = Checkpoint(self.files.folder, every, request.network, digests)
        if self.files.resume and not checkpoint.files.has_run():
            progress.print_status(f"no checkpoint in {checkpoint.folder}: a new run begins")
        checkpoint.begin(request.identity(), self.files.resume)
        return checkpoint

    def collected(self, run: Run, checkpoint: Checkpoint | None) -> Result | None:
        """The result of a run, in memory or in the output file; None at all processes but one.

        The checkpoint is removed once all its draws are in the output file.
        """
        if self.files.output is None:
            return run.result()
        result = run.saved(Path(self.files.output), self.files.check)
        if checkpoint is not None and run.is_complete(checkpoint.num_draws):
            checkpoint.remove()
        return result

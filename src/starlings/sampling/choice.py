"""Who chooses the sampler and its settings: the caller, or the agents by tuning.

The argument `sampler` of `sample` is examined once, by `sampler_choice`; everything after it asks
the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlings.errors import check_choice
from starlings.network import Network
from starlings.problem import Problem
from starlings.runtime.checkpoint import Checkpoint
from starlings.samplers import DADMMS, Sampler
from starlings.samplers.names import is_tunable
from starlings.sampling.request import Request, SamplerChoice, Setup
from starlings.sampling.starts import mean_position
from starlings.system.interrupts import DeferredInterrupt
from starlings.system.progress import Progress
from starlings.theory import check_stability
from starlings.tuning import EXACTNESS, Tuning, tune
from starlings.tuning.pilot import refine


def sampler_choice(
    sampler: Sampler | type[Sampler] | None, exactness: str = "auto"
) -> SamplerChoice:
    """The choice that the arguments `sampler` and `exactness` of `sample` make."""
    check_choice(EXACTNESS, exactness=exactness)
    if sampler is not None and exactness != "auto":
        raise ValueError(
            f"`exactness` is for runs whose sampler is chosen by tuning; got {exactness!r} and "
            f"{sampler}. Leave one of them out."
        )
    if isinstance(sampler, Sampler):
        return GivenSampler(sampler)
    if sampler is None or (isinstance(sampler, type) and issubclass(sampler, Sampler)):
        return TunedSampler(sampler, exactness)
    hint = " Names are for studies; in Python give the class or an instance."
    raise TypeError(
        "`sampler` must be a `starlings.Sampler`, such as "
        f"`starlings.{DADMMS.__name__}(rho=5.0)`, got {sampler!r}."
        f"{hint if isinstance(sampler, str) else ''}"
    )


@dataclass(frozen=True)
class GivenSampler:
    """A sampler whose settings the caller gave."""

    sampler: Sampler

    @property
    def title(self) -> str:
        """The name of the sampler."""
        return self.sampler.card.title

    def identity(self) -> dict[str, str]:
        """The sampler with all its settings."""
        return {"sampler": str(self.sampler), "exactness": "auto"}

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse a sampler that cannot run on this problem and network."""
        self.sampler.check(problem, network)
        if not network.is_distributed:  # else no process has the curvatures of all agents
            check_stability(problem, network, self.sampler)

    def setup(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Setup:
        """The sampler, problem and starting positions as they were given."""
        return Setup(request.problem, self.sampler, request.initial)


@dataclass(frozen=True)
class TunedSampler:
    """A sampler whose settings the agents choose by tuning."""

    kind: type[Sampler] | None
    """The class of samplers, tuned by its own rule; None where `exactness` decides on the class."""
    exactness: str = "auto"
    """The rung of the ladder of exactness, see `starlings.tuning.ladder`."""

    @property
    def title(self) -> str:
        """What is said before the sampler is known."""
        return "the agents tune their sampler"

    def identity(self) -> dict[str, Any]:
        """What was asked for, not what tuning found: that is in the checkpoint."""
        return {"sampler": str(self.kind), "exactness": self.exactness}

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse a class that has no rule for its settings."""
        if self.kind is not None and not is_tunable(self.kind):
            name = self.kind.__name__
            raise TypeError(
                f"`sampler` is the class {name}, which has no rule `tuned` for its settings; give "
                f"them, as in `{name}(...)`."
            )

    def setup(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Setup:
        """The tuned sampler, and problem and starting positions in the tuned coordinates."""
        tuning = self._load_tuning(checkpoint)
        if tuning is None:
            tuning = self._tune(request, progress)
            if checkpoint is not None:
                checkpoint.save_tuning(*tuning.parts())
        progress.print_status(tuning.summary())
        initial = None if request.start is None else tuning.coordinates(request.start)
        return Setup(tuning.problem(request.problem), tuning.sampler, initial, tuning)

    def _load_tuning(self, checkpoint: Checkpoint | None) -> Tuning | None:
        """What the agents had found when the run that is resumed was begun."""
        stored = None if checkpoint is None else checkpoint.tuning()
        return None if stored is None else Tuning.from_parts(*stored, self.kind)

    def _tune(self, request: Request, progress: Progress) -> Tuning:
        """What the agents find, confirmed by pilot runs."""
        problem, network, start = request.problem, request.network, request.start
        start = None if start is None else mean_position(problem, start)
        with DeferredInterrupt(not network.is_distributed) as interrupts:
            with progress.spinner("tuning: mode and scale of the posterior"):
                tuning = tune(problem, network, start, exactness=self.exactness, sampler=self.kind)
            interrupts.raise_if_pending()
            tuning = refine(problem, tuning, network, request.seed, progress.progress_bar)
            interrupts.raise_if_pending()
        return tuning

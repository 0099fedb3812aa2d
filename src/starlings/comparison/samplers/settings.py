"""The settings at which samplers are compared.

published    what the class says its publication took, where it says so
best         the best of its candidates, which are laid out on one grid for all classes
tuned        what its own rule finds, for classes that have one: without the posterior
given        what the caller gave
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from starlings.comparison.samplers.exact import Frame
from starlings.comparison.samplers.named import Named
from starlings.comparison.samplers.places import Place
from starlings.errors import TuningError
from starlings.network import Network
from starlings.network.ledger import Ledger
from starlings.problem import Problem
from starlings.runtime.unreliable import check_links
from starlings.samplers import Sampler, Units
from starlings.samplers.names import is_tunable
from starlings.theory import quadratic_model
from starlings.tuning import tune
from starlings.tuning.pilot import refine

SETTINGS = ("published", "best", "tuned", "given")
"""How settings are found."""
FAILURES = (ValueError, TypeError, RuntimeError)
"""Errors that make a sampler a line with a reason, and do not end a comparison."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One line of a comparison, before it is run."""

    name: str
    setting: str
    """One of `SETTINGS`."""
    place: Place
    candidates: tuple[Sampler, ...]
    """The settings among which the best is chosen; often a single one."""
    frame: Frame | None = None
    """The coordinates in which the sampler moves; None for the parameters' own."""
    problem: Problem | None = None
    """The problem in those coordinates; None for that of the place."""
    spent: Ledger = field(default_factory=Ledger)
    """What was sent before round 0, by tuning."""
    iterations: int = 0
    """How often agents have gone through their rows before round 0."""

    @property
    def moved(self) -> Problem:
        """The problem in the coordinates in which the sampler moves."""
        return self.place.problem if self.problem is None else self.problem

    def with_candidates(self, candidates: Sequence[Sampler]) -> Trial:
        """The same with other candidates."""
        return replace(self, candidates=tuple(candidates))

    def checked(self) -> Trial:
        """The candidates that can run here; the first one's refusal if none can."""
        refusals: list[ValueError] = []
        able = []
        for sampler in self.candidates:
            try:
                check_links(self.place.network, sampler)
                sampler.check(self.moved, self.place.network)
                able.append(sampler)
            except ValueError as refusal:
                refusals.append(refusal)
        if not able and refusals:
            raise refusals[0]
        return self.with_candidates(able)


@dataclass(frozen=True)
class Grid:
    """The units of every place, which are found when they are first needed."""

    numbers: np.ndarray
    """The numbers g of `starlings.Units`, the same for all samplers."""
    _found: dict[Place, Units] = field(default_factory=dict)

    def units(self, place: Place) -> Units:
        """The natural units of a place."""
        if place not in self._found:
            self._found[place] = units_of(place.problem, place.network, self.numbers)
        return self._found[place]


def units_of(problem: Problem, network: Network, numbers: np.ndarray) -> Units:
    """The natural units of a problem; those at its mode if it is not quadratic."""
    quadratic = quadratic_model(problem).quadratic
    assert quadratic is not None
    pooled = np.linalg.eigvalsh(quadratic.hessian.sum(axis=0))[-1]
    return Units(problem, network, float(quadratic.curvatures.max()), float(pooled), numbers)


def settings_of(wanted: Named) -> list[str]:
    """How the settings of a sampler are to be found; published ones may turn out not to exist."""
    if wanted.given:
        return ["given"] if len(wanted.given) == 1 else ["best"]
    return ["published", "best", *(["tuned"] if is_tunable(wanted.kind) else [])]


def trial_of(
    wanted: Named, setting: str, place: Place, grid: Grid, seed: int, pilots: bool
) -> Trial | None:
    """The trial of a sampler with settings that are found in one way; None if there are none.

    Args:
        wanted: the sampler.
        setting: one of `SETTINGS`.
        place: where it runs.
        grid: the grid of its candidates.
        seed: the seed of pilot runs.
        pilots: whether tuning may run the sampler, as it does on posteriors without exact laws.
    """
    trial = Trial(wanted.name, setting, place, wanted.given)
    if setting == "published":
        sampler = wanted.kind.published(place.problem, place.network)
        if sampler is None:
            return None
        trial = trial.with_candidates([sampler])
    elif setting == "best" and not wanted.given:
        trial = trial.with_candidates(wanted.kind.candidates(grid.units(place)))
        if not trial.candidates:
            raise ValueError(f"{wanted.kind.__name__} has no candidates on this grid.")
    elif setting == "tuned":
        trial = _tuned(trial, wanted.kind, seed, pilots)
    return trial.checked()


def _tuned(trial: Trial, kind: type[Sampler], seed: int, pilots: bool) -> Trial:
    """What the agents find by themselves, and what it costs them."""
    problem, network = trial.place.problem, trial.place.network
    try:
        tuning = tune(problem, network, sampler=kind)
        if pilots:
            tuning = refine(problem, tuning, network, seed)
    except TuningError as error:
        raise ValueError(f"cannot be tuned here: {error}") from None
    return replace(
        trial,
        candidates=(tuning.sampler,),
        frame=Frame(tuning.centre, tuning.scale),
        problem=tuning.problem(problem),
        spent=tuning.sent,
        iterations=tuning.newton_iterations,
    )

"""`Tuning`: what the agents found, and how it is stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from starlings.network.ledger import Ledger
from starlings.problem import Problem
from starlings.problem.coordinates import frame
from starlings.samplers import Sampler
from starlings.samplers.names import BUILT_IN
from starlings.tuning.ladder import RUNGS

NEGLIGIBLE_TILT = 1e-3
"""What the sum of all tilts may differ from zero by, in coordinates of unit curvature: a mean or a
variance of the posterior would change by as much, in its standard deviations. Rounding leaves some
1e-16, and more where rows can hardly distinguish two parameters."""


@dataclass(frozen=True)
class Tuning:
    """What the agents found, what it cost, and what the exact law predicts for it."""

    centre: np.ndarray
    """c, in unconstrained coordinates, (dim,)."""
    scale: np.ndarray
    """L of eq. (1) of `tuner`; a vector stands for a diagonal matrix."""
    tilt_slope: np.ndarray
    """The tilt b_i of every local agent, (agent, dim), which no other agent gets."""
    tilt_curvature: np.ndarray
    """The tilt A_i of every local agent, (agent, dim, dim), or (agent, dim) if it is diagonal."""
    step: float
    """The step eta, in units of the posterior's curvature."""
    wanted_step: float
    """The step that was asked for, or that pilot runs shortened; the floor on rho allows `step`."""
    sampler: Sampler
    """The sampler, with its settings."""
    rung: str
    """The rung of the ladder that was taken, or the name of the class that was asked for."""
    exactness: str
    """The rung that was asked for, which may be "auto"."""
    sent: Ledger
    """Rounds, messages and floats of all agents together, pilot runs included."""
    predicted_w2: float
    """The worst agent's W2 distance from a Gaussian posterior, in posterior sd; nan if unknown."""
    predicted_rounds_per_draw: float
    """The largest autocorrelation time there, in rounds; nan if only a pilot run can measure it."""
    newton_iterations: int = 0
    """Iterations of the search for the mode."""
    pilots: int = 0
    """Pilot runs after which coordinates or step were chosen again, see `pilot`."""

    @property
    def is_exact(self) -> bool:
        """Whether the rung is exact on any posterior, so that a run cannot diverge."""
        return self.rung in RUNGS and RUNGS[self.rung].is_exact

    @property
    def is_pace_known(self) -> bool:
        """Whether rounds per effective draw are known, from the exact law or from a pilot run."""
        return not np.isnan(self.predicted_rounds_per_draw)

    def problem(self, problem: Problem) -> Problem:
        """The posterior in coordinates of unit curvature, split among the agents by degree."""
        tilts = (self.tilt_slope, self.tilt_curvature)
        return problem.affine(self.centre, self.scale, *tilts, NEGLIGIBLE_TILT)

    def coordinates(self, positions: np.ndarray) -> np.ndarray:
        """Unconstrained positions (..., dim) as the z of these coordinates."""
        return frame(self.centre, self.scale, 0).from_original(positions)

    def summary(self) -> str:
        """What was found, in one line."""
        text = (
            f"tuned in {self.sent.rounds} rounds (Newton iterations: {self.newton_iterations}): "
            f"{self.sampler}"
        )
        if not self.is_exact:  # exact rungs propose candidates of another length
            text += f", chosen for a step of {self.step:.3g}"
        if not np.isnan(self.predicted_w2):
            text += f"; predicted for the worst agent W2 = {self.predicted_w2:.3f} sd"
        if self.is_pace_known:
            text += f", {self.predicted_rounds_per_draw:.0f} rounds per effective draw"
        return text

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What all agents have in common, in types that JSON has, and what each has of its own."""
        own = {"tilt_slope": self.tilt_slope, "tilt_curvature": self.tilt_curvature}
        shared = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
        sampler = {"kind": type(self.sampler).__name__, "settings": self.sampler.settings()}
        return {
            **shared,
            **self._coordinates(),
            "sampler": sampler,
            "sent": asdict(self.sent),
        }, own

    @classmethod
    def from_parts(
        cls, shared: dict[str, Any], own: dict[str, np.ndarray], asked: type[Sampler] | None = None
    ) -> Tuning:
        """The tuning of which these are the `parts`.

        `asked` is the class of samplers that was asked for; None if it was left to the ladder.
        """
        kinds = {kind.__name__: kind for kind in BUILT_IN.values()}
        kind = kinds[shared["sampler"]["kind"]] if asked is None else asked
        restored = {
            "centre": np.array(shared["centre"]),
            "scale": np.array(shared["scale"]),
            "sampler": kind(**shared["sampler"]["settings"]),
            "sent": Ledger(**shared["sent"]),
        }
        return cls(**{**shared, **own, **restored})

    def record(self) -> dict[str, Any]:
        """What a saved result says of tuning; not the tilts, which say what an agent's rows are."""
        names = ("step", "rung", "exactness", "newton_iterations", "pilots")
        predictions = ("predicted_w2", "predicted_rounds_per_draw")
        chosen = {name: getattr(self, name) for name in names + predictions}
        return self._coordinates() | chosen | asdict(self.sent)

    def _coordinates(self) -> dict[str, Any]:
        """Centre and scale, in types that JSON has."""
        return {"centre": self.centre.tolist(), "scale": self.scale.tolist()}

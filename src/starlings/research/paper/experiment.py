"""What an experiment is: a table of numbers, a figure drawn from that table alone, and a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Report = Callable[[int, int], None]
"""Called with (pieces done, pieces in all) while an experiment computes."""


@dataclass(frozen=True)
class Settings:
    """How much of the paper to compute."""

    quick: bool = False
    """Fewer trials and a smaller set, but every kind of figure."""
    seed: int = 10

    @property
    def trials(self) -> int:
        """Independent runs behind every Monte Carlo curve; the paper has 100."""
        return 40 if self.quick else 100


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper: `starlings paper NAME` computes the table, then draws it."""

    name: str
    """As typed by a user, such as "fig-linear-5-50"."""
    title: str
    paper: str
    """What the paper shows and claims here, in our words."""
    compute: Callable[[Settings, Report], pd.DataFrame]
    """The numbers, as one long table that is saved as CSV."""
    draw: Callable[[pd.DataFrame], Figure]
    """The figure, from the saved table and nothing else."""
    in_quick: bool = True
    """Whether `--quick` includes it."""
    film: Callable[[pd.DataFrame, Any], None] | None = None
    """Writes STEM.gif beside the figure, given the table and the path's stem."""
    note: str = ""
    """What is ours in the figure and not the paper's."""

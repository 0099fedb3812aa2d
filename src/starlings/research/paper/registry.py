"""All experiments and all claims by name, imported when they are first needed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence

import pandas as pd

from starlings.errors import nearest
from starlings.research.paper.claims import Claim, judge
from starlings.research.paper.experiment import Experiment

MODULES = ("linear", "ablations", "evolution", "logistic", "theorem", "released")
"""The modules of `experiments`, in the order of the paper; MODULE_claims has the claims of each."""


@functools.cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, in the order of the paper."""
    return {e.name: e for name in MODULES for e in _module(name).EXPERIMENTS}


def claims() -> list[Claim]:
    """Every claim, in the order of the experiments."""
    return [claim for name in MODULES for claim in _module(f"{name}_claims").CLAIMS]


def judge_all(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Judge every claim on every table, by the name of its experiment, that it applies to."""
    return judge(claims(), tables)


def select(names: Sequence[str] | None = None, quick: bool = False) -> list[Experiment]:
    """The experiments with these names; without names all, or those that quick runs include."""
    known = experiments()
    if not names:
        return [e for e in known.values() if e.in_quick or not quick]
    for name in names:
        if name not in known:
            raise ValueError(
                f"there is no experiment {name!r}.{nearest(name, known)} "
                f"The names are {', '.join(known)}."
            )
    return [known[name] for name in dict.fromkeys(names)]


def _module(name: str):
    return importlib.import_module(f"starlings.research.paper.experiments.{name}")

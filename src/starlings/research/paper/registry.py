"""All experiments by name, loaded when first asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence

from starlings.errors import nearest
from starlings.research.paper.base import Experiment

MODULES = ("linear", "ablations", "evolution", "logistic", "theorem", "released")


@functools.cache
def experiments() -> dict[str, Experiment]:
    """Every experiment, in the order of the paper."""
    modules = [importlib.import_module(f"starlings.research.paper.{name}") for name in MODULES]
    return {e.name: e for module in modules for e in module.EXPERIMENTS}


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

"""What `starlings compare` does besides comparing: names of samplers, and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlings.comparison.samplers.comparison import Comparison
from starlings.samplers import Sampler
from starlings.samplers.names import all_samplers, find_sampler, name_of
from starlings.study.study import Study
from starlings.system.extras import check_installed
from starlings.system.files import check_replaceable

FIGURES = (".pdf", ".png", ".svg")
"""Endings of the names of figures."""
KINDS = (*FIGURES, ".csv", ".json")
"""Endings of the names of all files that a comparison can become."""


def samplers_of(plan: Study, names: str | None) -> dict[str, Any]:
    """The samplers to compare, by name.

    Args:
        plan: a study; modules in the folder of its file can be named.
        names: names separated by commas; None for all samplers, and the study's own settings.
    """
    if names is not None:
        asked = dict.fromkeys(name.strip() for name in names.split(","))
        return {name: find_sampler(name, plan.path.parent) for name in asked}
    found: dict[str, Any] = dict(all_samplers())
    own = plan.make_sampler()
    if isinstance(own, Sampler):
        found[f"{name_of(type(own))} of the study"] = own
    return found


def check_output(output: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if output.suffix not in KINDS:
        raise ValueError(f"--output must end in one of {', '.join(KINDS)}, got {output.name!r}.")
    if output.suffix in FIGURES:
        check_installed("matplotlib", purpose="a figure of a comparison", extra="plots")
    check_replaceable(output, overwrite, inputs)


def write_output(found: Comparison, output: Path) -> Path:
    """Write a comparison as what the name of the file ends in."""
    if output.suffix in FIGURES:
        from starlings.comparison.samplers.figure import save_figure

        return save_figure(found.plot(), output)
    if output.suffix == ".csv":
        return found.to_csv(output, overwrite=True)
    return found.save(output, overwrite=True)

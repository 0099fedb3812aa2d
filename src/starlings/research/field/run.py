"""From names of cases to a folder: NAME.json with all numbers, NAME.inc with the table, NAME.png.

A case is finished when its numbers are there, of the same version, samplers and lengths. Finished
cases are not computed again; their tables and figures are made again from the numbers. Samplers
with a hub, or at one place, do not run on the network of a case: they are compared once for all
cases with the same posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlings._version import __version__
from starlings.comparison.samplers import Comparison, compare, load_comparison
from starlings.comparison.samplers.figure import save_figure
from starlings.comparison.samplers.places import AS_GIVEN, place_name
from starlings.research.field.cases import Case, chosen
from starlings.research.field.report import as_markdown
from starlings.samplers.names import all_samplers, find_sampler
from starlings.system.extras import check_installed
from starlings.system.progress import print_status

QUICK: dict[str, Any] = {"rounds": 300, "simulated_rounds": 30, "chains": 0}
"""Keywords of `compare` for a quick run; what has no law is left out."""


def run(
    names: Sequence[str] | None = None,
    output: Path | str = Path("output/field"),
    *,
    samplers: Sequence[str] | None = None,
    quick: bool = False,
    force: bool = False,
    progress: bool | None = None,
) -> Path:
    """Compare samplers on some cases, and return the folder of the results.

    Args:
        names: of cases; all of them if None.
        output: the folder, made if it does not exist.
        samplers: their names; all of them if None.
        quick: short curves, by exact laws only.
        force: compute finished cases again.
        progress: show what is done; by default only on a terminal.
    """
    check_installed("matplotlib", purpose="`starlings field`", extra="accuracy")
    folder, cases = Path(output), chosen(names)
    folder.mkdir(parents=True, exist_ok=True)
    asked = list(all_samplers()) if samplers is None else list(samplers)
    elsewhere: dict[str, Comparison] = {}
    for case in cases:
        print_status(f"{case.title} ...", progress)
        write(case, found_of(case, folder, asked, quick, force, progress, elsewhere), folder)
    return folder


def found_of(
    case: Case,
    folder: Path,
    samplers: list[str],
    quick: bool,
    force: bool,
    progress: bool | None,
    elsewhere: dict[str, Comparison],
) -> Comparison:
    """The comparison of a case, read where it is finished; `elsewhere` is that of `compared`."""
    path = folder / f"{case.name}.json"
    how = QUICK if quick else {"simulated_rounds": case.simulated_rounds}
    made_by = {"version": __version__, "samplers": samplers, "quick": quick}
    if path.exists() and not force:
        found = load_comparison(path)
        if found.about.get("made_by") == made_by:
            return found
    found = compared(case, samplers, how | {"progress": progress}, elsewhere)
    found = replace(found, about=found.about | {"made_by": made_by})
    found.save(path, overwrite=True)
    return found


def compared(
    case: Case, samplers: list[str], how: dict[str, Any], elsewhere: dict[str, Comparison]
) -> Comparison:
    """Samplers on one case.

    Args:
        case: the posterior and the network.
        samplers: their names.
        how: keywords of `compare`.
        elsewhere: what was found of samplers that do not run on the network of a case, by the name
            of the posterior; more is added.
    """
    problem, network = case.make()
    here = [name for name in samplers if place_name(find_sampler(name)) == AS_GIVEN]
    if case.posterior is None or len(here) in (0, len(samplers)):
        return compare(problem, network, samplers, **how)
    if case.posterior not in elsewhere:
        others = [name for name in samplers if name not in here]
        elsewhere[case.posterior] = compare(problem, network, others, **how)
    return compare(problem, network, here, **how).joined(elsewhere[case.posterior])


def write(case: Case, found: Comparison, folder: Path) -> None:
    """Write the table and the figure of a case."""
    figure = f"{case.name}.png"
    if found.curves.empty:
        raise ValueError(f"{case.name}: no sampler could be compared; {found.table['reason'][0]}")
    save_figure(found.plot(title=case.title), folder / figure)
    text = as_markdown(found, case.title, f"{folder.name}/{figure}")
    (folder / f"{case.name}.inc").write_text(text, encoding="utf-8")

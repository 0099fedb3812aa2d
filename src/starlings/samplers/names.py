"""Samplers by name, for studies and the command line.

A name is one of these:

    "dadmms"                   a sampler of this library
    "my-sampler"               a sampler of an installed package, which announces it under the
                               entry point group `starlings.samplers`
    "package.module:Class"     any other subclass of `starlings.Sampler`, by where it can be
                               imported from
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from starlings.errors import nearest
from starlings.samplers import (
    CADMM,
    DADMMS,
    DEPSGLD,
    DGLMC,
    DPSGLD,
    DSGHMC,
    DSGLD,
    DULA,
    ELF,
    FALD,
    FSGLD,
    GEXTRA,
    MAHMC,
    MYULA,
    PMALA,
    PULA,
    QLSD,
    SPLA,
    VRFALD,
    AsyncDADMMS,
    DIGing,
    DistributedSGLD,
    EventDULA,
    FedAvgLangevin,
    FedPA,
    GlobalConsensusMC,
    Metropolis,
    MidpointADMMS,
    NetworkGibbs,
    PeerLearning,
    Sampler,
    SplitGibbs,
)
from starlings.samplers.base import Card

ENTRY_POINTS = "starlings.samplers"
"""The entry point group under which an installed package announces its samplers."""
BUILT_IN: Mapping[str, type[Sampler]] = {
    "dadmms": DADMMS,
    "cadmm": CADMM,
    "dsgld": DSGLD,
    "dpsgld": DPSGLD,
    "dsghmc": DSGHMC,
    "dula": DULA,
    "event-dula": EventDULA,
    "gextra": GEXTRA,
    "diging": DIGing,
    "peer-learning": PeerLearning,
    "mahmc": MAHMC,
    "gibbs": NetworkGibbs,
    "depsgld": DEPSGLD,
    "fedpa": FedPA,
    "split-gibbs": SplitGibbs,
    "dg-lmc": DGLMC,
    "gcmc": GlobalConsensusMC,
    "spla": SPLA,
    "pula": PULA,
    "pmala": PMALA,
    "myula": MYULA,
    "midpoint": MidpointADMMS,
    "async-dadmms": AsyncDADMMS,
    "metropolis": Metropolis,
    "fa-ld": FedAvgLangevin,
    "fald": FALD,
    "vr-fald": VRFALD,
    "elf": ELF,
    "distributed-sgld": DistributedSGLD,
    "fsgld": FSGLD,
    "qlsd": QLSD,
}
"""The samplers of this library; no installed package can take one of these names."""


def all_samplers() -> dict[str, type[Sampler]]:
    """The samplers of this library, then those of installed packages, by name.

    A sampler of an installed package that cannot be imported is left out with a warning.
    """
    samplers = dict(BUILT_IN)
    for name, point in _announced().items():
        try:
            samplers[name] = _imported(f"{point.module}:{point.attr}")
        except ValueError as error:
            warnings.warn(str(error), UserWarning, stacklevel=2)
    return samplers


def find_sampler(name: str, folder: Path | None = None) -> type[Sampler]:
    """The class of a sampler.

    Args:
        name: a name as at the top of this file.
        folder: a folder that is searched too for the module of "module:Class", after all folders
            that Python knows: a file module.py there is enough.

    >>> find_sampler("dadmms").__name__
    'DADMMS'
    >>> find_sampler("starlings.samplers.dula:DULA").__name__
    'DULA'
    """
    if ":" in name:
        return _imported(name, folder)
    if name in BUILT_IN:
        return BUILT_IN[name]
    announced = _announced()
    if name in announced:
        return _imported(f"{announced[name].module}:{announced[name].attr}")
    known = [*BUILT_IN, *announced]
    raise ValueError(
        f"no sampler is called {name!r}; the names are {known}, or 'package.module:Class' for a "
        f"class of your own.{nearest(name, known)}"
    )


def name_of(sampler: type[Sampler]) -> str:
    """The name of a class of this library, and otherwise the name that the class itself has.

    >>> name_of(MidpointADMMS)
    'midpoint'
    """
    return next((name for name, kind in BUILT_IN.items() if kind is sampler), sampler.__name__)


def is_tunable(sampler: type[Sampler]) -> bool:
    """Whether the class has a rule `tuned` of its own, by which agents choose its settings.

    >>> is_tunable(DADMMS), is_tunable(DSGLD)
    (True, False)
    """
    owner = next(base for base in sampler.__mro__ if "tuned" in vars(base))
    return owner is not Sampler


def _announced() -> dict[str, EntryPoint]:
    """The entry points of installed packages, by name."""
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {point.name: point for point in points if point.name not in BUILT_IN}


def _imported(place: str, folder: Path | None = None) -> type[Sampler]:
    module_name, _, class_name = place.partition(":")
    try:
        with _searched_last(folder):
            module = importlib.import_module(module_name)
        found = getattr(module, class_name)
    except (ImportError, AttributeError, ValueError) as error:
        beside = "" if folder is None else f", or be a file in {folder.resolve()}"
        raise ValueError(
            f"the sampler {place!r} cannot be imported: {error}. Write 'package.module:Class'; the "
            f"package has to be installed or on PYTHONPATH{beside}."
        ) from None
    if folder is not None:
        _check_origin(module_name, module.__file__, folder)
    return _checked(found, place)


@contextlib.contextmanager
def _searched_last(folder: Path | None) -> Iterator[None]:
    """A context in which modules are searched for in a folder too, after all other folders."""
    place = "" if folder is None else str(folder.resolve())
    if folder is None or place in sys.path:
        yield
        return
    sys.path.append(place)
    importlib.invalidate_caches()  # the file may be newer than Python's list of the folder
    try:
        yield
    finally:
        sys.path.remove(place)


def _check_origin(module: str, origin: str | None, folder: Path) -> None:
    """Refuse a module that is not the file of that name in the folder, where there is one."""
    stem = folder.joinpath(*module.split("."))
    for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
        if file.is_file() and (origin is None or not file.samefile(origin)):
            raise ValueError(
                f"the module {module!r} was imported from {origin} and not from {file}; give one "
                "of the two files another name."
            )


def _checked(found: Any, place: str) -> type[Sampler]:
    if not (isinstance(found, type) and issubclass(found, Sampler)):
        raise ValueError(f"{place!r} is not a subclass of `starlings.Sampler`.")
    if not isinstance(getattr(found, "card", None), Card):
        raise ValueError(f"{place!r} has no `card`; describe it with a `starlings.Card`.")
    return found

"""Write one page for every public name, from `starlings.__all__`, before the pages are read.

The pages go to docs/api, which git ignores. A name is listed by what it is: a module, a sampler
(its home is `starlings.samplers`), an error or a warning, another class, or a function.
"""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from plain_docstrings import translated

import starlings

GROUPS = ("Functions", "Classes", "Samplers", "Errors and warnings", "Modules", "Constants")
"""The headings of the list of names, in order."""

DIRECTIVES = {
    "Functions": "autofunction",
    "Classes": "autoclass",
    "Samplers": "autoclass",
    "Errors and warnings": "autoexception",
    "Modules": "automodule",
    "Constants": "autodata",
}
"""What Sphinx calls a group."""

INTRODUCTION = (
    "These are the public names of ``starlings``. Everything else may change from one version to "
    "the next without notice."
)


def group_of(value: Any) -> str:
    """Return the heading under which something public is listed."""
    if isinstance(value, ModuleType):
        return "Modules"
    if not isinstance(value, type):
        return "Functions" if callable(value) else "Constants"
    if issubclass(value, BaseException):
        return "Errors and warnings"
    return "Samplers" if value.__module__.startswith("starlings.samplers") else "Classes"


def page(name: str, value: Any, group: str) -> str:
    """Return the page of one public name, with the equations of its file where it has any."""
    full = f"starlings.{name}"
    options = ""
    if group == "Modules":
        options = f"   :members: {', '.join(members(value))}\n"
    elif group == "Classes":
        options = f"   :members:\n   :inherited-members: {', '.join(foreign_bases(value))}\n"
    elif group == "Samplers":
        options = "   :members:\n"
    text = f"{full}\n{'=' * len(full)}\n\n.. {DIRECTIVES[group]}:: {full}\n{options}"
    home = None if isinstance(value, ModuleType) else inspect.getmodule(value)
    if home is not None and "(1)" in (home.__doc__ or ""):
        text += f"\nEquations\n---------\n\n.. automodule:: {home.__name__}\n   :no-index:\n"
    return text


def foreign_bases(kind: type) -> list[str]:
    """Return the classes of other packages that a class builds on, whose members are not shown."""
    return [base.__name__ for base in kind.__mro__ if not base.__module__.startswith("starlings")]


def members(module: Any) -> list[str]:
    """Return what a module shows: its `__all__`, or else the functions and classes it defines."""
    shown = getattr(module, "__all__", None)
    if shown is not None:
        return list(shown)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def contents(groups: dict[str, dict[str, Any]]) -> str:
    """Return the page that lists all names with the first sentence of what they say."""
    title = "Public names"
    lines = [title, "=" * len(title), "", INTRODUCTION, ""]
    for group, names in groups.items():
        lines += [group, "-" * len(group), "", ".. list-table::", "   :widths: 30 70", ""]
        for name, value in names.items():
            lines += [f"   * - :doc:`{name} <{name}>`", f"     - {summary(value)}"]
        lines.append("")
    lines += [".. toctree::", "   :hidden:", ""]
    lines += [f"   {name} <{name}>" for names in groups.values() for name in names]
    return "\n".join([*lines, ""])


def summary(value: Any) -> str:
    """Return the first paragraph of a docstring, on one line."""
    described = isinstance(value, type | ModuleType) or callable(value)
    text = (inspect.getdoc(value) or "") if described else ""
    return " ".join(translated([" ".join(text.split("\n\n")[0].split())]))


def write_pages(app: Any) -> None:
    """Write all pages anew, so that none is left of a name that is no longer public."""
    folder = Path(app.srcdir) / "api"
    names = [name for name in starlings.__all__ if not name.startswith("_")]
    values = {name: getattr(starlings, name) for name in sorted(names, key=str.lower)}
    groups = {
        group: {name: value for name, value in values.items() if group_of(value) == group}
        for group in GROUPS
    }
    groups = {group: named for group, named in groups.items() if named}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "index.rst").write_text(contents(groups), encoding="utf-8")
    for group, named in groups.items():
        for name, value in named.items():
            (folder / f"{name}.rst").write_text(page(name, value, group), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write the pages when a build begins."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}

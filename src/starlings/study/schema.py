"""The sections of a study: which keys each may have, and which combinations make sense.

A section has keys of its own, and the arguments of what it chooses: a model, a graph or a sampler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from starlings import models
from starlings.network import Network
from starlings.samplers import Sampler
from starlings.samplers.names import find_sampler, is_tunable
from starlings.sampling import sample
from starlings.study.code_model import CodeSection, code_section
from starlings.study.formula_section import FormulaSection, formula_section
from starlings.study.sections import Key, Pairs, Section, Table, keys_of, read_sections

_REGRESSIONS = ("linear", "logistic", "poisson", "student_t")
_GRAPHS = ("ring", "complete", "star", "path", "grid", "small_world", "no_edges")
MODELS = {f"{name}_regression": getattr(models, f"{name}_regression") for name in _REGRESSIONS}
"""The values of `kind` in [model]."""
HUB = "hub"
"""The value of `graph` with a coordinator, see `starlings.with_hub`."""
GRAPHS = {**{name: getattr(Network, name) for name in _GRAPHS}, HUB: Network.star}
"""The values of `graph` in [network]."""

FROM_THE_STUDY = ("X", "y", "sites", "size", "problem", "network", "sampler", "initial")
"""Arguments of models, graphs and `sample` that come from other parts of the study."""
FROM_THE_COMMAND = ("progress", "output", "overwrite", "checkpoint", "resume")
"""Arguments of `sample` that the command line decides on; `output` is a key of its own."""


def first_names(names: Sequence[str], most: int = 5) -> str:
    """The first names of a list, separated by commas."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


@dataclass(frozen=True)
class ModelSection:
    """The section [model]; `options` are keywords of the regression."""

    kind: str
    outcome: str
    covariates: list[str]
    intercept: bool = True
    standardise: bool = False
    options: Table = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns that the rows need."""
        return [*self.covariates, self.outcome]

    @property
    def title(self) -> str:
        """What is to be inferred, in a few words."""
        return f"{self.kind} of {self.outcome} on {first_names(self.covariates)}"


@dataclass(frozen=True)
class DataSection:
    """The section [data]; it has no `options`."""

    file: str | None = None
    site: str | None = None
    folder: str | None = None
    database: str | None = None
    table: str | None = None
    query: str | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkSection:
    """The section [network]; `options` are keywords of the graph."""

    graph: str | None = None
    edges: Pairs | None = None
    lossy: Table | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class SamplerSection:
    """The section [sampler]; `options` are the fields of the sampler."""

    name: str | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class RunSection:
    """The section [run]; `options` are keywords of `starlings.sample`."""

    output: str | None = None
    options: Table = field(default_factory=dict)


NAMES = ("model", "data", "network", "sampler", "run")
"""The sections of a study."""
OPTIONAL = ("sampler", "run")
"""Those that may be left out."""


class Sections(NamedTuple):
    """All sections of a study, with known keys and values of the right type."""

    model: ModelSection | FormulaSection | CodeSection
    data: DataSection
    network: NetworkSection
    sampler: SamplerSection
    run: RunSection


def read_study(source: Path) -> Sections:
    """Read the sections of a TOML file; an unknown name or a wrong type is an error."""
    return checked_sections(read_sections(source, NAMES, OPTIONAL))


def checked_sections(sections: Mapping[str, Section], has_data: bool = True) -> Sections:
    """The sections of a study, with known keys, values of the right type, and what they agree on.

    Args:
        sections: the sections by name.
        has_data: whether the study says where the rows are. If not, every site adds its own.
    """
    model = sections["model"]
    found = Sections(
        model=_model(model),
        data=sections["data"].read(DataSection, {}),
        network=sections["network"].read(NetworkSection, _graph_keys(sections["network"])),
        sampler=sections["sampler"].read(SamplerSection, _sampler_keys(sections["sampler"])),
        run=sections["run"].read(RunSection, _run_keys()),
    )
    if has_data:
        _check_data(sections["data"], found.data)
    _check_method(sections["run"], found)
    if found.network.lossy is not None:
        lossy = Section(sections["network"].source, "network.lossy", found.network.lossy)
        lossy.check(keys_of(Network.lossy, besides=["self"]))
    if (found.network.graph is None) == (found.network.edges is None):
        raise sections["network"].error(
            'needs either `graph` or `edges`, and not both; write for example graph = "ring".'
        )
    return found


def sampler_class(section: Section) -> type[Sampler]:
    """The class that [sampler] names; its module may be in the folder of the study's file."""
    name = section.text("name")
    try:
        return find_sampler(name, folder=section.source.parent)
    except ValueError as error:
        raise section.error(f"`name`: {error}") from None


def is_to_be_tuned(sampler: type[Sampler], settings: Table) -> bool:
    """Whether the agents choose the settings: none are given, and the class has a rule for it."""
    return not settings and is_tunable(sampler)


def _model(section: Section) -> ModelSection | FormulaSection | CodeSection:
    """The section [model], of one of its sorts."""
    if "build" in section.table:
        return code_section(section)
    if "formula" in section.table:
        return formula_section(section)
    keys = keys_of(section.choice("kind", MODELS), besides=FROM_THE_STUDY)
    model = section.read(ModelSection, keys)
    _check_model(section, model)
    return model


def _graph_keys(section: Section) -> dict[str, Key]:
    if "graph" not in section.table:
        return {}
    return keys_of(section.choice("graph", GRAPHS), besides=FROM_THE_STUDY)


def _sampler_keys(section: Section) -> dict[str, Key]:
    if not section.table:
        return {}
    sampler = sampler_class(section)
    settings = {key: value for key, value in section.table.items() if key != "name"}
    return {} if is_to_be_tuned(sampler, settings) else keys_of(sampler)


def _run_keys() -> dict[str, Key]:
    return keys_of(sample, besides=FROM_THE_STUDY + FROM_THE_COMMAND)


def _check_model(section: Section, model: ModelSection) -> None:
    if not model.covariates and not model.intercept:
        raise section.error(
            "`covariates` is [] and `intercept` is false: there is nothing to infer. Name a "
            "column, or leave `intercept` out."
        )
    names = [*model.covariates, model.outcome, *(["intercept"] if model.intercept else [])]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise section.error(f"names the columns {repeated} more than once; name each only once.")


def _check_method(section: Section, found: Sections) -> None:
    names, options = ("method", "exactness"), found.run.options
    named = {name: options[name] for name in names if options.get(name, "auto") != "auto"}
    if found.sampler.name is not None:
        named["[sampler]"] = found.sampler.name
    if len(named) > 1:
        (first, one), (second, other) = list(named.items())[:2]
        raise section.error(
            f"`{first}` and `{second}` both say how draws are made; got {one!r} and {other!r}. "
            "Leave one of them out."
        )


def _check_data(section: Section, data: DataSection) -> None:
    places = [name for name in ("file", "folder", "database") if getattr(data, name) is not None]
    if len(places) != 1:
        raise section.error("needs either `file` or `folder` or `database`, and only one of them.")
    if data.site is None and places != ["folder"]:
        raise section.error(
            f"needs `site` with a `{places[0]}`: the column that names the site of each row."
        )
    asked = [name for name in ("table", "query") if getattr(data, name) is not None]
    if len(asked) != (places == ["database"]):
        raise section.error(
            "needs either `table` or `query` with a `database`, and neither with anything else."
        )

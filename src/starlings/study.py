"""A study: one TOML file that says which model, data, network and sampler, and how long to run.

    [model]     kind = "logistic_regression" or another regression of `starlings.models`, outcome =
                a column, covariates = columns, and any keyword of that regression.
                A column of ones is added, as in Python; intercept = false leaves it out.
                standardise = true centres and scales every covariate by its pooled mean and
                standard deviation: two numbers per column that the sites then have to share. The
                prior is then that of the standardised coefficients; draws are kept of both, `beta`
                in the original units and `beta_standardised`. Without an intercept columns are
                scaled and not centred.
    [data]      file = a CSV or Parquet file, site = the column that labels each row's site; or
                folder = a folder with one such file for each site, which is called after it.
                Labels are text, without white space around them: 01 and 1 are two sites.
    [network]   graph = "ring" or another helper of `Network`, with its keywords, over the sites in
                sorted order; or edges = [["north", "south"], ...] between sites by name.
    [sampler]   name = "dadmms" or another of `starlings samplers`, and its fields; a schedule is a
                table such as step_size = {scale = 0.1, exponent = 0.5}. Without this section the
                agents tune D-ADMMS themselves.
    [run]       any of draws, chains, burn_in, thin, seed and precision, as in `sample`; output =
                the netCDF file to write. The section may be left out.

Paths are relative to the TOML file.
"""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from starlings import models
from starlings.columns import RowError
from starlings.design import ConstantColumnWarning
from starlings.errors import nearest
from starlings.network import Network
from starlings.problem import Problem
from starlings.samplers import SAMPLERS, Decay
from starlings.sampling import sample
from starlings.site_data import Moments, SiteFile, SiteFolder, Source, moments, standardisation
from starlings.standardising import Standardisation
from starlings.toml_sections import Key, Pairs, Section, Table, keys_of, read_sections

_REGRESSIONS = ("linear", "logistic", "poisson", "student_t")
_GRAPHS = ("ring", "complete", "star", "path", "grid", "small_world", "no_edges")
MODELS = {f"{name}_regression": getattr(models, f"{name}_regression") for name in _REGRESSIONS}
GRAPHS = {name: getattr(Network, name) for name in _GRAPHS}

CHOOSERS: dict[str, tuple[str, dict[str, Any]]] = {
    "model": ("kind", MODELS),
    "network": ("graph", GRAPHS),
    "sampler": ("name", SAMPLERS),
}
"""The key of a section that chooses a function, whose arguments are then keys of the section."""

SUPPLIED = ("X", "y", "sites", "size", "problem", "network", "sampler", "initial", "progress")
"""Arguments that are not keys: a study supplies them, or leaves them alone."""


@dataclass(frozen=True)
class ModelSection:
    """[model]; `options` are the keywords of the regression."""

    kind: str
    outcome: str
    covariates: list[str]
    intercept: bool = True
    standardise: bool = False
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class DataSection:
    """[data]."""

    file: str | None = None
    site: str | None = None
    folder: str | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkSection:
    """[network]; `options` are the keywords of the graph."""

    graph: str | None = None
    edges: Pairs | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class SamplerSection:
    """[sampler]; `options` are the sampler's fields."""

    name: str | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class RunSection:
    """[run]; `options` are keywords of `sample`."""

    output: str | None = None
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A study whose names and types are checked; its parts are built when asked for.

    study = Study.read("hospitals.toml")
    problem = study.make_problem()
    network = study.make_network(problem.sites)
    result = sample(problem, network, study.make_sampler(), **study.run_settings())
    """

    path: Path
    model: ModelSection
    data: DataSection
    network: NetworkSection
    sampler: SamplerSection
    run: RunSection

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a TOML file, refusing any name or type in it that has no meaning."""
        kinds = {name: kind for name, kind in typing.get_type_hints(cls).items() if name != "path"}
        sections = read_sections(Path(path), kinds, optional=["sampler", "run"])
        parts = {
            name: section.read(kinds[name], _option_keys(section))
            for name, section in sections.items()
        }
        _check_columns_named(sections["model"], parts["model"])
        _check_source_named(sections["data"], parts["data"])
        if (parts["network"].graph is None) == (parts["network"].edges is None):
            raise sections["network"].error("needs either `graph` or `edges`, and not both.")
        return cls(Path(path), **parts)

    @property
    def source(self) -> Source:
        """Where the rows are."""
        if self.data.folder is not None:
            return SiteFolder(self.path.parent / self.data.folder)
        assert self.data.file is not None
        assert self.data.site is not None
        return SiteFile(self.path.parent / self.data.file, self.data.site)

    def inputs(self) -> list[Path]:
        """The files that it is read from."""
        data = self.source.path
        return [self.path, *(data.iterdir() if data.is_dir() else [data])]

    def make_problem(
        self, sites: Sequence[str] | None = None, share: Callable[[Moments], Moments] = dict
    ) -> Problem:
        """The model with the rows of all sites, or of some.

        Args:
            sites: those whose rows are read; all if None.
            share: brings the moments of all sites together, where others hold the rest.
        """
        names = [*self.model.covariates, self.model.outcome]
        source, rows = self.source, self.source.read(names, sites)
        X = pd.concat(rows.values())[self.model.covariates]
        scale = None
        if self.model.standardise and self.model.covariates:
            own = {site: moments(frame[self.model.covariates]) for site, frame in rows.items()}
            scale = standardisation(self.model.covariates, share(own), source.path)
            scale = scale if self.model.intercept else scale.without_centring()
            X = scale.of(X)
        y = pd.concat(rows.values())[self.model.outcome]
        numbers = np.repeat(np.arange(len(rows)), [len(frame) for frame in rows.values()])
        try:
            problem = self._modelled(X, y, numbers, is_whole=sites is None).renamed(list(rows))
            return self._in_original_units(problem, scale)
        except RowError as error:
            site = list(rows)[numbers[error.row]]
            place = source.place(site, int(y.index[error.row]))
            raise ValueError(f"{error.text} in {place}.") from None

    def _modelled(
        self, X: pd.DataFrame, y: pd.Series, sites: np.ndarray, is_whole: bool
    ) -> Problem:
        with warnings.catch_warnings():
            if not is_whole:  # what is constant here need not be elsewhere
                warnings.simplefilter("ignore", ConstantColumnWarning)
            settings = {"intercept": self.model.intercept, **self.model.options}
            return MODELS[self.model.kind](X, y, sites, **settings)

    def _in_original_units(self, problem: Problem, scale: Standardisation | None) -> Problem:
        """The problem with what its results keep: where it comes from, and the units of `beta`."""
        sections = {"model": asdict(self.model), "data": asdict(self.data)}
        problem = problem.described(study=self.path.name, **sections)
        if scale is None:
            return problem
        problem = problem.reporting(scale.report(self.model.intercept))
        return problem.described(standardised=scale.record())

    def make_network(self, sites: list[str]) -> Network:
        """The network of the sites of the problem."""
        if self.network.graph is None:
            section = Section(self.path, "network", {})
            return Network(_graph_of(section, sites, self.network.edges or []))
        helper = GRAPHS[self.network.graph]
        takes_size = "size" in inspect.signature(helper).parameters
        size = [len(sites)] if takes_size else []
        try:
            return helper(*size, **self.network.options).matched_to(sites)
        except ValueError as error:
            two = ' Two sites are a "path".' if len(sites) == 2 else ""
            raise Section(self.path, "network", {}).error(
                f'graph = "{self.network.graph}" does not fit {len(sites)} sites: {error}{two}'
            ) from None

    def make_sampler(self) -> Any:
        """The sampler, or None to have it tuned; tables among its fields become schedules."""
        if self.sampler.name is None:
            return None
        fields = {
            name: self._schedule(name, value) if isinstance(value, dict) else value
            for name, value in self.sampler.options.items()
        }
        return SAMPLERS[self.sampler.name](**fields)

    def _schedule(self, name: str, table: Table) -> Decay:
        Section(self.path, f"sampler.{name}", table).check(keys_of(Decay))
        return Decay(**table)

    def run_settings(self, **overrides: Any) -> Table:
        """Keywords for `sample`: those of [run], with every override that is not None."""
        given = {name: value for name, value in overrides.items() if value is not None}
        return {**self.run.options, **given}

    def output_path(self) -> Path:
        """`output` of [run], or else a file of the study's name in the current folder."""
        if self.run.output is None:
            return Path(f"{self.path.stem}.nc")
        return self.path.parent / self.run.output


def _option_keys(section: Section) -> dict[str, Key]:
    """The keys that a section owes to what it chooses: a model, a graph or a sampler."""
    if section.name == "run":
        return keys_of(sample, besides=(*SUPPLIED, "output", "overwrite", "checkpoint", "resume"))
    by_edges = section.name == "network" and "graph" not in section.table
    tuned = section.name == "sampler" and not section.table
    if section.name not in CHOOSERS or by_edges or tuned:
        return {}
    return keys_of(section.choice(*CHOOSERS[section.name]), besides=SUPPLIED)


def _check_columns_named(section: Section, model: ModelSection) -> None:
    if not model.covariates and not model.intercept:
        raise section.error("has no covariates and no intercept: there is nothing to infer.")
    names = [*model.covariates, model.outcome, *(["intercept"] if model.intercept else [])]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise section.error(f"names the columns {repeated} more than once.")


def _check_source_named(section: Section, data: DataSection) -> None:
    if (data.file is None) == (data.folder is None):
        raise section.error("needs either `file` or `folder`, and not both.")
    if (data.file is None) != (data.site is None):
        raise section.error("needs `site` with a `file`, and not with a `folder`.")


def _graph_of(section: Section, sites: list[str], edges: Pairs) -> nx.Graph:
    """A graph with a node for every site, whether or not an edge names it."""
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(sites)
    for edge in edges:
        ends = [str(end) for end in edge]
        if len(ends) != 2:
            raise section.error(f"`edges` must be pairs of sites, got {edge}.")
        for end in ends:
            if end not in graph:
                hint = nearest(end, sites)
                raise section.error(f"`edges` names {end!r}, but the sites are {sites}.{hint}")
        graph.add_edge(*ends)
    return graph

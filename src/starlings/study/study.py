"""A study: one TOML file that says which model, data, network and sampler, and how long to run.

Every section, its keys, their types and their defaults. A key without a default is required.

[model]         What is to be inferred: a regression of one column on others.
    kind            text. "linear_regression", "logistic_regression", "poisson_regression" or
                    "student_t_regression"; see `starlings.models`.
    outcome         text. The column to be explained.
    covariates      list of text. The columns that explain it; may be empty.
    intercept       true or false, default true. Whether to add a column of ones.
    standardise     true or false, default false. Whether to centre and scale every covariate by its
                    mean and standard deviation over the rows of all sites. The sites then share
                    these two numbers for each column, and the prior is that of the standardised
                    coefficients. Draws have both: `beta` in the original units (change of the
                    predictor for one unit of the column) and `beta_standardised`. Without an
                    intercept columns are scaled and not centred.
    ...             the keywords of that regression, such as prior_std, with its defaults.

[data]          Where the rows are: either `file` and `site`, or `folder`. A trial of several
                organisations (see `starlings.sites.trial`) has no such section: there every site
                adds its own rows.
    file            text. A .csv or .parquet file.
    site            text. The column of that file which names the site of each row. Labels are text,
                    without white space around them: 01 and 1 are two sites.
    folder          text. A folder with one .csv or .parquet file for each site, named after it.

[network]       Which sites exchange messages: either `graph` or `edges`.
    graph           text. "ring", "path", "star", "complete", "grid", "small_world" or "no_edges",
                    over the sites in sorted order; see `starlings.Network`. "hub" adds a
                    coordinator without rows, to which all sites are linked, for samplers that need
                    one; see `starlings.with_hub`.
    ...             the keywords of that graph: rows and columns (of "grid"), neighbours, rewire and
                    seed (of "small_world").
    edges           list of pairs of site names, such as [["north", "south"], ["south", "west"]].
    lossy           table, such as {loss = 0.3, delay = 2}. Messages that are lost or late, and
                    sites that are asleep; see `starlings.Network.lossy`. It needs a sampler that
                    goes on without them, such as "async-dadmms".

[sampler]       How to draw, in rounds. Without this section `method` of [run] decides.
    name            text. A name that `starlings samplers` lists, or "package.module:Class" for a
                    subclass of `starlings.Sampler` of your own. The folder of the TOML file is
                    searched too: with a file mine.py beside it, write name = "mine:MySampler".
    ...             the fields of that class. A schedule is a table such as
                    step_size = {scale = 0.1, exponent = 0.5}; see `starlings.Decay`. A penalty is
                    one such as penalty = {kind = "lasso", strength = 2.0}, "group-lasso" or
                    "ridge", and so is a support: {kind = "box", lower = 0.0}, "ball" or "simplex".
                    If no fields are given, and the class has a rule `tuned`, the agents choose
                    them.

[run]           How long to run. The section may be left out.
    draws           whole number, default 1000. Draws recorded in each chain.
    method          text, default "auto": the method with the fewest network rounds. "weights",
                    "weights-metropolis", "hmc", "consensus", "parametric", "nonparametric",
                    "semiparametric", "dadmms", or a rung of its ladder of exactness.
    chains          whole number. Independent chains; by default the method chooses, or 4.
    burn_in         whole number of rounds, default 500 for each round that the sampler needs to
                    move once. Dropped before the first draw.
    thin            whole number of rounds, default 1, or as tuned. From one draw to the next. Best
                    a multiple of the rounds that the sampler needs to move once.
    seed            whole number, default 0. The same seed gives the same draws.
    output          text, default STUDY.nc in the current folder. The netCDF file to write.
    ...             further keywords of `starlings.sample`: precision, exactness, check,
                    checkpoint_every.

Paths are relative to the folder of the TOML file.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from starlings.errors import ConstantColumnWarning, nearest
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.columns import RowError
from starlings.problem.hub import with_hub
from starlings.problem.penalties import PENALTIES, Penalty
from starlings.problem.supports import SUPPORTS
from starlings.samplers import Decay, Sampler
from starlings.study.schema import (
    GRAPHS,
    HUB,
    MODELS,
    DataSection,
    ModelSection,
    NetworkSection,
    RunSection,
    SamplerSection,
    is_to_be_tuned,
    read_study,
    sampler_class,
)
from starlings.study.sections import Pairs, Section, Table, keys_of
from starlings.study.sources import Moments, SiteFile, SiteFolder, Source, moments, standardisation
from starlings.study.standardising import Standardisation
from starlings.study.tables import ColumnError


@dataclass(frozen=True)
class Study:
    """A study whose keys and types have been checked; its methods make the parts of a run.

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
    own_source: Source | None = None
    """The rows of one site, for a study whose file has no section [data]."""

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a TOML file; an unknown key or a value of the wrong type is an error."""
        return cls(Path(path), *read_study(Path(path)))

    @property
    def source(self) -> Source:
        """The file or folder with the rows."""
        if self.own_source is not None:
            return self.own_source
        if self.data.folder is not None:
            return SiteFolder(self.path.parent / self.data.folder)
        if self.data.file is None or self.data.site is None:
            raise ValueError(
                f"{self.path} has no section [data]: every site names its own rows. Give them "
                "with `--data` (in Python `own_source`)."
            )
        return SiteFile(self.path.parent / self.data.file, self.data.site)

    def inputs(self) -> list[Path]:
        """All files that the study is read from, which no output may replace."""
        data = self.source.path
        return [self.path, *(data.iterdir() if data.is_dir() else [data])]

    def make_problem(
        self, sites: Sequence[str] | None = None, share: Callable[[Moments], Moments] = dict
    ) -> Problem:
        """The model with the rows of all sites, or of some.

        Args:
            sites: the sites whose rows are read; all if None.
            share: called with the moments of these sites, returns those of all sites. Needed for
                `standardise` if other processes have the other sites.
        """
        columns = [*self.model.covariates, self.model.outcome]
        source, rows = self.source, self._rows(columns, sites)
        scale = self._standardisation(rows, share)
        X = pd.concat(rows.values())[self.model.covariates]
        y = pd.concat(rows.values())[self.model.outcome]
        numbers = np.repeat(np.arange(len(rows)), [len(frame) for frame in rows.values()])
        try:
            X = X if scale is None else scale.of(X)
            problem = self._regression(X, y, numbers, has_all_rows=sites is None)
            problem = self._described(problem.renamed(list(rows)), scale)
            return self._coordinated(problem, has_all_rows=sites is None)
        except RowError as error:
            site = list(rows)[numbers[error.row]]
            place = source.place(site, int(y.index[error.row]))
            raise ValueError(f"{error.text} in {place}.") from None

    def _rows(self, columns: list[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """The columns of the sites; an error names the study too."""
        try:
            return self.source.read(columns, sites)
        except ColumnError as error:
            raise ColumnError(f"{self.path}: {error}") from None

    def _standardisation(
        self, rows: Mapping[str, pd.DataFrame], share: Callable[[Moments], Moments]
    ) -> Standardisation | None:
        """The means and standard deviations of the covariates; None if they stay as they are."""
        covariates = self.model.covariates
        if not (self.model.standardise and covariates):
            return None
        local = {site: moments(frame[covariates]) for site, frame in rows.items()}
        scale = standardisation(covariates, share(local), self.source.path)
        return scale if self.model.intercept else scale.without_centring()

    def _regression(
        self, X: pd.DataFrame, y: pd.Series, sites: np.ndarray, has_all_rows: bool
    ) -> Problem:
        with warnings.catch_warnings():
            if not has_all_rows:  # a column that is constant here may vary at other sites
                warnings.simplefilter("ignore", ConstantColumnWarning)
            settings = {"intercept": self.model.intercept, **self.model.options}
            return MODELS[self.model.kind](X, y, sites, **settings)

    def _described(self, problem: Problem, scale: Standardisation | None) -> Problem:
        """The problem with what its results record: its origin, and the units of `beta`."""
        sections = {"model": asdict(self.model), "data": asdict(self.data)}
        problem = problem.with_description(study=self.path.name, **sections)
        if scale is None:
            return problem
        problem = problem.with_report(scale.report(self.model.intercept))
        return problem.with_description(standardised=scale.record())

    def _coordinated(self, problem: Problem, has_all_rows: bool) -> Problem:
        """The problem with a hub, if the network has one."""
        if self.network.graph != HUB:
            return problem
        section = Section(self.path, "network", {})
        if not has_all_rows:
            raise section.error(
                f'graph = "{HUB}" is for runs with all sites in one process: a hub has no rows, '
                'and would need a process of its own. Take graph = "star" and another sampler.'
            )
        name = self.sampler.name
        kind = (
            None if name is None else sampler_class(Section(self.path, "sampler", {"name": name}))
        )
        try:
            return with_hub(problem, HUB, getattr(kind, "prior_at", "sites"))[0]
        except ValueError as error:
            raise section.error(str(error)) from None

    def make_network(self, sites: list[str]) -> Network:
        """The network of the sites of the problem."""
        network = self._reliable_network(sites)
        if self.network.lossy is None:
            return network
        try:
            return network.lossy(**self.network.lossy)
        except ValueError as error:
            raise Section(self.path, "network.lossy", {}).error(str(error)) from None

    def _reliable_network(self, sites: list[str]) -> Network:
        """The network, on which no message is lost."""
        section = Section(self.path, "network", {})
        if self.network.graph is None:
            return Network(_graph(section, sites, self.network.edges or []))
        graph = GRAPHS[self.network.graph]
        takes_size = "size" in inspect.signature(graph).parameters
        size = [len(sites)] if takes_size else []
        try:
            return graph(*size, **self.network.options).matched_to(sites)
        except ValueError as error:
            hint = ' Two sites are a "path".' if len(sites) == 2 else ""
            raise section.error(
                f'graph = "{self.network.graph}" does not fit {len(sites)} sites: {error}{hint}'
            ) from None

    def make_sampler(self) -> Sampler | type[Sampler] | None:
        """What [sampler] names, as `sample` takes it.

        A sampler with its settings; a class, whose settings the agents choose; or None, if they
        choose the class too.
        """
        if self.sampler.name is None:
            return None
        section = Section(self.path, "sampler", {"name": self.sampler.name})
        kind = sampler_class(section)
        if is_to_be_tuned(kind, self.sampler.options):
            return kind
        settings = {
            name: self._of_table(name, value) if isinstance(value, dict) else value
            for name, value in self.sampler.options.items()
        }
        try:
            return kind(**settings)
        except (TypeError, ValueError) as error:
            raise section.error(str(error)) from error

    def _of_table(self, name: str, table: Table) -> Decay | Penalty:
        """A penalty or a support, if the table names one, or a schedule."""
        section = Section(self.path, f"sampler.{name}", table)
        is_penalty = "kind" in table
        kind = section.choice("kind", {**PENALTIES, **SUPPORTS}) if is_penalty else Decay
        own = {key: value for key, value in table.items() if key != "kind"}
        section = replace(section, table=own)
        section.check(keys_of(kind))
        try:
            return kind(**own)
        except ValueError as error:
            raise section.error(str(error)) from error

    def run_settings(self, **overrides: Any) -> Table:
        """Keywords for `sample`: those of [run], with every override that is not None."""
        given = {name: value for name, value in overrides.items() if value is not None}
        return {**self.run.options, **given}

    def output_path(self) -> Path:
        """`output` of [run], or else a file named after the study, in the current folder."""
        if self.run.output is None:
            return Path(f"{self.path.stem}.nc")
        return self.path.parent / self.run.output


def _graph(section: Section, sites: list[str], edges: Pairs) -> nx.Graph:
    """A graph with a node for every site, even if no edge names it."""
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(sites)
    for edge in edges:
        ends = [str(end) for end in edge]
        if len(ends) != 2:
            raise section.error(f"`edges` must be pairs of sites, got {edge}.")
        for end in ends:
            if end not in graph:
                hint = nearest(end, sites)
                raise section.error(
                    f"`edges` names {end!r}, but the sites are {sites}; name one of them.{hint}"
                )
        graph.add_edge(*ends)
    return graph

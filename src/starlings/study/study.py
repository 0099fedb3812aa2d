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

[model]         Or, instead of these keys, a formula; see `starlings.regression`. The columns are
                agreed by sums over the sites: levels, knots, means; no row leaves its site.
    formula         text, such as "readmitted ~ age + C(ward) + bs(stay, df=4)".
    family          text, default "gaussian": the distribution of the outcome, such as "logistic".
    missing         text, "drop" or "error". What to do with rows that have a missing entry; it has
                    to be said where there are any.
    random          text, such as "(1 + age | site)". What varies from site to site.
    offset, weights, trials
                    text. Columns: what is added to the predictor, weights, numbers of trials.
    levels          table, such as {ward = ["A", "B", "C"]}. The levels of categories, the first
                    one the reference. By default those that occur, whose names then leave the site.
    reference       table, such as {ward = "B"}. The level to which the others are compared.
    priors          table, such as {age = "normal(0, 1)"}. Priors of coefficients by their names;
                    often written as a section [model.priors].
    ...             the settings of the family.

[model]         Or a model of your own, in a Python file; see `starlings.study.code_model`.
    build           text. "mymodel.py:build", a file beside the study and a function in it.
    columns         list of text. The columns that the function needs.
    sha256          text. The SHA-256 that the file must have, or it does not run.
    ...             keywords of the function.

[data]          Where the rows are: `file`, `folder` or `database`, and `site`. A trial of several
                organisations (see `starlings.sites.trial`) has no such section: there every site
                adds its own rows.
    file            text. A .csv or .parquet file.
    folder          text. A folder with one .csv or .parquet file for each site, named after it, and
                    then no `site`. With `site`, a folder of .parquet files that are one table; a
                    folder in it may be called hospital=Ashby, and is then a column too.
    database        text. A DuckDB database, which is opened for reading only.
    table           text. A table of the database, ...
    query           text. ... or a query in SQL.
    site            text. The column which names the site of each row. Labels are text, without
                    white space around them: 01 and 1 are two sites.

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
                    "weights-metropolis", "hmc", "marginal-hmc", "consensus", "parametric",
                    "nonparametric", "semiparametric", "dadmms", or a rung of its ladder of
                    exactness.
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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from starlings.formulas import Sums
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.hub import with_hub
from starlings.problem.penalties import PENALTIES, Penalty
from starlings.problem.supports import SUPPORTS
from starlings.samplers import Decay, Sampler
from starlings.study.code_model import CodeModel, CodeSection
from starlings.study.draft import Draft
from starlings.study.formula_section import FormulaSection
from starlings.study.graphs import network_of
from starlings.study.grouped import Database, ParquetFolder
from starlings.study.named_columns import NamedColumns
from starlings.study.schema import (
    HUB,
    DataSection,
    ModelSection,
    NetworkSection,
    RunSection,
    SamplerSection,
    is_to_be_tuned,
    read_study,
    sampler_class,
)
from starlings.study.sections import Section, Table, keys_of
from starlings.study.sources import Moments, SiteFile, SiteFolder, Source
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
    model: ModelSection | FormulaSection | CodeSection
    data: DataSection
    network: NetworkSection
    sampler: SamplerSection
    run: RunSection
    own_source: Source | None = None
    """The rows of one site, for a study whose file has no section [data]."""
    approved: Mapping[str, str] | None = None
    """By name of a Python file: the SHA-256 without which it does not run. None if nobody says."""

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a TOML file; an unknown key or a value of the wrong type is an error."""
        return cls(Path(path), *read_study(Path(path)))

    @property
    def source(self) -> Source:
        """The file or folder with the rows."""
        if self.own_source is not None:
            return self.own_source
        site, folder = self.data.site, self.path.parent
        if self.data.database is not None and site is not None:
            database = folder / self.data.database
            return Database(database, site, self.data.table, self.data.query)
        if self.data.folder is not None and site is not None:
            return ParquetFolder(folder / self.data.folder, site)
        if self.data.folder is not None:
            return SiteFolder(folder / self.data.folder)
        if self.data.file is None or self.data.site is None:
            raise ValueError(
                f"{self.path} has no section [data]: every site names its own rows. Give them "
                "with `--data` (in Python `own_source`)."
            )
        return SiteFile(self.path.parent / self.data.file, self.data.site)

    def inputs(self) -> list[Path]:
        """All files that the study is read from, which no output may replace."""
        data, model = self.source.path, self.model
        code = [self.path.parent / model.file] if isinstance(model, CodeSection) else []
        return [self.path, *code, *(data.rglob("*") if data.is_dir() else [data])]

    def make_problem(
        self, sites: Sequence[str] | None = None, share: Callable[[Moments], Moments] = dict
    ) -> Problem:
        """The model with the rows of all sites, or of some.

        Args:
            sites: the sites whose rows are read; all if None.
            share: called with the moments of these sites, returns those of all sites. Needed for
                `standardise` if other processes have the other sites.
        """
        if isinstance(self.model, FormulaSection):
            problem = self.draft(sites).agreed(Sums())
        elif isinstance(self.model, CodeSection):
            problem = self._coded(self.model, sites)
        else:
            named = NamedColumns(self.path, self.model, self.source)
            problem = named.problem(sites, share, self._sections())
        return self._coordinated(problem, has_all_rows=sites is None)

    @property
    def has_formula(self) -> bool:
        """Whether the sites have to agree on the columns of a formula."""
        return isinstance(self.model, FormulaSection)

    def draft(self, sites: Sequence[str] | None = None) -> Draft:
        """The rows of some sites, or of all, for a model with a formula; see `Draft`."""
        assert isinstance(self.model, FormulaSection)
        return Draft.read(self.path, self.model, self.source, sites, self._sections())

    def problem_of(self, draft: Draft, network: Network) -> Problem:
        """The problem of a process, whose sites agree with all others over a network."""
        problem = self._coordinated(draft.problem(network), has_all_rows=False)
        return problem.part_of(network.names)

    def _coded(self, model: CodeSection, sites: Sequence[str] | None) -> Problem:
        """The problem that a Python file makes of the rows."""
        code = CodeModel.read(model, self.path.parent, self.approved)
        try:
            tables = self.source.tables(model.columns, sites)
        except ColumnError as error:
            raise ColumnError(f"{self.path}: {error}") from None
        return code.problem(tables).with_description(**self._sections())

    def _sections(self) -> dict[str, Any]:
        """What results record of the study."""
        sections = {"model": asdict(self.model), "data": asdict(self.data)}
        return {"study": self.path.name, **sections}

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
        return network_of(self.path, self.network, sites)

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

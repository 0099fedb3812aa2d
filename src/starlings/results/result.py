"""Draws with their names, and what produced them.

A result is an xarray DataTree with two groups: `posterior`, with dimensions (chain, draw, agent,
parameter shape) in constrained space, and `sample_stats`. It saves to one netCDF file.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from starlings.diagnostics.checking import check, recorded_evidence
from starlings.diagnostics.verdict import Check
from starlings.results.about import about_in_words
from starlings.results.answers.answers import Answers
from starlings.results.disclosed import disclosed
from starlings.results.evidence import Evidence, recorded_log_evidence
from starlings.results.groups import (
    GROUPS,
    MAX_CHECKED_BYTES,
    TABLES,
    as_attribute,
    as_dataset,
    check_table_names,
    table_of,
)
from starlings.results.netcdf import file_bytes, open_tree, reading
from starlings.results.result_html import result_html
from starlings.results.told import with_tables_told
from starlings.system.extras import import_extra
from starlings.system.files import atomic_write, check_replaceable, reserve_space
from starlings.system.locks import locked


class Result(Answers):
    """The draws of every agent, and the record of how they were made."""

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree

    @property
    def posterior(self) -> xr.Dataset:
        """The draws, with dimensions (chain, draw, agent, ...)."""
        return self.tree["posterior"].to_dataset()

    @property
    def sample_stats(self) -> xr.Dataset:
        """Disagreement, residuals, and messages and bytes sent, for every draw."""
        return self.tree["sample_stats"].to_dataset()

    @property
    def attrs(self) -> dict[str, Any]:
        """Version, sampler, seed, network and schedule."""
        return dict(self.tree["posterior"].attrs)

    @property
    def interrupted(self) -> str | None:
        """How far an interrupted run came, such as "after 312 of 1000 draws"; None otherwise."""
        return self.attrs.get("interrupted")

    @property
    def log_evidence(self) -> Evidence:
        """The natural logarithm of the marginal likelihood of all rows, with its standard error.

        Results by `sample(..., method="weights")` have it. It is log p(all rows) if likelihood and
        prior are normalised densities, as those of `starlings.models` are: a constant that is left
        out of them changes no draw, and is missing here.
        """
        return recorded_log_evidence(self.attrs)

    def disclosed(self) -> pd.DataFrame:
        """Return what left each site: numbers by kind, who could read them, and what follows.

        One row for each site and kind. No row of a site ever leaves it; what is computed from rows
        does, and may say much about them: see `sample(..., privacy="totals")`.
        """
        return disclosed(self.attrs, [str(name) for name in self.posterior["agent"].values])

    def set_attribute(self, name: str, value: Any) -> None:
        """Record something about how the draws were made, as text or as JSON."""
        for group in GROUPS:
            self.tree[group].attrs[name] = as_attribute(value)

    def check(self, reference: Mapping[str, Any] | None = None) -> Check:
        """Check whether the chains converged, the agents agree, and the law is right.

        Print what is returned for a verdict in words. Without a reference the law is judged by what
        the run recorded: the prediction of its tuning, Stein's identities (see
        `starlings.diagnostics.stein`), the k-hat of importance weights, or the divergences of HMC.

        Args:
            reference: draws of the same posterior from elsewhere (pooled, where that is allowed),
                by parameter name, with one draw per first index.
        """
        found = check(self.posterior, reference=reference, **recorded_evidence(self.attrs))
        return dataclasses.replace(found, interrupted=self.interrupted)

    def with_tables(self, **tables: pd.DataFrame) -> Result:
        """This result with tables beside the draws, for `report`; `save` writes them, too.

        What they tell of a site is added to `disclosed()`.

        Args:
            tables: by name: `alone`, what `starlings.alone` returned, and `predictive_check` and
                `calibration`, the `table` and the `calibration` of `starlings.predictive_check`.
        """
        check_table_names(tables)
        groups = {name: self.tree[name].to_dataset() for name in self.tree.children}
        groups |= {name: as_dataset(table) for name, table in tables.items()}
        told = with_tables_told(self.attrs, tables)
        for name in GROUPS:
            groups[name] = groups[name].assign_attrs(told)
        return Result(xr.DataTree.from_dict(groups))

    def table(self, name: str) -> pd.DataFrame | None:
        """A table that `with_tables` has put beside the draws; None if there is none."""
        check_table_names([name])
        return table_of(self.tree[name].to_dataset()) if name in self.tree.children else None

    def subset_of_agents(self, max_bytes: int) -> Result:
        """Return this result, or one with every n-th agent if the draws exceed `max_bytes`."""
        step = -(-self.posterior.nbytes // max_bytes)
        if step <= 1:
            return self
        few = {
            name: self.tree[name].to_dataset().isel(agent=slice(None, None, step))
            for name in GROUPS
        }
        return Result(xr.DataTree.from_dict(few))

    def _few(self) -> xr.Dataset:
        """The draws, of a subset of the agents if they exceed `MAX_CHECKED_BYTES`."""
        return self.subset_of_agents(MAX_CHECKED_BYTES).posterior

    def report(self, path: str | Path, title: str | None = None, overwrite: bool = False) -> Path:
        """Write one HTML page about this result for people who have never heard of Markov chains.

        The page has the question, the answer as a forest plot with numbers, whether it can be
        relied on, what left each site and how it was run. Everything is in the one file, which
        fetches nothing and runs no script. What each site would find alone, and how the model
        describes its data, is there if `with_tables` has put it into the result.

        Args:
            path: the file to write, such as "report.html".
            title: the title; by default the outcome and the number of sites.
            overwrite: as in `save`.
        """
        from starlings.results.report.page import write_report  # it imports Jinja2

        return write_report(self, path, title, overwrite)

    def to_arviz(self) -> Any:
        """Return what the installed ArviZ takes: InferenceData for 0.x, the DataTree for 1.x."""
        return as_arviz(self.tree, "`Result.to_arviz`")

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write one netCDF file; an error leaves no incomplete file behind.

        Args:
            path: the file to write.
            overwrite: replace a plain file that exists. Anything else that exists, such as a folder
                or a symbolic link, is never replaced.
        """
        target = check_replaceable(path, overwrite)
        with locked(target):
            again = functools.partial(check_replaceable, path, overwrite)
            advice = "The draws are still in memory: make room, or save them elsewhere."
            needs = file_bytes(self.tree.nbytes)
            with atomic_write(target, needs, advice, again) as partial:
                reserve_space(partial, needs)
                self.tree.to_netcdf(partial, engine="h5netcdf")
        return target

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.posterior.sizes[d]} {d}s" for d in ("chain", "draw", "agent"))
        ended = "" if self.interrupted is None else f"; interrupted {self.interrupted}"
        ended += "".join(f"; {line[0].lower()}{line[1:]}" for line in about_in_words(self.attrs))
        names = list(self.posterior.data_vars)
        return f"Result({self.attrs.get('sampler')}; {sizes}; {names}{ended})"

    def _repr_html_(self) -> str:
        return result_html(self)


def as_arviz(tree: xr.DataTree, subject: str) -> Any:
    """Return a tree as what the installed ArviZ takes: InferenceData for 0.x, itself for 1.x.

    Args:
        tree: the groups.
        subject: what needs ArviZ, for the message if it is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces version 1
        arviz = import_extra("arviz", subject, extra="arviz")
    if int(arviz.__version__.split(".")[0]) >= 1:
        return tree
    groups = {n: group.to_dataset() for n, group in tree.children.items() if n not in TABLES}
    return arviz.InferenceData(**groups)


def load(path: str | Path) -> Result:
    """Read all draws of a file that `Result.save` or `sample` wrote into memory."""
    with open_tree(path) as tree, reading(Path(path)):
        return Result(tree.load())


def open_result(path: str | Path) -> Result:
    """Open a file of draws without reading them into memory."""
    return Result(open_tree(path))

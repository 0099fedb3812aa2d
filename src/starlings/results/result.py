"""Draws with their names, and what produced them.

A result is an xarray DataTree with two groups: `posterior`, with dimensions (chain, draw, agent,
parameter shape) in constrained space, and `sample_stats`. It saves to one netCDF file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from starlings._version import __version__
from starlings.diagnostics.statistics import DERIVED
from starlings.diagnostics.verdict import Check, check, recorded_evidence
from starlings.errors import UnreadableFileError
from starlings.network import Network
from starlings.problem import Problem
from starlings.runtime.recording import Record, Schedule, disagreement
from starlings.system.files import check_replaceable, is_sealed, require, reserve, written
from starlings.system.locks import locked

GROUPS = ("posterior", "sample_stats")
Groups = dict[str, xr.Dataset]
"""The groups of a result; unlike a tree they leave memory as soon as nobody has them."""
INTERRUPTED_RUN = "interrupted_run"
"""The attribute that says which run was interrupted, as the folder that keeps it does."""
FILE_OVERHEAD = 2**16
CHUNK_BYTES = 2**18
"""Of a variable in a file that lie together."""


class Result:
    """The draws of every agent, and the record of how they were made."""

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree

    @property
    def posterior(self) -> xr.Dataset:
        """The draws, with dimensions (chain, draw, agent, ...)."""
        return self.tree["posterior"].to_dataset()

    @property
    def sample_stats(self) -> xr.Dataset:
        """Disagreement, residuals, and messages and bytes sent, draw by draw."""
        return self.tree["sample_stats"].to_dataset()

    @property
    def attrs(self) -> dict[str, Any]:
        """Version, sampler, seed, network and schedule."""
        return dict(self.tree["posterior"].attrs)

    @property
    def interrupted(self) -> str | None:
        """Where the run was ended early, such as "after 312 of 1000 draws"; None if it was not."""
        return self.attrs.get("interrupted")

    def note(self, name: str, value: Any) -> None:
        """Keep something more about how the draws were made, in the attributes."""
        for group in GROUPS:
            self.tree[group].attrs[name] = as_attribute(value)

    def check(self, reference: Mapping[str, Any] | None = None) -> Check:
        """Converged, agreed, right? Print what comes back for a verdict in words.

        Without a reference the law is judged by what the run recorded: the prediction of its
        tuning, and Stein's identities (see `starlings.diagnostics.stein`).

        Args:
            reference: draws from elsewhere (pooled, where that is allowed), by parameter name,
                with one draw per first index.
        """
        found = check(self.posterior, reference=reference, **recorded_evidence(self.attrs))
        return dataclasses.replace(found, interrupted=self.interrupted)

    def within(self, most_bytes: int) -> Result:
        """This result, or one with every so-many-th agent where the draws are larger than that."""
        step = -(-self.posterior.nbytes // most_bytes)
        if step <= 1:
            return self
        few = {
            name: self.tree[name].to_dataset().isel(agent=slice(None, None, step))
            for name in GROUPS
        }
        return Result(xr.DataTree.from_dict(few))

    def to_arviz(self) -> Any:
        """What the installed ArviZ works on: InferenceData for 0.x, the DataTree for 1.x."""
        import arviz

        if int(arviz.__version__.split(".")[0]) >= 1:
            return self.tree
        return arviz.InferenceData(posterior=self.posterior, sample_stats=self.sample_stats)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write one netCDF file, through a temporary name so that it is whole or not there.

        A file that exists is replaced only with `overwrite`, and whatever is not a plain file, such
        as a symbolic link, never.
        """
        target = check_replaceable(path, overwrite)
        with locked(target):
            again = functools.partial(check_replaceable, path, overwrite)
            advice = "The draws are still in memory: make room, or save them elsewhere."
            needs = file_bytes(self.tree.nbytes)
            with written(target, needs, advice, again) as partial:
                reserve(partial, needs)
                self.tree.to_netcdf(partial, engine="h5netcdf")
        return target

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.posterior.sizes[d]} {d}s" for d in ("chain", "draw", "agent"))
        ended = "" if self.interrupted is None else f"; interrupted {self.interrupted}"
        names = list(self.posterior.data_vars)
        return f"Result({self.attrs.get('sampler')}; {sizes}; {names}{ended})"


def assembled(
    problem: Problem,
    network: Network,
    sampler: Any,
    schedule: Schedule,
    seed: int,
    precision: str,
    record: Record,
    first: int = 0,
) -> Groups:
    """Raw draws with their names, shapes and constrained values; `first` numbers the first."""
    attributes = describe(sampler, network, schedule, seed, precision)
    posterior = posterior_dataset(problem, record)
    stats = stats_dataset(network, sampler, schedule, record, problem.dim, precision, first)
    numbers = first + np.arange(len(record.position))
    groups = {"posterior": posterior, "sample_stats": stats}
    for name, dataset in groups.items():
        groups[name] = dataset.assign_coords(draw=numbers).assign_attrs(attributes)
    return groups


def as_attribute(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def file_bytes(draws: int) -> int:
    """About what a file takes that holds so many bytes of draws and statistics."""
    return draws + draws // 50 + FILE_OVERHEAD


def write_slabs(slabs: Iterator[Groups], partial: Path) -> None:
    """One netCDF file from results that follow one another along the draws."""
    import h5netcdf

    for number, slab in enumerate(slabs):
        require(partial.parent, file_bytes(sum(dataset.nbytes for dataset in slab.values())))
        if number == 0:
            _write_growing(slab, partial)
            continue
        with h5netcdf.File(partial, "a") as file:
            for group in GROUPS:
                _append(file[group], slab[group])


def _write_growing(slab: Groups, path: Path) -> None:
    """A file to which draws can be appended."""
    for number, (group, dataset) in enumerate(slab.items()):
        how: Any = {"mode": "a" if number else "w", "unlimited_dims": ["draw"]}
        layout = {name: {"chunksizes": _chunk(v)} for name, v in dataset.data_vars.items()}
        dataset.to_netcdf(path, group=group, engine="h5netcdf", encoding=layout, **how)


def _chunk(variable: xr.DataArray) -> tuple[int, ...]:
    """The shape of what lies together: the draws of a slab of some agents, who are read apart."""
    agents = variable.sizes.get("agent", 1)
    together = max(1, min(agents, agents * CHUNK_BYTES // variable.nbytes))
    size = {**variable.sizes, "agent": together}
    return tuple(size[dim] for dim in variable.dims)


def _append(group: Any, dataset: xr.Dataset) -> None:
    before = group.dimensions["draw"].size
    group.resize_dimension("draw", before + dataset.sizes["draw"])
    for name, variable in dataset.variables.items():
        if "draw" in variable.dims:
            place = [slice(before, None) if dim == "draw" else slice(None) for dim in variable.dims]
            group[name][tuple(place)] = variable.values


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote; what is damaged is refused."""
    with opened(path).tree as tree, _said_of(Path(path)):
        return Result(tree.load())


def opened(path: str | Path) -> Result:
    """A result whose draws stay in the file until they are used, and after that."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no result file at {source}.")
    with _said_of(source):
        is_sealed(source)  # an older file is not
        tree = xr.open_datatree(source, engine="h5netcdf", cache=False)
    if "posterior" not in tree.children or "agent" not in tree["posterior"].dims:
        tree.close()
        raise UnreadableFileError(f"{source} holds no draws of agents; starlings did not write it.")
    return Result(tree)


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """One kind of error, whatever a damaged or a strange file leads to."""
    try:
        yield
    except UnreadableFileError as error:
        raise UnreadableFileError(f"{error} Use a backup of it, or run again.") from None
    except Exception as error:
        raise UnreadableFileError(
            f"{path} is not a netCDF file that can be read: it is damaged, cut short, or not a "
            f"result of starlings ({' '.join(str(error).split())}). Use a backup of it, or run "
            "again."
        ) from None


def interrupted_run(path: Path) -> str | None:
    """Which run left a short file here when it was interrupted; None if none did."""
    try:
        with opened(path).tree as tree:
            return tree["posterior"].attrs.get(INTERRUPTED_RUN)
    except (OSError, ValueError):
        return None


def posterior_dataset(problem: Problem, record: Record) -> xr.Dataset:
    """The constrained, named draws."""
    positions = np.moveaxis(record.position, 0, 1)
    variables, coordinates = {}, _coordinates(positions, problem.sites)
    for name, values in problem.reported(positions).items():
        dims = [f"{name}_dim_{axis}" for axis in range(values.ndim - 3)]
        if (labels := problem.labels_of(name)) is not None:
            coordinates[dims[0]] = list(labels)
        notes = {} if name in problem.parameters.blocks else {DERIVED: "from the parameters"}
        variables[name] = (["chain", "draw", "agent", *dims], values, notes)
    return xr.Dataset(variables, coords=coordinates)


def stats_dataset(
    network: Network,
    sampler: Any,
    schedule: Schedule,
    record: Record,
    dim: int,
    precision: str,
    first: int = 0,
) -> xr.Dataset:
    """One value per draw; messages and bytes count from the start of the run."""
    positions = np.moveaxis(record.position, 0, 1)
    chains, draws, agents, _ = positions.shape
    rounds = schedule.round_of(first + np.arange(draws))
    messages = np.multiply.outer(rounds, network.degrees)
    message_bytes = sampler.card.floats(dim) * np.dtype(precision).itemsize
    everywhere = np.broadcast_to(messages, (chains, draws, agents))
    by_agent = ["chain", "draw", "agent"]
    variables = {
        "disagreement": (["chain", "draw"], disagreement(positions)),
        "local_residual": (by_agent, np.moveaxis(record.residual, 0, 1)),
        "messages_sent": (by_agent, everywhere),
        "bytes_sent": (by_agent, everywhere * message_bytes),
    }
    return xr.Dataset(variables, coords=_coordinates(positions, network.names))


def _coordinates(positions: np.ndarray, sites: list[str]) -> dict[str, Any]:
    chains, draws = positions.shape[:2]
    return {"chain": np.arange(chains), "draw": np.arange(draws), "agent": sites}


def _plain(setting: Any) -> Any:
    """A schedule or a number of NumPy or JAX in terms that JSON has."""
    if dataclasses.is_dataclass(setting) and not isinstance(setting, type):
        return dataclasses.asdict(setting)
    return np.asarray(setting).tolist()


def describe(
    sampler: Any, network: Network, schedule: Schedule, seed: int, precision: str
) -> dict[str, Any]:
    """The attributes from which a run can be made again."""
    settings = {field.name: getattr(sampler, field.name) for field in dataclasses.fields(sampler)}
    edges = [[str(a), str(b)] for a, b in network.graph.edges]
    return {
        "inference_library": "starlings",
        "inference_library_version": __version__,
        "sampler": type(sampler).__name__,
        "sampler_settings": json.dumps(settings, default=_plain),
        "seed": seed,
        "precision": precision,
        "burn_in": schedule.burn_in,
        "thin": schedule.thin,
        "network": json.dumps({"agents": network.names, "edges": edges}),
    }

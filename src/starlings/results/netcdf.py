"""Results as netCDF files: written at once or slab by slab, and opened without being read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xarray as xr

from starlings.errors import UnreadableFileError
from starlings.results.groups import GROUPS, Groups
from starlings.system.files import has_checksum, require_space

INTERRUPTED_RUN = "interrupted_run"
"""The attribute with the identity of the run that left an incomplete file when it was interrupted,
which is also in the checkpoint of that run."""
FILE_OVERHEAD = 2**16
"""Bytes of a netCDF file besides its arrays, at most."""
NETCDF_CHUNK_BYTES = 2**18
"""Bytes of a variable that are stored contiguously."""


def file_bytes(draws: int) -> int:
    """Return about how many bytes a file takes that has so many bytes of draws and statistics."""
    return draws + draws // 50 + FILE_OVERHEAD


def write_slabs(slabs: Iterator[Groups], path: Path) -> None:
    """Write one file from results that follow one another along the draws."""
    import h5netcdf

    for number, slab in enumerate(slabs):
        require_space(path.parent, file_bytes(sum(dataset.nbytes for dataset in slab.values())))
        if number == 0:
            _write_extensible(slab, path)
            continue
        with h5netcdf.File(path, "a") as file:
            for group in GROUPS:
                _append(file[group], slab[group])


def _write_extensible(slab: Groups, path: Path) -> None:
    """Write a file to which draws can be appended."""
    for number, (group, dataset) in enumerate(slab.items()):
        how: Any = {"mode": "a" if number else "w", "unlimited_dims": ["draw"]}
        layout = {name: {"chunksizes": _chunk(v)} for name, v in dataset.data_vars.items()}
        dataset.to_netcdf(path, group=group, engine="h5netcdf", encoding=layout, **how)


def _chunk(variable: xr.DataArray) -> tuple[int, ...]:
    """Return the shape of a chunk: all draws of a slab, for some agents.

    Diagnostics read one agent after the other, so chunks are split between agents.
    """
    agents = variable.sizes.get("agent", 1)
    together = max(1, min(agents, agents * NETCDF_CHUNK_BYTES // variable.nbytes))
    size = {**variable.sizes, "agent": together}
    return tuple(size[dim] for dim in variable.dims)


def _append(group: Any, dataset: xr.Dataset) -> None:
    before = group.dimensions["draw"].size
    group.resize_dimension("draw", before + dataset.sizes["draw"])
    for name, variable in dataset.variables.items():
        if "draw" in variable.dims:
            index = [slice(before, None) if dim == "draw" else slice(None) for dim in variable.dims]
            group[name][tuple(index)] = variable.values


def open_tree(path: str | Path) -> xr.DataTree:
    """Open a file of draws; they stay in the file, and are read again whenever they are used."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no result file at {source}.")
    with reading(source):
        has_checksum(source)  # raises for a wrong checksum; files of old versions have none
        tree = xr.open_datatree(source, engine="h5netcdf", cache=False)
    if "posterior" not in tree.children or "agent" not in tree["posterior"].dims:
        tree.close()
        raise UnreadableFileError(f"{source} holds no draws of agents; starlings did not write it.")
    return tree


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged or foreign file raises into an `UnreadableFileError`."""
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
    """Return the identity of the run that left an incomplete file here; None if none did."""
    try:
        with open_tree(path) as tree:
            return tree["posterior"].attrs.get(INTERRUPTED_RUN)
    except (OSError, ValueError):
        return None

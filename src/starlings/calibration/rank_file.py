"""A file of ranks that grows with the replications, and has the settings that made them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from starlings._version import __version__
from starlings.system.files import atomic_write, check_writable, has_checksum

WRITE_INTERVAL = 10
"""Number of replications after which the file is written again."""


@dataclass
class RankFile:
    """The ranks of a calibration, in memory and in a file.

    As a context manager it writes the file when the context ends, also after an error.
    """

    path: Path | None
    """The netCDF file; None to keep the ranks in memory only."""
    settings: dict[str, Any]
    """Everything on which the ranks depend, and the version of this library."""
    saved: xr.DataArray | None = None
    """The ranks that are in the file, (replication, agent, parameter); None if there are none."""
    fresh: list[xr.DataArray] = field(default_factory=list)
    """The ranks that are not yet in the file, one array for each replication."""

    @classmethod
    def open(cls, path: str | Path | None, settings: Mapping[str, Any], force: bool) -> RankFile:
        """Open a file of ranks, with the ranks that it already has.

        Args:
            path: the file, which need not exist; None for ranks in memory only.
            settings: everything on which the ranks depend. A file with other settings is refused.
            force: begin without the ranks of the file.
        """
        described = json.loads(json.dumps({**settings, "version": __version__}))
        if path is None:
            return cls(None, described)
        target = check_writable(path)
        if force or not target.exists():
            return cls(target, described)
        return cls(target, described, _read(target, described))

    @property
    def ranks(self) -> xr.DataArray:
        """All ranks so far, (replication, agent, parameter)."""
        saved = [] if self.saved is None else [self.saved]
        return xr.concat([*saved, *self.fresh], "replication", join="exact")

    def __len__(self) -> int:
        return len(self.fresh) + (0 if self.saved is None else len(self.saved))

    def add(self, ranks: xr.DataArray) -> None:
        """Append the ranks (agent, parameter) of one replication."""
        self.fresh.append(ranks.expand_dims("replication"))
        if len(self.fresh) >= WRITE_INTERVAL:
            self.write()

    def write(self) -> None:
        """Write the file again with all ranks; a crash meanwhile leaves the old file complete."""
        if not self.fresh:
            return
        self.saved, self.fresh = self.ranks, []
        if self.path is not None:
            noted = self.saved.assign_attrs(settings=json.dumps(self.settings))
            with atomic_write(self.path, noted.nbytes) as partial:
                noted.to_netcdf(partial, engine="h5netcdf")

    def __enter__(self) -> RankFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()


def _read(path: Path, settings: dict[str, Any]) -> xr.DataArray:
    """The ranks of a file, if they were made with these settings."""
    try:
        has_checksum(path)  # raises for a damaged file; one of an older version has no checksum
        ranks = xr.load_dataarray(path, engine="h5netcdf")
        made_with = json.loads(ranks.attrs.pop("settings"))
    except (OSError, ValueError, KeyError):
        raise ValueError(
            f"{path} is not a file of ranks that starlings wrote; `force` writes over it."
        ) from None
    names = sorted(made_with.keys() | settings.keys())
    changed = [name for name in names if made_with.get(name) != settings.get(name)]
    if changed:
        raise ValueError(
            f"{path} has ranks that were made with another {' and '.join(changed)}, so this run "
            "cannot continue it; start again with `force`, or choose another `output`."
        )
    return ranks

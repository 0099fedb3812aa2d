"""Ranks as they are made, in a file that is always whole and knows what made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from starlings._version import __version__
from starlings.system.files import atomic_write, check_writable, has_checksum

CHECKPOINT = 10
"""Replications from one writing to the next."""


@dataclass
class RankFile:
    """Ranks (replication, agent, parameter); as a context, it writes what it has on the way out."""

    path: Path | None
    settings: dict[str, Any]
    saved: xr.DataArray | None = None
    fresh: list[xr.DataArray] = field(default_factory=list)
    """Not yet in the file."""

    @classmethod
    def open(cls, path: str | Path | None, settings: Mapping[str, Any], force: bool) -> RankFile:
        """The ranks that a file already has, if it was made with the same settings."""
        described = json.loads(json.dumps({**settings, "version": __version__}))
        if path is None:
            return cls(None, described)
        target = check_writable(path)
        if force or not target.exists():
            return cls(target, described)
        return cls(target, described, _read(target, described))

    @property
    def ranks(self) -> xr.DataArray:
        """All of them."""
        saved = [] if self.saved is None else [self.saved]
        return xr.concat([*saved, *self.fresh], "replication", join="exact")

    def __len__(self) -> int:
        return len(self.fresh) + (0 if self.saved is None else len(self.saved))

    def add(self, ranks: xr.DataArray) -> None:
        """Append those of one replication."""
        self.fresh.append(ranks.expand_dims("replication"))
        if len(self.fresh) >= CHECKPOINT:
            self.write()

    def write(self) -> None:
        """Put the fresh ones into the file, which at any moment is the old one or the new one."""
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
    try:
        has_checksum(path)  # an older file is not
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
            "cannot go on from there; `force` starts anew, or choose another place for the output."
        )
    return ranks

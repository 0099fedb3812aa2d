"""Draws of a posterior as plain arrays, read in pieces of bounded size.

A posterior is an xarray Dataset with dimensions (chain, draw, agent, parameter shape). Its draws
may be in a file that is larger than the memory, so the functions here read a bounded number of
bytes at a time. An entry is one scalar of a parameter, such as `beta[age]`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

DERIVED = "derived"
"""The attribute of a variable that is computed from the parameters instead of being one of them."""
LOCAL = "local"
"""The attribute of a variable of which every agent has its own, so that agents need not agree."""
OWN_SITE, SITE_DIM = "its own site", "site"
"""The agent of such variables in tables with a row for each site, and the dimension of sites."""


@dataclass(frozen=True)
class ReadLimits:
    """How much of the draws is read into memory at once."""

    block_bytes: int = 8 * 2**20
    """Bytes of draws that are in memory at once."""
    max_passes: int = 16
    """Largest number of passes through the file; larger blocks are read rather than more passes."""


READ_LIMITS = ReadLimits()
"""The limits that all statistics use unless they are given others."""


@dataclass(frozen=True)
class Draws:
    """All parameters as one array, with names."""

    values: np.ndarray
    """The draws, with shape (chain, draw, agent, entry)."""
    agents: list[str]
    """Names of the agents."""
    entries: list[str]
    """Names of the entries."""

    @classmethod
    def from_posterior(cls, posterior: xr.Dataset) -> Draws:
        """Read all draws of a posterior into memory."""
        parts = [v.values.reshape(*v.shape[:3], -1) for v in posterior.data_vars.values()]
        agents = [str(name) for name in posterior["agent"].values]
        return cls(np.concatenate(parts, axis=-1), agents, all_entries(posterior))


def entry_names(name: str, draws: xr.DataArray) -> list[str]:
    """Return the name of every entry of one parameter, in the order of its array."""
    labels = [
        draws[dim].values if dim in draws.coords else range(draws.sizes[dim])
        for dim in draws.dims[3:]
    ]
    if not labels:
        return [name]
    grid = np.stack(np.meshgrid(*labels, indexing="ij"), axis=-1).reshape(-1, len(labels))
    return [f"{name}[{', '.join(map(str, entry))}]" for entry in grid]


def all_entries(posterior: xr.Dataset) -> list[str]:
    """Return the name of every entry of every parameter."""
    return [entry for k, v in posterior.data_vars.items() for entry in entry_names(str(k), v)]


def by_site(posterior: xr.Dataset) -> list[xr.Dataset]:
    """Return the variables that all agents share and those of single agents, if there are any.

    The latter have one agent, `OWN_SITE`, and the sites as their first own dimension, so that their
    entries are those of every site, such as `effect[north, age]`.
    """
    own = [name for name, values in posterior.items() if LOCAL in values.attrs]
    if not own:
        return [posterior]
    local = posterior[own].rename(agent=SITE_DIM).expand_dims(agent=[OWN_SITE])
    parts = [posterior.drop_vars(own), local.transpose("chain", "draw", "agent", SITE_DIM, ...)]
    return [part for part in parts if part.data_vars]


def shared(posterior: xr.Dataset) -> xr.Dataset:
    """Return the variables that all agents share."""
    return posterior[[name for name, values in posterior.items() if LOCAL not in values.attrs]]


def is_derived(posterior: xr.Dataset) -> np.ndarray:
    """Return for each entry whether it is computed from the parameters."""
    variables = posterior.data_vars.values()
    return np.concatenate([np.full(math.prod(v.shape[3:]), DERIVED in v.attrs) for v in variables])


def is_local(posterior: xr.Dataset) -> np.ndarray:
    """Return for each entry whether every agent has its own."""
    variables = posterior.data_vars.values()
    return np.concatenate([np.full(math.prod(v.shape[3:]), LOCAL in v.attrs) for v in variables])


def without_derived(posterior: xr.Dataset, besides: Container[str]) -> xr.Dataset:
    """Drop values that are computed from the parameters, except those named in `besides`."""
    return posterior[[n for n, v in posterior.items() if DERIVED not in v.attrs or n in besides]]


def split_along(draws: Any, dim: str, max_bytes: float) -> Iterator[Any]:
    """Split a dataset or an array along one dimension into pieces of about `max_bytes` at most."""
    size = draws.sizes[dim]
    step = max(1, int(size * max_bytes // max(draws.nbytes, 1)))
    for first in range(0, size, step):
        yield draws.isel({dim: slice(first, first + step)})


def entry_blocks(
    draws: xr.Dataset, step: int = 1, limits: ReadLimits = READ_LIMITS
) -> Iterator[np.ndarray]:
    """Yield all entries in order, some at a time, with every `step`-th draw.

    Each block has shape (chain, draw, agent, entry), and costs one pass through the file if the
    draws are in one.
    """
    max_bytes = max(limits.block_bytes * step, draws.nbytes / limits.max_passes)
    for variable in draws.data_vars.values():
        own = variable.dims[3:4]
        for piece in split_along(variable, str(own[0]), max_bytes) if own else (variable,):
            values = _every(piece, step, limits)
            yield values.reshape(*values.shape[:3], -1)


def _every(draws: xr.DataArray, step: int, limits: ReadLimits) -> np.ndarray:
    """Return the values of every `step`-th draw, reading the others in small pieces."""
    selected, first = [], 0
    for piece in split_along(draws, "draw", limits.block_bytes):
        selected.append(np.array(piece.values[:, -first % step :: step]))
        first += piece.sizes["draw"]
    return np.concatenate(selected, axis=1)


def thinning_step(
    draws: xr.Dataset, max_draws: int, dims: Sequence[str] = ("chain", "draw")
) -> int:
    """Return the thinning that leaves at most `max_draws` values of an entry along `dims`."""
    return -(-math.prod(draws.sizes[dim] for dim in dims) // max_draws)


def as_half_chains(posterior: xr.Dataset) -> xr.Dataset:
    """Return a single chain as two chains of half its length."""
    half = posterior.sizes["draw"] // 2
    pieces = [posterior.isel(draw=slice(k * half, (k + 1) * half)) for k in (0, 1)]
    return xr.concat([p.assign_coords(draw=np.arange(half)) for p in pieces], "chain")

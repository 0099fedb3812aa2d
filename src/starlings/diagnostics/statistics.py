"""What can be measured of draws, without a verdict on it.

1. Convergence: rank-normalised split R-hat, and bulk and tail effective draws, of every agent and
   parameter entry, across the replicas of the network (from ArviZ).
2. Agreement: with s the standard deviation of all draws of an entry, x_i those of agent i, and xbar
   the average of the agents at the same chain and draw,

       apart        = (largest - smallest of the agents' means) / s                             (1)
       disagreement = sqrt(mean of (x_i - xbar)^2) / s                                          (2)
       sd_ratio     = largest / smallest of the agents' standard deviations                     (3)

3. Distance from reference draws: for every agent and entry the error of the mean, the ratios of the
   standard deviations and variances, the share of the reference inside the agent's central 50 %
   and 90 % intervals, and

       W2 = sqrt(mean_q (quantile_q(draws) - quantile_q(reference))^2) / s_reference            (4)

   Of all entries jointly, each in units of its s_reference: the mean and the largest W2 of their
   projections on random directions (sliced W2). No distance between finite samples is zero; the
   Monte Carlo floor is what as many draws of the reference as there are effective draws show
   against the rest of the reference.
"""

from __future__ import annotations

import contextlib
import logging
import math
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

DERIVED = "derived"
"""The attribute of a variable that is computed from the parameters, and is none itself."""
LEVELS = (np.arange(200) + 0.5) / 200
INTERVALS = (0.5, 0.9)
NUM_DIRECTIONS = 200
DIRECTIONS_SEED = 0
CONSTANT = 1e-12
"""Of an entry that does not vary, the largest sd for its size: rounding."""
BLOCK_BYTES = 8 * 2**20
"""Of draws that are in memory at once, where they are read from a file."""
MOST_PASSAGES = 16
MOST_DRAWS, QUICK_DRAWS = 2**20, 2**18
"""Of all chains, whose convergence is judged by as many in equal distances."""


@dataclass(frozen=True)
class Draws:
    """All parameters as one array, with names."""

    values: np.ndarray
    """(chain, draw, agent, entry)."""
    owners: np.ndarray
    """(agent, entry): whose draws these are, by name."""
    entries: list[str]

    @classmethod
    def of(cls, posterior: xr.Dataset) -> Draws:
        """The draws of a posterior."""
        parts = [v.values.reshape(*v.shape[:3], -1) for v in posterior.data_vars.values()]
        entries = all_entries(posterior)
        owners = np.repeat(posterior["agent"].values.astype(str)[:, None], len(entries), axis=1)
        return cls(np.concatenate(parts, axis=-1), owners, entries)


@dataclass
class HalfChains:
    """Means and variances of the halves of all chains, gathered while draws are read."""

    count: np.ndarray
    """Draws of a chain in each of (part,): two halves, and what is left of an odd number."""
    mean: np.ndarray
    """(part, chain, agent, entry)."""
    square: np.ndarray
    """The sum of squares about it."""
    scatter: np.ndarray
    """(entry,): the sum of squares of all draws about the average of the agents."""

    @classmethod
    def of(cls, posterior: xr.Dataset) -> HalfChains:
        """Of all draws, of which a few are in memory at a time."""
        half, entries = posterior.sizes["draw"] // 2, len(all_entries(posterior))
        shape = (3, posterior.sizes["chain"], posterior.sizes["agent"], entries)
        found = cls(np.zeros(3), np.zeros(shape), np.zeros(shape), np.zeros(entries))
        for part, (first, last) in enumerate([(0, half), (half, 2 * half), (2 * half, None)]):
            stretch = posterior.isel(draw=slice(first, last))
            for slab in split(stretch, "draw", BLOCK_BYTES):
                found._add(part, Draws.of(slab).values)
        return found

    def _add(self, part: int, values: np.ndarray) -> None:
        """Draws (chain, draw, agent, entry) that follow those that are in already."""
        before, more = self.count[part], values.shape[1]
        mean = values.mean(axis=1)
        away = mean - self.mean[part]
        self.count[part] += more
        self.mean[part] += away * more / self.count[part]
        self.square[part] += ((values - mean[:, None]) ** 2).sum(axis=1)
        self.square[part] += away**2 * before * more / self.count[part]
        apart = values - values.mean(axis=2, keepdims=True)
        self.scatter += (apart**2).sum(axis=(0, 1, 2))

    def of_agents(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of all draws of every agent, (agent, entry)."""
        weight = self.count[:, None, None, None]
        total = self.count.sum() * self.mean.shape[1]
        mean = (weight * self.mean).sum(axis=(0, 1)) / total
        square = self.square + weight * (self.mean - mean) ** 2
        return mean, square.sum(axis=(0, 1)) / total

    def most_suspicious(self) -> np.ndarray:
        """Of every entry the number of the agent whose half-chains have the most unlike means."""
        return self.unlikeness().argmax(axis=0)

    def unlikeness(self) -> np.ndarray:
        """The variance of the means of half-chains over their mean variance, (agent, entry)."""
        within = (self.square[:2] / self.count[:2, None, None, None]).mean(axis=(0, 1))
        between = self.mean[:2].var(axis=(0, 1))
        return between / np.maximum(within, np.finfo(float).tiny)


def split(draws: Any, dim: str, most_bytes: float) -> Iterator[Any]:
    """A dataset or an array in pieces along one dimension, none much larger than that."""
    size = draws.sizes[dim]
    step = max(1, int(size * most_bytes // max(draws.nbytes, 1)))
    for first in range(0, size, step):
        yield draws.isel({dim: slice(first, first + step)})


def all_entries(posterior: xr.Dataset) -> list[str]:
    """Every scalar entry of every parameter by name."""
    return [entry for k, v in posterior.data_vars.items() for entry in entry_names(str(k), v)]


def entry_blocks(draws: xr.Dataset, step: int = 1) -> Iterator[np.ndarray]:
    """All entries in order, some at a time, (chain, draw, agent, entry), of every `step`-th draw.

    In memory is one block, of a sixteenth of all if that is more than `BLOCK_BYTES`: each block
    costs a passage through the file, if the draws are in one.
    """
    most = max(BLOCK_BYTES * step, draws.nbytes / MOST_PASSAGES)
    for variable in draws.data_vars.values():
        own = variable.dims[3:4]
        for piece in split(variable, str(own[0]), most) if own else (variable,):
            values = _every(piece, step)
            yield values.reshape(*values.shape[:3], -1)


def _every(draws: xr.DataArray, step: int) -> np.ndarray:
    """The values of every `step`-th draw, with few others in memory."""
    kept, first = [], 0
    for slab in split(draws, "draw", BLOCK_BYTES):
        kept.append(np.array(slab.values[:, -first % step :: step]))
        first += slab.sizes["draw"]
    return np.concatenate(kept, axis=1)


def step_for(draws: xr.Dataset, most: int, dims: Sequence[str] = ("chain", "draw")) -> int:
    """Which draws to look at, every so-many-th, so that an entry has at most so many."""
    return -(-math.prod(draws.sizes[dim] for dim in dims) // most)


def convergence_table(posterior: xr.Dataset, quick: bool = False) -> pd.DataFrame:
    """R-hat and effective draws of every entry at its worst agents, whose names stand beside.

    A quick look is at one agent for every entry, whose chains differ most.
    """
    names, entries = posterior["agent"].values.astype(str), all_entries(posterior)
    if quick:
        owners = HalfChains.of(posterior).most_suspicious()[None]
        rhat, bulk, tail = _of_agents(posterior, owners[0])[:, None]
    else:
        owners = np.repeat(np.arange(len(names))[:, None], len(entries), axis=1)
        rhat, bulk, tail = _of_all(posterior)
    ess = np.fmin(bulk, tail)
    entry = np.arange(len(entries))
    highest = np.where(np.isnan(rhat), np.inf, rhat).argmax(axis=0)
    fewest = np.where(np.isnan(ess), np.inf, ess).argmin(axis=0)
    columns = {
        "rhat": rhat[highest, entry],
        "rhat_agent": names[owners[highest, entry]],
        "ess": ess[fewest, entry],
        "ess_bulk": bulk.min(axis=0),
        "ess_tail": tail.min(axis=0),
        "ess_agent": names[owners[fewest, entry]],
    }
    return pd.DataFrame(columns, index=entries)


def split_rhat_table(posterior: xr.Dataset) -> pd.DataFrame:
    """Plain split R-hat of every entry at the agent whose chains differ most, without ArviZ.

    With B the variance of the means of n half-chains and W the mean of their variances,
    R-hat = sqrt(1 + B / W).
    """
    halves = HalfChains.of(posterior)
    worst, ratio = halves.most_suspicious(), halves.unlikeness()
    names, entry = posterior["agent"].values.astype(str), np.arange(len(worst))
    columns = {"rhat": np.sqrt(1 + ratio[worst, entry]), "rhat_agent": names[worst]}
    return pd.DataFrame(columns, index=all_entries(posterior))


def in_halves(posterior: xr.Dataset) -> xr.Dataset:
    """A single chain as two of half its length."""
    half = posterior.sizes["draw"] // 2
    pieces = [posterior.isel(draw=slice(k * half, (k + 1) * half)) for k in (0, 1)]
    return xr.concat([p.assign_coords(draw=np.arange(half)) for p in pieces], "chain")


def _of_all(posterior: xr.Dataset) -> np.ndarray:
    """R-hat, bulk and tail effective draws of every agent, (3, agent, entry)."""
    parts, step = [], step_for(posterior, MOST_DRAWS)
    for some in split(posterior, "agent", BLOCK_BYTES * step):
        found = [np.stack(_arviz_diagnostics(values)) for values in entry_blocks(some, step)]
        parts.append(np.concatenate(found, axis=-1))
    return np.concatenate(parts, axis=1)


def _of_agents(posterior: xr.Dataset, agents: np.ndarray) -> np.ndarray:
    """The same of one agent for each entry, (3, entry)."""
    found, step = np.empty((3, len(agents))), step_for(posterior, QUICK_DRAWS)
    for agent in np.unique(agents):
        first = 0
        for values in entry_blocks(posterior.isel(agent=slice(agent, agent + 1)), step):
            here = first + np.flatnonzero(agents[first : first + values.shape[-1]] == agent)
            if len(here) > 0:
                found[:, here] = np.stack(_arviz_diagnostics(values[..., here - first]))[:, 0]
            first += values.shape[-1]
    return found


def _arviz_diagnostics(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """R-hat, and bulk and tail effective draws, each (agent, entry)."""
    dataset = xr.Dataset({"x": (("chain", "draw", "agent", "entry"), values)})
    with warnings.catch_warnings(), _unlogged():
        warnings.simplefilter("ignore")  # ArviZ announces its next version when imported
        try:
            import arviz
        except ImportError:
            raise ModuleNotFoundError(
                "checking draws needs ArviZ; install it with `pip install 'starlings[arviz]'`."
            ) from None
        bulk, tail = (arviz.ess(dataset, method=method) for method in ("bulk", "tail"))
        return tuple(found["x"].values for found in (arviz.rhat(dataset), bulk, tail))


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Without warnings in the log: ArviZ has a logger of its own, which tells of too few draws."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def agreement_table(posterior: xr.Dataset) -> pd.DataFrame:
    """Eq. (1) to (3) of every entry; draws that do not vary at all agree.

    Constant by its nature is an entry that does not vary and is derived from the parameters, or is
    0 or 1 as in a triangular matrix. Other draws that do not vary are stuck.
    """
    halves = HalfChains.of(posterior)
    means, variances = halves.of_agents()
    deviations, number = np.sqrt(variances), posterior["agent"].size
    spread = np.sqrt(variances.mean(axis=0) + means.var(axis=0))
    unit = np.where(spread > 0, spread, 1.0)
    scatter = halves.scatter / (halves.count.sum() * posterior.sizes["chain"] * number)
    smallest = np.where(spread > 0, np.maximum(deviations.min(axis=0), 1e-9 * spread), 1.0)
    columns = {
        "apart": np.ptp(means, axis=0) / unit,  # (1)
        "disagreement": np.sqrt(scatter) / unit,  # (2)
        "sd_ratio": np.where(spread > 0, deviations.max(axis=0) / smallest, 1.0),  # (3)
        "is_constant": (spread <= CONSTANT * np.abs(means).max(axis=0))
        & (_is_derived(posterior) | np.isin(means, (0.0, 1.0)).all(axis=0)),
    }
    return pd.DataFrame(columns, index=all_entries(posterior))


def _is_derived(posterior: xr.Dataset) -> np.ndarray:
    """Of every entry, whether it is computed from the parameters."""
    variables = posterior.data_vars.values()
    return np.concatenate([np.full(math.prod(v.shape[3:]), DERIVED in v.attrs) for v in variables])


def compare(posterior: xr.Dataset, reference: Mapping[str, Any]) -> pd.DataFrame:
    """Every agent's draws of every parameter entry against reference draws."""
    draws, known = _with_reference(posterior, reference)
    rows = []
    for k, entry in enumerate(draws.entries):
        for i, agent in enumerate(draws.owners[:, k]):
            scores = _scores(draws.values[:, :, i, k].ravel(), known[:, k])
            rows.append({"parameter": entry, "agent": str(agent), **scores})
    return pd.DataFrame(rows)


def _scores(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    spread = reference.std()
    ratio = draws.std() / spread
    scores = {
        "mean_error": abs(draws.mean() - reference.mean()) / spread,
        "sd_ratio": ratio,
        "variance_ratio": ratio**2,
        "w2": _w2(np.quantile(draws, LEVELS), np.quantile(reference, LEVELS)) / spread,  # (4)
    }
    for level in INTERVALS:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        scores[f"coverage_{level:.0%}"] = float(np.mean((low <= reference) & (reference <= high)))
    return scores


def sliced_w2(
    posterior: xr.Dataset, reference: Mapping[str, Any], effective_draws: float
) -> pd.DataFrame:
    """The joint law of every agent against reference draws, by eq. (4) in random directions.

    Columns `mean` and `largest` over the directions, and their floors: the same for a stretch of
    the reference with as many draws as are effective (half of them if there are not as many),
    against the rest of the reference.
    """
    draws, known = _with_reference(posterior, reference)
    centre, spread = known.mean(axis=0), known.std(axis=0)
    known = (known - centre) / spread
    own = np.moveaxis((draws.values - centre) / spread, 2, 0)
    count = int(np.clip(np.nan_to_num(effective_draws), 1, len(known) // 2))
    random = np.random.default_rng(DIRECTIONS_SEED)
    directions = random.normal(size=(NUM_DIRECTIONS, len(spread)))
    scores = np.array([_along(own @ u, known @ u, count) for u in directions])
    mean, largest = scores.mean(axis=0), scores.max(axis=0)
    columns = {
        "mean": mean[:-1],
        "largest": largest[:-1],
        "floor_mean": mean[-1],
        "floor_largest": largest[-1],
    }
    return pd.DataFrame(columns, index=draws.owners[:, 0])


def _along(own: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
    """Eq. (4) of every agent in one direction and, last, of `count` draws of the reference."""
    whole, some, rest = (np.quantile(x, LEVELS) for x in (known, known[:count], known[count:]))
    agents = [_w2(np.quantile(draws, LEVELS), whole) for draws in own]
    return np.array([*agents, _w2(some, rest)]) / known.std()


def _w2(own: np.ndarray, known: np.ndarray) -> float:
    """Between laws given by their quantiles at `LEVELS`."""
    return float(np.sqrt(np.mean((own - known) ** 2)))


def _with_reference(
    posterior: xr.Dataset, reference: Mapping[str, Any]
) -> tuple[Draws, np.ndarray]:
    """The draws, and the reference as (draw, entry) in the same order, checked."""
    posterior = without_derived(posterior, besides=reference)
    missing = sorted(set(map(str, posterior.data_vars)) - set(reference))
    if missing:
        raise ValueError(f"`reference` has no draws of {missing}.")
    parts = []
    for name, variable in posterior.data_vars.items():
        known = np.asarray(reference[str(name)], float)
        if known.ndim == 0:
            raise ValueError(f"`reference` of {name!r} must hold draws, got one number.")
        known = known.reshape(len(known), -1)
        size = int(np.prod(variable.shape[3:]))
        if known.shape[1] != size:
            raise ValueError(
                f"`reference` of {name!r} has {known.shape[1]} entries a draw, not {size}."
            )
        if not np.all(np.isfinite(known)) or not np.all(np.ptp(known, axis=0) > 0):
            raise ValueError(f"`reference` of {name!r} must have finite draws that vary.")
        parts.append(known)
    lengths = {len(known) for known in parts}
    if len(lengths) > 1:
        raise ValueError(f"`reference` has parameters with unlike numbers of draws: {lengths}.")
    return Draws.of(posterior), np.concatenate(parts, axis=1)


def without_derived(posterior: xr.Dataset, besides: Container[str]) -> xr.Dataset:
    """The draws without those of values computed from the parameters, besides some by name."""
    kept = [n for n, v in posterior.items() if DERIVED not in v.attrs or n in besides]
    return posterior[kept]


def entry_names(name: str, draws: xr.DataArray) -> list[str]:
    """Every scalar entry of a parameter by name, in the order of its array."""
    labels = [
        draws[dim].values if dim in draws.coords else range(draws.sizes[dim])
        for dim in draws.dims[3:]
    ]
    if not labels:
        return [name]
    grid = np.stack(np.meshgrid(*labels, indexing="ij"), axis=-1).reshape(-1, len(labels))
    return [f"{name}[{', '.join(map(str, entry))}]" for entry in grid]

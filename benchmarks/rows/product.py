"""Potentials at candidates, against the product of matrices that they cannot do without.

With X the rows and Z the candidates, the plain product is, over the same blocks of rows and
candidates, in the same precision,

    sum_r | (X Z')_rs |        for every candidate s                                           (1)

The absolute value costs next to nothing; without it a compiler could sum the rows first.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import starlings as st
from starlings.methods import weights
from starlings.methods.evaluation import FEWEST_CANDIDATES, largest_divisor, potentials_at
from starlings.runtime.buckets import grouped

from ..speed.timing import Settings, alternated, lap, median_ratio, typical
from .data import COEFFICIENTS, DIM, SITES, Table

TITLE = "Against a plain product of matrices"
COLUMNS = {
    "dtype": ("numbers", "s"),
    "rows": ("rows", ",d"),
    "candidates": ("candidates", ",d"),
    "seconds": ("potentials, s", ".3f"),
    "product_seconds": ("product, s", ".3f"),
    "ratio": ("ratio", ".2f"),
    "nanoseconds": ("ns / term", ".4f"),
    "error": ("error, nats", ".1g"),
    "first_seconds": ("first, s", ".2f"),
}
SIZES = {"cpu": (1_000_000, 2048), "gpu": (10_000_000, 8192)}
QUICK_SIZE = (2000, 64)
"""Rows and candidates on each kind of device, and in a quick run."""
DTYPES = ("float64", "float32")
LARGEST_RATIO = 3.0
"""The target on a GPU."""
TEXT = f"""\
The potentials of {SITES} sites at shared candidates need the product of all rows with all
candidates, a number for every row and candidate, and the logarithm of a likelihood for each of
them. `product` is the time of the first alone: the product in the same precision and in blocks of
the same size, whose absolute values are summed over rows. `ratio` is how many times as long the
potentials take, padded rows included. `ns / term` is the time for one row and candidate, in
nanoseconds. `first` is the first call, with compiling. Target: {LARGEST_RATIO:g} on a GPU.

Runs use float64, whatever their `precision`. The reason is in the column `error`, the standard
deviation over the candidates of the difference from float64. The weights of candidates depend on
differences of a few nats between sums over all rows, and these sums are so large that float32 keeps
too little of their differences."""


def measure(settings: Settings, device: str) -> list[dict[str, Any]]:
    """Measure in float64 and in float32, on the default device."""
    rows, candidates = QUICK_SIZE if settings.quick else SIZES[device]
    table = Table.simulated(rows)
    points = np.random.default_rng(1).normal(size=(candidates, DIM))
    with jax.enable_x64(True):
        runs = {dtype: Potentials(table, points, dtype) for dtype in DTYPES}
        exact = runs["float64"].found()
        return [row(runs[dtype], table, exact, settings, device) for dtype in DTYPES]


def row(
    ours: Potentials, table: Table, exact: np.ndarray, settings: Settings, device: str
) -> dict[str, Any]:
    """Time potentials and products in turns."""
    plain = Products(table.X, ours.points, ours.block_bytes)
    laps = alternated({"ours": ours, "plain": plain}, settings)
    seconds, terms = typical(laps["ours"]).wall, len(table.X) * len(ours.points)
    cells = {
        "dtype": str(ours.points.dtype),
        "rows": len(table.X),
        "candidates": len(ours.points),
        "seconds": seconds,
        "product_seconds": typical(laps["plain"]).wall,
        "ratio": median_ratio(laps["ours"], laps["plain"]),
        "nanoseconds": 1e9 * seconds / terms,
        "error": float(np.std(ours.found() - exact)),
        "first_seconds": ours.first_seconds,
    }
    return cells | {"targets": {} if device == "cpu" else {"ratio": [None, LARGEST_RATIO]}}


class Potentials:
    """The potentials of all sites at points (candidate, dim) near the mode, evaluated at a call."""

    def __init__(self, table: Table, points: np.ndarray, dtype: str) -> None:
        moved = table.problem.affine(COEFFICIENTS, 2 * len(table.X) ** -0.5 * np.eye(DIM))
        self.agents = grouped(moved.agents(st.Network.ring(SITES), np.dtype(dtype)))
        self.points, self.num_rows = points.astype(dtype), len(table.X)
        self.block_bytes = weights.block_bytes(self.agents)
        self.first_seconds = lap(self, 1).wall

    def __call__(self, rounds: int) -> None:
        """Evaluate so many times."""
        for _ in range(rounds):
            self._each()

    def found(self) -> np.ndarray:
        """The sums of the potentials over all sites, (candidate,)."""
        return self._each().sum(axis=0, dtype=float)

    def _each(self) -> np.ndarray:
        return potentials_at(self.agents, self.points, self.num_rows, self.block_bytes)


class Products:
    """Eq. (1) for points (candidate, dim), evaluated at a call, in blocks as of potentials."""

    def __init__(self, X: np.ndarray, points: np.ndarray, block_bytes: int) -> None:
        self.candidates = min(FEWEST_CANDIDATES, len(points))
        rows = largest_divisor(len(X) // SITES, block_bytes // 8 // self.candidates)
        self.blocks = jnp.asarray(X.reshape(-1, rows, DIM), points.dtype)
        self.points = points

    def __call__(self, rounds: int) -> None:
        """Evaluate so many times."""
        for _ in range(rounds):
            self.found()

    def found(self) -> np.ndarray:
        """Eq. (1) for every candidate."""
        starts = range(0, len(self.points), self.candidates)
        parts = [_summed(self.blocks, self.points[k : k + self.candidates]) for k in starts]
        return np.concatenate(parts)


@jax.jit
def _summed(blocks: Any, points: Any) -> jax.Array:
    return jax.lax.map(lambda x: jnp.abs(x @ points.T).sum(axis=0), blocks).sum(axis=0)  # (1)

"""On an accelerator: agent-rounds per second, and how much of the memory's speed they use.

The least that a round on quadratic potentials can move, with N agents, C chains, dimension d and
numbers of b bytes: for every agent and chain the position is read and written, the neighbours'
positions are read once, and the dual is read and written; the linear terms and the d x d matrices
of the proximal maps are read once for all chains,

    bytes = b (5 C N d + N (d + d^2))                                                          (1)

The bandwidth is that of a copy of a large array, which reads and writes it, in the same run:

    share = (bytes / seconds per round) / (2 x size of the array / seconds per copy)           (2)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import starlings as st

from .problems import RHO, gaussian
from .timing import LibraryRun, Settings, alternated, median_ratio, typical

TITLE = "On a GPU"
COLUMNS = {
    "case": ("case", "s"),
    "dtype": ("numbers", "s"),
    "agents": ("agents", ",d"),
    "chains": ("chains", ",d"),
    "agent_rounds_per_second": ("agent-rounds / s", ".2e"),
    "gigabytes_per_second": ("GB/s", ",.0f"),
    "copy_gigabytes_per_second": ("copy, GB/s", ",.0f"),
    "share": ("share", ".2f"),
    "cpu_agent_rounds_per_second": ("on the CPU", ".2e"),
    "over_cpu": ("over CPU", ",.0f"),
    "compile_seconds": ("compile s", ".1f"),
}
DIM = 8
"""The dimension of the Gaussian targets."""
LEAST_SHARE = 0.75
"""The target: the share of the bandwidth that a round has to use, eq. (2)."""
TEXT = f"""\
Gaussian targets on a ring in {DIM} dimensions, with the library's default noise. `GB/s` counts
the fewest bytes that a round can move: positions, neighbours' positions, duals, linear terms and
matrices read once, positions and duals written once. `copy` is the speed of a copy of a large array
in the same run, and `share` is the first divided by the second. `on the CPU` are agent-rounds per
second on the processors of the same machine, with fewer agents or chains, and `over CPU` is how
many times as fast the GPU is. Target: a share of
{LEAST_SHARE:.0%}."""
CASES = {"many agents": (1_000_000, 1), "many chains": (100, 10_000)}
CPU_CASES = {"many agents": (100_000, 1), "many chains": (100, 1000)}
QUICK_CASES = {"many agents": (1000, 1), "many chains": (10, 100)}
"""Agents and chains: on the default device, on the CPU, and in a quick run on both."""
DTYPES = ("float32", "float64")
COPY_BYTES, QUICK_COPY_BYTES = 2**31, 2**20
"""The size of the array that is copied, in a full and in a quick run."""


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Measure every case in float32 and float64, on the default device of JAX and on the CPU."""
    cases, cpu_cases = (QUICK_CASES, QUICK_CASES) if settings.quick else (CASES, CPU_CASES)
    return [row for name in cases for row in both(name, cases[name], cpu_cases[name], settings)]


def both(
    name: str, size: tuple[int, int], cpu_size: tuple[int, int], settings: Settings
) -> list[dict[str, Any]]:
    """The rows of one case, with the speed on the CPU beside that on the default device."""
    rows = case_rows(name, *size, settings)
    with jax.default_device(jax.devices("cpu")[0]):
        on_cpu = case_rows(name, *cpu_size, settings)
    for cells, cpu in zip(rows, on_cpu, strict=True):
        cells["cpu_agent_rounds_per_second"] = cpu["agent_rounds_per_second"]
        cells["over_cpu"] = cells["agent_rounds_per_second"] / cpu["agent_rounds_per_second"]
        cells["targets"] = {"share": [LEAST_SHARE, None]}
    return rows


def case_rows(name: str, agents: int, chains: int, settings: Settings) -> list[dict[str, Any]]:
    """A row for each kind of numbers, measured on the default device."""
    problem, network = gaussian(agents, DIM), st.Network.ring(agents)
    return [{"case": name} | row(problem, network, chains, dtype, settings) for dtype in DTYPES]


def row(
    problem: st.Problem, network: st.Network, chains: int, dtype: str, settings: Settings
) -> dict[str, Any]:
    """Time the library and a copy of an array in turns."""
    agents = network.size
    ours = LibraryRun(problem, network, st.DADMMS(RHO), chains, dtype)
    copy = Copies(QUICK_COPY_BYTES if settings.quick else COPY_BYTES)
    laps = alternated({"ours": ours, "copy": copy}, settings)
    moved = bytes_of_a_round(agents, chains, DIM, jnp.dtype(dtype).itemsize)
    seconds, copied = typical(laps["ours"]).wall, 2 * copy.array.nbytes
    return {
        "dtype": dtype,
        "agents": agents,
        "chains": chains,
        "seconds_per_round": seconds,
        "agent_rounds_per_second": agents * chains / seconds,
        "gigabytes_per_second": 1e-9 * moved / seconds,
        "copy_gigabytes_per_second": 1e-9 * copied / typical(laps["copy"]).wall,
        "share": moved / copied * median_ratio(laps["copy"], laps["ours"]),  # (2)
        "compile_seconds": ours.compile_seconds,
    }


def bytes_of_a_round(agents: int, chains: int, dim: int, itemsize: int) -> int:
    """The least number of bytes that a round moves, eq. (1)."""
    return itemsize * (5 * chains * agents * dim + agents * (dim + dim**2))


class Copies:
    """A large array that is copied again and again: the bandwidth of the memory."""

    def __init__(self, size: int) -> None:
        self.array = jnp.zeros(size // 4, jnp.float32)
        self.copy = jax.jit(jnp.copy)

    def __call__(self, rounds: int) -> None:
        """Copy so many times; each copy frees the one before it."""
        for _ in range(rounds):
            self.array = self.copy(self.array)
        jax.block_until_ready(self.array)

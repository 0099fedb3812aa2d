"""What one call of `sample` asks for, checked before anything is computed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from starlings.errors import check_choice, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.shards import digest
from starlings.results.gather import Run
from starlings.results.outputs import DrawBytes, check_rounds
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.recording import Schedule
from starlings.samplers import Sampler
from starlings.sampling.private import privacy_of
from starlings.sampling.starts import everywhere, flat_positions
from starlings.system.progress import Progress, number_of
from starlings.tuning import Tuning

DEFAULT_CHAINS = 4
"""Chains where the caller does not say how many, and the method has no number of its own."""
BURN_IN = 500
"""Default burn-in: cycles of the sampler that are dropped before the first draw. A cycle is the
number of rounds from one new position to the next, see `Sampler.cycle`."""
LARGEST_SEED = 2**63 - 1
"""The largest seed, which is stored as a signed 64-bit integer."""
PROBE_SCALE = 0.1
"""Standard deviation of the points at which a model is evaluated to recognise it when a run is
resumed, in unconstrained coordinates."""

HASHED_DIGITS = 6
"""Decimal places to which potentials are hashed: they are equal where rounding differs."""
HASHED_BYTES = 6
"""Bytes of a hash in one number, which a floating-point number holds exactly."""


@dataclass(frozen=True)
class RequestedSchedule:
    """Draws, burn-in and thinning as the caller gives them; None: a default is used."""

    draws: int
    """Draws recorded in each chain."""
    burn_in: int | None
    """Rounds dropped before the first draw."""
    thin: int | None
    """Rounds from one draw to the next."""

    def __post_init__(self) -> None:
        burn_in, thin = self.burn_in, self.thin
        check_count(1, draws=self.draws, thin=1 if thin is None else thin)
        check_count(0, burn_in=0 if burn_in is None else burn_in)
        check_rounds(Schedule(self.draws, burn_in or 0, 1 if thin is None else thin))

    @property
    def has_rounds(self) -> bool:
        """Whether the caller gave a length in rounds, which only a sampler has."""
        return self.burn_in is not None or self.thin is not None

    def refuse_rounds(self, method: str) -> None:
        """Refuse lengths in rounds for a method that does not run in rounds."""
        for name in ("burn_in", "thin"):
            value = getattr(self, name)
            if value is not None:
                raise ValueError(
                    f"`{name}` is for methods that run in rounds; got {name}={value} and "
                    f"method={method!r}. Leave it out."
                )

    def completed(self, sampler: Sampler, tuning: Tuning | None) -> Schedule:
        """The rounds of the run, with defaults that suit the sampler and what tuning predicts."""
        burn_in = BURN_IN * sampler.cycle if self.burn_in is None else self.burn_in
        thin = self._default_thin(sampler, tuning) if self.thin is None else self.thin
        schedule = Schedule(draws=self.draws, burn_in=burn_in, thin=thin)
        check_rounds(schedule)
        return schedule

    @staticmethod
    def _default_thin(sampler: Sampler, tuning: Tuning | None) -> int:
        """Half of the predicted rounds per effective draw, in whole cycles; 1 without tuning."""
        if tuning is None:
            return 1
        cycles = np.nan_to_num(tuning.predicted_rounds_per_draw) / 2 / sampler.cycle
        return max(1, round(cycles)) * sampler.cycle


class Choice(Protocol):
    """Who chooses how draws are made: the caller, or the agents themselves; see `choice`."""

    @property
    def title(self) -> str:
        """What the announcement of the run says about the method."""

    def identity(self) -> dict[str, str]:
        """What must be equal where a run is resumed."""

    def check(self, request: Request) -> None:
        """Refuse a method that cannot run on this problem and network, or as this is asked for."""

    def num_candidates(self, request: Request) -> int:
        """Weighted candidates that are in memory at once, at least; 0 if there are none."""

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Make the draws."""


@dataclass(frozen=True)
class Request:
    """The arguments of `sample` that decide on the draws."""

    problem: Problem
    network: Network
    """The network, with its nodes in the order of the problem's sites."""
    choice: Choice
    schedule: RequestedSchedule
    chains: int | None
    """Independent chains; None if the method chooses their number."""
    seed: int
    initial: Any
    """Starting positions, as `sample` takes them."""
    precision: str
    """"float64" or "float32"."""
    check: bool = True
    """Whether the draws are examined when the run is over."""

    def __post_init__(self) -> None:
        check_count(1, chains=DEFAULT_CHAINS if self.chains is None else self.chains)
        check_count(0, seed=self.seed)
        if self.seed > LARGEST_SEED:
            raise ValueError(f"`seed` must be below 2**63, got {self.seed}.")
        check_choice(("float64", "float32"), precision=self.precision)
        if self.start is not None:
            everywhere(self.problem, self.start, self.chains)
        self.choice.check(self)

    @property
    def usual_chains(self) -> int:
        """The chains that were asked for, or `DEFAULT_CHAINS`."""
        return DEFAULT_CHAINS if self.chains is None else self.chains

    @property
    def wanted(self) -> int:
        """Effective draws that are asked for, of all chains together."""
        return self.schedule.draws * self.usual_chains

    @property
    def start(self) -> np.ndarray | None:
        """The given positions, unconstrained, of any leading shape; None if none are given."""
        return None if self.initial is None else flat_positions(self.problem, self.initial)

    def size(self) -> DrawBytes:
        """Bytes that the draws take in memory and on disk."""
        draws, chains = self.schedule.draws, self.usual_chains
        candidates = self.choice.num_candidates(self)
        return DrawBytes.estimate(self.problem, draws, chains, self.precision, candidates)

    def identity(self) -> dict[str, Any]:
        """What must be equal where a run is resumed, in types that JSON has."""
        lengths = {"burn_in": self.schedule.burn_in, "thin": self.schedule.thin}
        described: dict[str, Any] = {**self.choice.identity(), "chains": self.chains, **lengths}
        described |= {"seed": self.seed, "precision": self.precision}
        described["privacy"] = privacy_of(self.network)
        if self.start is not None:
            described["initial"] = digest({"initial": self.start})
        if self.network.faults is not None:
            described["faults"] = self.network.faults.described()
        edges = sorted(sorted(map(str, edge)) for edge in self.network.graph.edges)
        return {**described, "sites": self.network.names, "edges": edges}

    def digests(self) -> np.ndarray:
        """Numbers that identify the rows and the model of each local agent, (agent, 3).

        Those of a masked run are hashes: potentials would say how well some points fit the rows.
        """
        points = np.random.default_rng(0).normal(scale=PROBE_SCALE, size=(2, self.problem.dim))
        shards = list(self.problem.shards.values())
        potentials = np.column_stack([self.problem.potentials(point) for point in points])
        if self.network.secrecy is not None:
            return np.array(list(map(_hashed, shards, potentials)))
        return np.column_stack([[digest(rows) for rows in shards], potentials])

    def announcement(self) -> str:
        """What is about to be run, in one line."""
        rows = f"{self.problem.num_rows.sum():,} rows at "
        return (
            f"{'' if self.network.is_distributed else rows}"
            f"{number_of(self.network.size, 'site')}, {number_of(self.problem.dim, 'parameter')}, "
            f"{number_of(self.network.num_edges, 'link')}; {self.choice.title}; "
            f"{self._amount()}"
        )

    def _amount(self) -> str:
        """How many draws are asked for, in words."""
        if self.chains is None:
            return f"{number_of(self.wanted, 'effective draw')}"
        return f"{number_of(self.chains, 'chain')} of {number_of(self.schedule.draws, 'draw')}"


def _hashed(rows: Mapping[str, np.ndarray], potentials: np.ndarray) -> list[float]:
    """Three parts of the SHA-256 of rows and of potentials at some points, to `HASHED_DIGITS`."""
    hashed = hashlib.sha256()
    for name in sorted(rows):
        array = np.ascontiguousarray(rows[name])
        hashed.update(f"{name} {array.shape} {array.dtype.str}".encode())
        hashed.update(array.tobytes())
    hashed.update(" ".join(f"{value:.{HASHED_DIGITS}e}" for value in potentials).encode())
    parts = np.split(np.frombuffer(hashed.digest()[: 3 * HASHED_BYTES], np.uint8), 3)
    return [float(int.from_bytes(bytes(part), "big")) for part in parts]


def matched(problem: Problem, network: Network) -> Network:
    """The network in the order of the problem's sites; raises TypeError for other types."""
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a starlings.Problem, got {type(problem).__name__}.")
    if not isinstance(network, Network):
        raise TypeError(
            f"`network` must be a starlings.Network, got {type(network).__name__}; "
            "wrap a networkx graph with `starlings.Network(graph)`."
        )
    return network.matched_to(problem.sites)

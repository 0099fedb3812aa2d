"""What one call of `sample` asks for, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from starlings.errors import check_choice, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.shards import digest
from starlings.results.outputs import DrawBytes, check_rounds
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.recording import Schedule
from starlings.samplers import Sampler
from starlings.sampling.starts import flat_positions
from starlings.system.progress import Progress, number_of
from starlings.tuning import Tuning

BURN_IN = 500
"""Default burn-in: cycles of the sampler that are dropped before the first draw. A cycle is the
number of rounds from one new position to the next, see `Sampler.cycle`."""
LARGEST_SEED = 2**63 - 1
"""The largest seed, which is stored as a signed 64-bit integer."""
PROBE_SCALE = 0.1
"""Standard deviation of the points at which a model is evaluated to recognise it when a run is
resumed, in unconstrained coordinates."""


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


class Setup(NamedTuple):
    """What is run: a sampler with settings, and the problem in the coordinates it moves in."""

    problem: Problem
    sampler: Sampler
    initial: Any = None
    """Starting positions in those coordinates, as `sample` takes them; None for N(0, I)."""
    tuning: Tuning | None = None
    """What the agents found; None where the caller gave the settings."""


class SamplerChoice(Protocol):
    """Who chooses the sampler and its settings: the caller or the agents, see `choice`."""

    @property
    def title(self) -> str:
        """What the announcement of the run says about the sampler."""

    def identity(self) -> dict[str, str]:
        """What must be equal where a run is resumed."""

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse a sampler that cannot run on this problem and network."""

    def setup(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Setup:
        """The sampler with its settings, found by tuning if the agents choose."""


@dataclass(frozen=True)
class Request:
    """The arguments of `sample` that decide on the draws."""

    problem: Problem
    network: Network
    """The network, with its nodes in the order of the problem's sites."""
    choice: SamplerChoice
    schedule: RequestedSchedule
    chains: int
    """Independent replicas of the whole network."""
    seed: int
    initial: Any
    """Starting positions, as `sample` takes them."""
    precision: str
    """"float64" or "float32"."""

    def __post_init__(self) -> None:
        check_count(1, chains=self.chains)
        check_count(0, seed=self.seed)
        if self.seed > LARGEST_SEED:
            raise ValueError(f"`seed` must be below 2**63, got {self.seed}.")
        check_choice(("float64", "float32"), precision=self.precision)
        self.choice.check(self.problem, self.network)

    @property
    def start(self) -> np.ndarray | None:
        """The given positions, unconstrained, of any leading shape; None if none are given."""
        return None if self.initial is None else flat_positions(self.problem, self.initial)

    def size(self) -> DrawBytes:
        """Bytes that the draws take in memory and on disk."""
        return DrawBytes.estimate(self.problem, self.schedule.draws, self.chains, self.precision)

    def identity(self) -> dict[str, Any]:
        """What must be equal where a run is resumed, in types that JSON has."""
        lengths = {"burn_in": self.schedule.burn_in, "thin": self.schedule.thin}
        described = {**self.choice.identity(), "chains": self.chains, **lengths}
        described |= {"seed": self.seed, "precision": self.precision}
        if self.start is not None:
            described["initial"] = digest({"initial": self.start})
        edges = sorted(sorted(map(str, edge)) for edge in self.network.graph.edges)
        return {**described, "sites": self.network.names, "edges": edges}

    def digests(self) -> np.ndarray:
        """Numbers that identify the rows and the model of each local agent, (agent, 3)."""
        points = np.random.default_rng(0).normal(scale=PROBE_SCALE, size=(2, self.problem.dim))
        rows = [digest(rows) for rows in self.problem.shards.values()]
        return np.column_stack([rows, *(self.problem.potentials(point) for point in points)])

    def announcement(self) -> str:
        """What is about to be run, in one line."""
        rows = f"{self.problem.num_rows.sum():,} rows at "
        return (
            f"{'' if self.network.is_distributed else rows}"
            f"{number_of(self.network.size, 'site')}, {number_of(self.problem.dim, 'parameter')}, "
            f"{number_of(self.network.num_edges, 'link')}; {self.choice.title}; "
            f"{number_of(self.chains, 'chain')} of {number_of(self.schedule.draws, 'draw')}"
        )


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

"""One call of `sample`, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from starlings.errors import check_choice, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.shards import digest
from starlings.results.outputs import Size, check_rounds
from starlings.runtime.recording import Schedule
from starlings.samplers import DADMMS, Sampler
from starlings.samplers.names import is_tunable
from starlings.sampling.starts import flat_positions
from starlings.system.progress import number_of
from starlings.theory import check_stability
from starlings.tuning import EXACTNESS, Tuning

BURN_IN = 500
"""Rounds dropped by default before the first draw, in cycles of the sampler."""
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Request:
    """What is to be drawn: the arguments of `sample` that decide on the draws."""

    problem: Problem
    network: Network
    """In the order of the problem's sites."""
    sampler: Sampler | type[Sampler] | None
    """A sampler with its settings; a class or None where the agents choose the settings."""
    exactness: str
    draws: int
    chains: int
    burn_in: int | None
    thin: int | None
    seed: int
    initial: Any
    precision: str

    def __post_init__(self) -> None:
        thin, burn_in = 1 if self.thin is None else self.thin, self.burn_in or 0
        check_count(1, draws=self.draws, chains=self.chains, thin=thin)
        check_count(0, seed=self.seed, burn_in=0 if self.burn_in is None else self.burn_in)
        if self.seed > LARGEST_SEED:
            raise ValueError(f"`seed` must be below 2**63, got {self.seed}.")
        check_choice(("float64", "float32"), precision=self.precision)
        check_choice(EXACTNESS, exactness=self.exactness)
        check_rounds(Schedule(self.draws, burn_in, thin))
        self._check_sampler()

    def _check_sampler(self) -> None:
        if self.sampler is None:
            return
        check_sampler(self.problem, self.network, self.sampler)
        if self.exactness != "auto":
            raise ValueError(
                f"`exactness` is for runs whose sampler is chosen by tuning; got "
                f"{self.exactness!r} and {self.sampler}. Leave one of them out."
            )

    @property
    def tuned_class(self) -> type[Sampler] | None:
        """The class of samplers to be tuned by its own rule, if that was asked for."""
        return self.sampler if isinstance(self.sampler, type) else None

    @property
    def is_tuned(self) -> bool:
        """Whether the agents choose the settings of the sampler."""
        return self.sampler is None or self.tuned_class is not None

    @property
    def start(self) -> np.ndarray | None:
        """The given positions, unconstrained, of any leading shape; None if none are given."""
        return None if self.initial is None else flat_positions(self.problem, self.initial)

    def size(self) -> Size:
        """What the draws take in memory and on disk."""
        return Size.of(self.problem, self.draws, self.chains, self.precision)

    def schedule(self, sampler: Sampler, tuning: Tuning | None) -> Schedule:
        """The rounds of the run, with defaults for what the caller leaves open."""
        burn_in = BURN_IN * sampler.cycle if self.burn_in is None else self.burn_in
        thin = 1 if self.thin is None else self.thin
        if self.thin is None and tuning is not None:
            cycles = np.nan_to_num(tuning.predicted_rounds_per_draw) / 2 / sampler.cycle
            thin = max(1, round(cycles)) * sampler.cycle
        schedule = Schedule(draws=self.draws, burn_in=burn_in, thin=thin)
        check_rounds(schedule)
        return schedule

    def identity(self) -> dict[str, Any]:
        """What must be the same where a run is resumed, in terms that JSON has."""
        lengths = {"chains": self.chains, "burn_in": self.burn_in, "thin": self.thin}
        described = {"sampler": str(self.sampler), "exactness": self.exactness, **lengths}
        described |= {"seed": self.seed, "precision": self.precision}
        if self.start is not None:
            described["initial"] = digest({"initial": self.start})
        edges = sorted(sorted(map(str, edge)) for edge in self.network.graph.edges)
        return {**described, "sites": self.network.names, "edges": edges}

    def digests(self) -> np.ndarray:
        """Numbers for the rows and the model of each local agent, (agent, 3)."""
        points = np.random.default_rng(0).normal(scale=0.1, size=(2, self.problem.dim))
        rows = [digest(rows) for rows in self.problem.shards.values()]
        return np.column_stack([rows, *(self.problem.potentials(point) for point in points)])

    def announcement(self) -> str:
        """What is about to be run, in one line."""
        rows = f"{self.problem.num_rows.sum():,} rows at "
        how = "the agents tune their sampler"
        if isinstance(self.sampler, Sampler):
            how = self.sampler.card.title
        return (
            f"{'' if self.network.is_distributed else rows}"
            f"{number_of(self.network.size, 'site')}, {number_of(self.problem.dim, 'parameter')}, "
            f"{number_of(self.network.num_edges, 'link')}; {how}; "
            f"{number_of(self.chains, 'chain')} of {number_of(self.draws, 'draw')}"
        )


def matched(problem: Problem, network: Network) -> Network:
    """The network in the order of the problem's sites, if both are what they should be."""
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a starlings.Problem, got {type(problem).__name__}.")
    if not isinstance(network, Network):
        raise TypeError(
            f"`network` must be a starlings.Network, got {type(network).__name__}; "
            "wrap a networkx graph with `starlings.Network(graph)`."
        )
    return network.matched_to(problem.sites)


def check_sampler(problem: Problem, network: Network, sampler: Any) -> None:
    """Refuse what is not a sampler, and one that cannot run on this problem and network."""
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        if not is_tunable(sampler):
            raise TypeError(
                f"`sampler` is the class {sampler.__name__}, which has no rule `tuned` for its "
                f"settings; give them, as in `{sampler.__name__}(...)`."
            )
        return
    if not isinstance(sampler, Sampler):
        raise TypeError(
            "`sampler` must be a `starlings.Sampler`, such as "
            f"`starlings.{DADMMS.__name__}(rho=5.0)`, got {sampler!r}."
        )
    sampler.check(problem, network)
    if not network.is_distributed:  # else no process has all curvatures
        check_stability(problem, network, sampler)

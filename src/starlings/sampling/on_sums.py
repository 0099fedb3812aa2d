"""What runs of the methods on sums have in common: importance weights and lock-step HMC.

Both make the same draws at every site, from one seed: an agent's draws are those of all.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from starlings.errors import NoModeError
from starlings.methods.cards import SumTraffic
from starlings.methods.hmc import SummedChains
from starlings.methods.marginal import integrated, most_nodes
from starlings.methods.proposal import Proposal
from starlings.methods.weights import WeightedCandidates
from starlings.network.gossip import Gossip
from starlings.network.ledger import Ledger
from starlings.problem import Problem
from starlings.results.datasets import Drawer
from starlings.results.gather import Run
from starlings.runtime.checkpoint import OWN, Checkpoint
from starlings.runtime.recording import Record, Recording, Schedule
from starlings.sampling import account
from starlings.sampling.private import privacy_of
from starlings.sampling.request import Request
from starlings.sampling.starts import search_start
from starlings.sampling.undefined import in_words, undefined_sites
from starlings.system.progress import Progress, report_draw
from starlings.tuning.tuner import Coordinates, coordinates_at_mode


@dataclass(frozen=True)
class Outcome:
    """How a method on sums made its draws, for the result."""

    method: str
    drawer: Drawer
    schedule: Schedule
    chains: int
    traffic: SumTraffic
    statistics: dict[str, np.ndarray]
    """Further statistics of every draw by name, (draw, chain)."""
    attributes: dict[str, Any]
    """Further attributes of the result."""


@dataclass
class SumsRun:
    """A run by a method on sums: what this process knows of it, equal at all sites."""

    request: Request
    gossip: Gossip
    progress: Progress
    checkpoint: Checkpoint | None = None
    coordinates: Coordinates | None = None
    """The Gaussian approximation at the mode; None where there is no mode."""
    newton_iterations: int = 0
    candidates: WeightedCandidates = field(default_factory=WeightedCandidates)
    recording: Recording = field(default_factory=Recording)
    chain_arrays: dict[str, np.ndarray] | None = None
    """The state of HMC's chains that a resumed run found; None if there is none."""
    is_located: bool = False
    """Whether the mode has been looked for."""
    choice: dict[str, Any] = field(default_factory=dict)
    """What was chosen, if it was: `method`, and `predicted`, see `predicted_rounds`."""

    @classmethod
    def begun(cls, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> SumsRun:
        """A new run, or what its checkpoint has."""
        run = cls(request, Gossip(request.network), progress, checkpoint)
        if checkpoint is not None:
            arrays, run.recording = checkpoint.restored_shared()
            if arrays is not None:
                run._restore(arrays)
        return run

    @property
    def problem(self) -> Problem:
        """The problem in the coordinates of the Gaussian approximation, or in its own.

        In its own, too, where parameters are local: then draws are recorded in the model's.
        """
        problem = self.request.problem
        if self.coordinates is None or problem.num_local:
            return problem
        return problem.affine(self.coordinates.centre, self.coordinates.scale)

    @property
    def nodes(self) -> int:
        """Nodes in each dimension by which local parameters are integrated out, once chosen."""
        return int(self.choice.get("nodes", most_nodes(self.request.problem)))

    @property
    def summed(self) -> Problem:
        """The problem whose potentials candidates and chains are drawn for.

        Of the shared parameters alone: local ones are integrated out.
        """
        if not self.request.problem.num_local:
            return self.problem
        shared = integrated(self.request.problem, self.nodes)
        if self.coordinates is None:
            return shared
        return shared.affine(self.coordinates.centre, self.coordinates.scale)

    @property
    def is_diagonal(self) -> bool:
        """Whether the scale of the Gaussian approximation is a diagonal matrix."""
        return self.coordinates is not None and self.coordinates.scale.ndim == 1

    def unscaled(self, positions: np.ndarray) -> np.ndarray:
        """Shared positions (..., dim) in the coordinates of the model."""
        if self.coordinates is None:
            return positions
        centre, scale = self.coordinates.centre, self.coordinates.scale
        return centre + (positions * scale if self.is_diagonal else positions @ scale.T)

    def locate(self) -> None:
        """Find the mode and the metric there, unless it has been done."""
        if self.is_located:
            return
        problem, request = self.request.problem, self.request
        start = search_start(problem, request.start, request.seed)
        with self.progress.spinner("tuning: mode and scale of the posterior"):
            try:
                found, self.newton_iterations = coordinates_at_mode(problem, self.gossip, start)
            except NoModeError as error:
                raise NoModeError(f"{error}{self._undefined_at(start)}") from None
        self.coordinates, self.is_located = found, True
        self.save()

    def _undefined_at(self, start: np.ndarray | None) -> str:
        """Which sites give NaN where the search for the mode begins, in words."""
        problem, network = self.request.problem, self.request.network
        first = np.zeros((1, problem.dim))
        if start is not None:
            first[:] = np.atleast_2d(start)[0]
        sums = SummedChains.of(problem, self.gossip)
        return in_words(undefined_sites(network, sums.own(first)))

    def locate_if_possible(self) -> None:
        """Find the mode, if there is one."""
        try:
            self.locate()
        except NoModeError:
            self.is_located = True
            self.save()

    def record(self, positions: np.ndarray) -> None:
        """Record positions (draw, chain, dim) as the draws of every local agent.

        Or positions (draw, chain, agent, dim) as those of each.
        """
        agents, dtype = len(self.request.network.local), np.dtype(self.request.precision)
        each = positions[:, :, None] if positions.ndim == 3 else positions
        everywhere = np.repeat(each.astype(dtype), agents // each.shape[2], axis=2)
        residual = np.zeros(everywhere.shape[:3], dtype)
        self.recording.add(Record(everywhere, residual), len(everywhere))

    def report_draw(self, position: np.ndarray) -> None:
        """Tell who observes the run of a position (dim,), which all agents have in common."""
        names = self.request.problem.coordinate_names[: len(position)]
        report_draw(names, lambda: self.unscaled(position), disagreement=0.0)

    def finished(self, outcome: Outcome) -> Run:
        """The run that is over, with everything that was sent for it."""
        request = self.request
        run = Run(
            self.problem,
            request.network,
            outcome.drawer,
            outcome.schedule,
            request.seed,
            request.precision,
            self.recording,
            outcome.chains,
            outcome.traffic,
            None if self.checkpoint is None else self.checkpoint.folder,
            statistics=outcome.statistics,
        )
        run.add_attributes(
            method=outcome.method,
            newton_iterations=self.newton_iterations,
            privacy=privacy_of(request.network),
            **self.predicted_rounds(),
            **outcome.attributes,
        )
        ledger = account.total(run, self.gossip.ledger)
        account.note_result(ledger, run, own_draws=False, found=run.attributes)
        account.note_local(ledger, run)
        run.attributes |= account.attributes(ledger, run)
        return run

    def predicted_rounds(self) -> dict[str, Any]:
        """What a result says of the rounds that were predicted, if they decided on the method."""
        known = self.choice.get("predicted")
        return {} if known is None else {"predicted_rounds": known}

    def save(self, chains: dict[str, np.ndarray] | None = None) -> None:
        """Save the run, if it has a checkpoint; `chains` is the state of HMC's chains."""
        if self.checkpoint is None:
            return
        ledger = self.gossip.ledger
        arrays = {
            "ledger": np.array([ledger.rounds, ledger.messages, ledger.floats]),
            "kinds": np.array(json.dumps([ledger.kinds, ledger.senders])),
            "newton_iterations": np.array(self.newton_iterations),
            "choice": np.array(json.dumps(self.choice)),
        }
        if self.coordinates is not None:
            arrays |= {"centre": self.coordinates.centre, "scale": self.coordinates.scale}
        arrays |= _candidate_arrays(self.candidates)
        for name, value in (chains or {}).items():
            arrays[name if name.startswith(OWN) else f"chains_{name}"] = value
        self.checkpoint.save_shared(ledger.rounds, self.recording, arrays)

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        rounds, messages, floats = arrays["ledger"].tolist()
        self.gossip.ledger = Ledger(rounds, messages, floats, *json.loads(str(arrays["kinds"])))
        self.request.network.budget.spend(rounds)
        self.newton_iterations = int(arrays["newton_iterations"])
        self.choice = json.loads(str(arrays.get("choice", "{}")))
        if "centre" in arrays:
            self.coordinates = Coordinates(arrays["centre"], arrays["scale"], is_at_mode=True)
        self.candidates, self.is_located = _restored_candidates(arrays), True
        of_chains = {k: v for k, v in arrays.items() if k.startswith(("chains_", OWN))}
        chains = {k.removeprefix("chains_"): v for k, v in of_chains.items()}
        self.chain_arrays = chains or None


def _candidate_arrays(found: WeightedCandidates) -> dict[str, np.ndarray]:
    """Candidates as named arrays, for a checkpoint."""
    if not found.sizes:
        return {}
    proposals = {
        f"proposal_{i}_{name}": np.asarray(value)
        for i, proposal in enumerate(found.proposals)
        for name, value in asdict(proposal).items()
    }
    columns = {name: getattr(found, name) for name in ("points", "potentials", "log_densities")}
    counts = {name: np.array(getattr(found, name)) for name in _BY_BATCH}
    return {**proposals, **columns, **counts}


_BY_BATCH = ("sizes", "drawn_from", "undefined")
"""Fields of candidates with a number for each batch."""


def _restored_candidates(arrays: dict[str, np.ndarray]) -> WeightedCandidates:
    """The candidates of which these are the arrays."""
    if "sizes" not in arrays:
        return WeightedCandidates()
    sizes, drawn_from, undefined = (arrays[name].tolist() for name in _BY_BATCH)
    proposals = [
        Proposal(
            arrays[f"proposal_{i}_centre"],
            arrays[f"proposal_{i}_scale"],
            float(arrays[f"proposal_{i}_heavy_share"]),
        )
        for i in range(max(drawn_from) + 1)
    ]
    columns = {name: arrays[name] for name in ("points", "potentials", "log_densities")}
    return WeightedCandidates(proposals, drawn_from, sizes, **columns, undefined=undefined)

"""Raw draws as labelled datasets: constrained values with names, statistics, and attributes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import xarray as xr

from starlings._version import __version__
from starlings.diagnostics.draws import DERIVED, LOCAL
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.penalties import PENALTIES, Penalty
from starlings.problem.supports import SUPPORTS
from starlings.results.groups import Groups
from starlings.runtime.recording import Record, Schedule, disagreement
from starlings.samplers import Sampler


class Drawer(Protocol):
    """What makes draws, as a result describes it: a sampler, or a method on sums."""

    draws_nothing: ClassVar[bool]

    def settings(self) -> dict[str, Any]:
        """Return the settings by name."""


class Traffic(Protocol):
    """What the agents have sent when a draw is made, from the start of the run."""

    def until(
        self, draws: np.ndarray, agents: np.ndarray, broadcasts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return messages and bytes of some agents until each of these draws.

        Both have the shape (draw, chain, agent), with one chain where all have sent the same.

        Args:
            draws: the numbers of the draws.
            agents: the numbers of the agents.
            broadcasts: `Record.broadcasts` of these draws and agents; None if it is not counted.
        """


@dataclass(frozen=True)
class RoundTraffic:
    """Messages of one size in rounds: in all that `Sampler.messages_until` says, or counted."""

    sampler: Sampler
    network: Network
    schedule: Schedule
    message_bytes: int

    def until(
        self, draws: np.ndarray, agents: np.ndarray, broadcasts: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return messages and bytes of some agents until each of these draws."""
        if broadcasts is None:
            rounds = self.schedule.round_of(draws)
            messages = self.sampler.messages_until(rounds, self.network)[:, None, agents]
        else:
            messages = broadcasts * self.network.degrees[agents]
        return messages, messages * self.message_bytes


@dataclass(frozen=True)
class RunSettings:
    """What was run; together with the problem it determines the draws."""

    network: Network
    agents: np.ndarray
    """The numbers of the agents whose draws these are."""
    sampler: Drawer
    schedule: Schedule
    seed: int
    precision: str
    """The floating-point type of the draws, "float64" or "float32"."""
    traffic: Traffic
    """What the agents have sent when a draw is made."""
    statistics: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Further statistics of every draw by name, (draw, chain)."""

    @property
    def names(self) -> list[str]:
        """The names of those agents."""
        return [self.network.names[i] for i in self.agents]

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of a result, from which the run can be repeated."""
        edges = [[str(a), str(b)] for a, b in self.network.graph.edges]
        network: dict[str, Any] = {"agents": self.network.names, "edges": edges}
        if self.network.faults is not None:
            network["faults"] = self.network.faults.described()
        return {
            "inference_library": "starlings",
            "inference_library_version": __version__,
            "sampler": type(self.sampler).__name__,
            "sampler_settings": json.dumps(self.sampler.settings(), default=_plain),
            "seed": self.seed,
            "precision": self.precision,
            "burn_in": self.schedule.burn_in,
            "thin": self.schedule.thin,
            "network": json.dumps(network),
        }


def labelled(problem: Problem, settings: RunSettings, record: Record, first: int) -> Groups:
    """Return the groups of a result for some draws; `first` is the number of the first draw."""
    attributes = settings.attributes()
    numbers = first + np.arange(len(record.position))
    groups = {
        "posterior": posterior_dataset(problem, record, settings.names),
        "sample_stats": stats_dataset(settings, record, problem.num_shared, first),
    }
    return {
        name: dataset.assign_coords(draw=numbers).assign_attrs(attributes)
        for name, dataset in groups.items()
    }


def posterior_dataset(problem: Problem, record: Record, agents: list[str]) -> xr.Dataset:
    """Return the draws of every parameter and derived value, in constrained space."""
    positions = np.moveaxis(record.position, 0, 1)
    variables, coordinates = {}, _coordinates(positions, agents)
    local = problem.local_names
    for name, values in problem.saved_values(positions).items():
        dims = problem.dims_of(name, values.ndim - 3)
        coordinates.update(problem.axis_labels(dims))
        if (labels := problem.labels_of(name)) is not None:
            coordinates[dims[0]] = list(labels)
        is_parameter = name in problem.parameters.blocks
        attributes = {} if is_parameter else {DERIVED: "from the parameters"}
        attributes |= {LOCAL: "each agent has its own"} if name in local else {}
        variables[name] = (["chain", "draw", "agent", *dims], values, attributes)
    return xr.Dataset(variables, coords=coordinates)


def stats_dataset(
    settings: RunSettings, record: Record, num_shared: int, first: int = 0
) -> xr.Dataset:
    """Return one value per draw; messages and bytes are counted from the start of the run.

    Agents can disagree about the first `num_shared` entries of a position only.
    """
    positions = np.moveaxis(record.position, 0, 1)
    chains, draws, agents, _ = positions.shape
    numbers = first + np.arange(draws)
    sent = settings.traffic.until(numbers, settings.agents, record.broadcasts)
    counts = (np.moveaxis(count, 0, 1) for count in sent)
    messages, sizes = (np.broadcast_to(count, (chains, draws, agents)) for count in counts)
    by_agent = ["chain", "draw", "agent"]
    variables = {
        "disagreement": (["chain", "draw"], disagreement(positions[..., :num_shared])),
        "local_residual": (by_agent, np.moveaxis(record.residual, 0, 1)),
        "messages_sent": (by_agent, messages),
        "bytes_sent": (by_agent, sizes),
    }
    for name, values in settings.statistics.items():
        variables[name] = (["chain", "draw"], values[first : first + draws].T)
    return xr.Dataset(variables, coords=_coordinates(positions, settings.names))


def _coordinates(positions: np.ndarray, sites: list[str]) -> dict[str, Any]:
    chains, draws = positions.shape[:2]
    return {"chain": np.arange(chains), "draw": np.arange(draws), "agent": sites}


def _plain(setting: Any) -> Any:
    """Convert a dataclass, or a number of NumPy or JAX, to what JSON can represent.

    A penalty gets a key `kind`, the name that it has in studies, or else that of its class.
    """
    if isinstance(setting, Penalty):
        kinds = {kind: name for name, kind in {**PENALTIES, **SUPPORTS}.items()}
        fields = {name: _plain(value) for name, value in vars(setting).items()}
        return {"kind": kinds.get(type(setting), type(setting).__name__), **fields}
    if dataclasses.is_dataclass(setting) and not isinstance(setting, type):
        return dataclasses.asdict(setting)
    return np.asarray(setting).tolist()

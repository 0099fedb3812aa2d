"""What a problem consists of, and the names of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from starlings.problem.absent import Absent
from starlings.problem.coordinates import Frame
from starlings.problem.hub import Hub
from starlings.problem.likelihood import Likelihood
from starlings.problem.parameters import Parameters
from starlings.problem.quadratic import Quadratic
from starlings.problem.report import Report, named_values, num_values, values_as_text
from starlings.problem.shards import Rows, Shards, count_rows, digest

BY_SITE = "missing_by_site"
"""The entry of a description with numbers of single sites, which no masked run records."""


@dataclass(frozen=True, eq=False, repr=False)
class ProblemFields:
    """The fields of a `Problem`, none of which ever changes, and what follows from them alone."""

    log_likelihoods: Likelihood
    """(x, rows) -> one log-likelihood per row, at the model's flat vector x."""
    log_prior: Callable[[jax.Array], jax.Array]
    """x -> log-density of the flat vector, with the log-determinant of the constraints."""
    parameters: Parameters
    """The named parameters behind the flat vector."""
    shards: Mapping[str, Rows]
    """The rows of every site whose data are in this process, by the name of the site; read-only,
    see `Shards`."""
    site_names: tuple[str, ...]
    """The names of all sites, also of those whose rows are in other processes."""
    is_quadratic: bool = False
    """Whether every potential is said to be quadratic in z."""
    known_quadratic: Quadratic | None = None
    """The quadratic potentials if they are known already; None if they have to be computed."""
    frame: Frame | None = None
    """The map from z to the flat vector x of the model, with tilts; None if z is x."""
    hub: Hub | None = None
    """The agent without rows that coordinates the others; None if there is none."""
    absent: Absent | None = None
    """Sites that the study was made for and whose rows are not here; None if there are none."""
    report: Report | None = None
    """Which values are saved with the draws; None for the parameters themselves."""
    log_local_prior: Callable[[jax.Array], jax.Array] | None = None
    """(x, u_i) -> log-density of the parameters of an agent's own, with the log-determinant of
    their constraints; None where no parameter is local."""
    integrate: Callable[[Any], Any] | None = None
    """Agents of shared and local parameters -> those with the local ones integrated out, of a
    problem `without_local`; None for agents as they are."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """What the model is and where it comes from, in values that JSON has, for result files."""

    def __post_init__(self) -> None:
        """Make the rows and the names of the sites read-only; the caller's own stay as they are."""
        object.__setattr__(self, "shards", Shards(self.shards))
        object.__setattr__(self, "site_names", tuple(self.site_names))

    @property
    def sites(self) -> list[str]:
        """The names of all sites, as a new list: changing it does not change the problem."""
        return list(self.site_names)

    @property
    def num_agents(self) -> int:
        """The number of all sites, also of those whose rows are in other processes."""
        return len(self.site_names)

    @property
    def local(self) -> np.ndarray:
        """The numbers, counted from 0 among all sites, of the sites whose rows are here."""
        number = {site: i for i, site in enumerate(self.site_names)}
        return np.array([number[site] for site in self.shards])

    @property
    def prior_shares(self) -> np.ndarray:
        """The part of the log-prior that belongs to each agent whose rows are here, (agent,)."""
        if self.hub is not None:
            return self.hub.prior_shares(list(self.shards), self.num_agents)
        return np.full(len(self.shards), 1 / self.num_agents)

    @property
    def has_stand_in(self) -> bool:
        """Whether a Gaussian stands in for the rows of an absent site."""
        return self.absent is not None and self.absent.mode is not None

    @property
    def dim(self) -> int:
        """The dimension of the flat vector z of an agent: shared parameters, then local ones."""
        return self.parameters.dim

    @property
    def num_shared(self) -> int:
        """The number of entries of z that all agents have in common, the first ones."""
        return self.parameters.num_shared

    @property
    def num_local(self) -> int:
        """The number of entries of z that every agent has for itself, the last ones."""
        return self.parameters.num_local

    @property
    def num_rows(self) -> np.ndarray:
        """The number of rows of each site whose rows are here."""
        return np.array([count_rows(rows) for rows in self.shards.values()])

    def about(self) -> dict[str, Any]:
        """Whose data a result is about, in values that JSON has.

        `data_of` are the sites whose rows were used. `absent`, if there are any, are those that the
        study was made for and that were not there, with what became of their data.
        """
        absent = {} if self.absent is None else {"absent": self.absent.recorded()}
        names = [site for site in self.sites if self.hub is None or site != self.hub.name]
        return {"data_of": names, **absent}

    def provenance(self, with_rows: bool = True) -> dict[str, Any]:
        """What the model and, unless they are left out, the rows are, in values that JSON has."""
        blocks = self.parameters.blocks.items()
        parameters = {
            name: {
                "shape": block.shape,
                "transform": type(block.bijection).__name__,
                **({"local": True} if block.local else {}),
            }
            for name, block in blocks
        }
        found: dict[str, Any] = {"parameters": parameters, **self.description}
        if not with_rows:
            found.pop(BY_SITE, None)
        if with_rows:
            found["rows"] = {site: count_rows(shard) for site, shard in self.shards.items()}
            found["digests"] = {site: digest(shard) for site, shard in self.shards.items()}
            found["columns"] = {
                site: {name: digest({name: column}) for name, column in shard.items()}
                for site, shard in self.shards.items()
            }
        return found

    def constrain(self, z: Any) -> dict[str, np.ndarray]:
        """The named, constrained parameters at flat vectors z (..., dim)."""
        return named_values(self.parameters, None, self.frame, z)

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """The flat vector z at named, constrained values."""
        with jax.enable_x64(True):
            flat = np.asarray(self.parameters.unconstrain(values))
        return flat if self.frame is None else self.frame.from_original(flat)

    def in_model_coordinates(self, z: Any) -> np.ndarray:
        """The model's own flat vector at one flat vector z, see `coordinate_names`."""
        return np.asarray(z if self.frame is None else self.frame.to_original(z))

    def saved_values(self, z: Any) -> dict[str, np.ndarray]:
        """The values by name that are saved for draws z (..., dim); see `Report`."""
        return named_values(self.parameters, self.report, self.frame, z)

    @property
    def num_saved_values(self) -> int:
        """The number of floating-point numbers that are saved for one draw of one agent."""
        return num_values(self.parameters, self.report)

    def labels_of(self, name: str) -> tuple[str, ...] | None:
        """The names of the entries of a saved vector; None if its entries have only numbers."""
        if self.report is not None and name in self.report.labels:
            return self.report.labels[name]
        block = self.parameters.blocks.get(name)
        return None if block is None else block.labels

    def dims_of(self, name: str, count: int) -> tuple[str, ...]:
        """The names of the axes of a saved array, of which there are `count`."""
        numbered = tuple(f"{name}_dim_{axis}" for axis in range(count))
        return numbered if self.report is None else self.report.dims.get(name, numbered)

    def axis_labels(self, dims: Iterable[str]) -> dict[str, list[Any]]:
        """The labels along those axes of saved arrays that have some."""
        coords = {} if self.report is None else self.report.coords
        return {dim: list(coords[dim]) for dim in dims if dim in coords}

    @property
    def coordinate_names(self) -> list[str]:
        """One name for every entry of the model's flat vector, such as "log sigma"."""
        return self.parameters.flat_labels({} if self.report is None else self.report.names)

    def point_as_text(self, z: Any) -> str:
        """The named parameters at one flat vector z in one line, for messages.

        A vector of the shared parameters only stands for them.
        """
        missing = np.zeros(self.dim - np.shape(z)[-1])
        named = self.constrain(np.append(z, missing))
        blocks = self.parameters.blocks
        return values_as_text({n: v for n, v in named.items() if not blocks[n].local})

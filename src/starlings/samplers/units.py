"""Natural units of a problem on a network, in which settings of samplers are laid out.

A comparison tries every sampler at settings on one grid of numbers g without a unit. With M the
largest curvature of any agent's potential and P that of all of them together,

    step sizes   g / M                        gradient steps are stable below g = 2, or less    (1)
    penalties    rho = P / (4 |E| g)          with which the network's average of consensus     (2)
                                              ADMM takes Langevin steps of g / P
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from starlings.network import Network
from starlings.problem import Problem

if TYPE_CHECKING:
    from starlings.samplers.base import Sampler

GRID = np.geomspace(20.0, 2e-4, 41)
"""The numbers g: five decades, eight to a decade, descending."""


class Units(NamedTuple):
    """A problem on a network, by the numbers that make settings comparable."""

    problem: Problem
    """The model and the rows of every site."""
    network: Network
    """In the order of the problem's sites."""
    curvature: float
    """M, the largest curvature of the potential of any agent."""
    pooled: float
    """P, the largest curvature of the potential of all agents together."""
    grid: np.ndarray = GRID
    """The numbers g, the same for all samplers."""

    @property
    def steps(self) -> np.ndarray:
        """Step sizes on the grid, eq. (1)."""
        return self.grid / self.curvature  # (1)

    @property
    def penalties(self) -> np.ndarray:
        """Penalties on the grid, eq. (2)."""
        return self.pooled / (4 * max(self.network.num_edges, 1) * self.grid)  # (2)


def along_main_knob(kind: type[Sampler], units: Units, **fixed: Any) -> list[Any]:
    """Samplers of a class with its step size, or else its penalty `rho`, on the grid.

    A class with neither is taken once, without arguments but `fixed`.
    """
    declared: Any = kind  # a dataclass, although the base class is not
    fields = {field.name: field for field in dataclasses.fields(declared) if field.init}
    knob = kind.step_field or ("rho" if "rho" in fields else None)
    missing = [name for name, field in fields.items() if _is_required(field)]
    missing = [name for name in missing if name != knob and name not in fixed]
    if missing:
        raise ValueError(
            f"{kind.__name__} has no candidates of its own, and needs values of {missing}: give "
            f"instances, or write its class method `candidates`."
        )
    if knob is None:
        return [kind(**fixed)]
    values = units.penalties if knob == "rho" else units.steps
    return [kind(**{knob: float(value)}, **fixed) for value in values]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    has_none = dataclasses.MISSING
    return field.default is has_none and field.default_factory is has_none

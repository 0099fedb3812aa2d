"""Decentralised Bayesian inference: every agent draws from the posterior of everybody's data.

The public names, each loaded when it is first used, so that `import starlings` takes milliseconds:

    to sample             `sample`, `Problem`, `Parameter`, `Network`, `models`, `Study`
    to read draws         `Result`, `load`
    samplers              `DADMMS`, `CADMM`, `MidpointADMMS`, `Metropolis`, `DSGLD`, `DSGHMC`,
                          `DULA`, `Decay`
    to tune by hand       `tune`, `Tuning`
    to check              `theory` (exact laws and bounds), `calibration` (simulation-based)
    to write a sampler    `Sampler`, `Card`, `Info`, `no_info`, `PositionState`, `Agent`, `Inbox`,
                          `Round`, `pytree`, `choice`, `UnitPosterior`, `PilotLength`, `testing`
    to write a runtime    `Communicator`
    errors and warnings   see `starlings.errors`

Importing the package, or using any of these names, changes no setting of JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from starlings._version import __version__ as __version__

_NAMES: dict[str, tuple[str, ...]] = {
    "starlings.errors": (
        "CheckpointError",
        "CheckpointWarning",
        "ConstantColumnWarning",
        "ContractError",
        "DisconnectedNetworkWarning",
        "DivergenceError",
        "InterruptedWarning",
        "NoLawError",
        "NoRoomError",
        "PosteriorWarning",
        "StabilityError",
        "TuningError",
        "UnreadableFileError",
    ),
    "starlings.network": ("Inbox", "Network"),
    "starlings.network.communicator": ("Communicator",),
    "starlings.problem": ("Agent", "Parameter", "Problem"),
    "starlings.pytrees": ("choice", "pytree"),
    "starlings.random.addresses": ("Round",),
    "starlings.results.result": ("Result", "load"),
    "starlings.samplers": (
        "CADMM",
        "DADMMS",
        "DSGHMC",
        "DSGLD",
        "DULA",
        "Card",
        "Decay",
        "Info",
        "Metropolis",
        "MidpointADMMS",
        "PilotLength",
        "PositionState",
        "Sampler",
        "UnitPosterior",
        "no_info",
    ),
    "starlings.sampling": ("sample",),
    "starlings.study.study": ("Study",),
    "starlings.tuning": ("Tuning", "tune"),
}
"""The public names, by the module that defines them."""
_MODULES = ("calibration", "errors", "models", "testing", "theory")
"""The public modules."""
_MOVED = {
    "demo": "starlings.research.demo",
    "experiments": "starlings.research.paper",
    "gossip": "starlings.network.gossip",
    "measures": "starlings.diagnostics.statistics",
    "numpyro_models": "starlings.problem.numpyro",
    "plots": "starlings.results.plots",
    "proximal": "starlings.solvers.proximal",
    "rounds": "starlings.random.addresses",
    "runtimes": "starlings.runtime",
    "stein": "starlings.diagnostics.stein",
}
"""Modules of version 0.1, and where what they held is now."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(["__version__", *_HOMES, *_MODULES])

if TYPE_CHECKING:  # what `__getattr__` finds, for type checkers and editors
    from starlings import calibration as calibration
    from starlings import errors as errors
    from starlings import models as models
    from starlings import testing as testing
    from starlings import theory as theory
    from starlings.errors import CheckpointError as CheckpointError
    from starlings.errors import CheckpointWarning as CheckpointWarning
    from starlings.errors import ConstantColumnWarning as ConstantColumnWarning
    from starlings.errors import ContractError as ContractError
    from starlings.errors import DisconnectedNetworkWarning as DisconnectedNetworkWarning
    from starlings.errors import DivergenceError as DivergenceError
    from starlings.errors import InterruptedWarning as InterruptedWarning
    from starlings.errors import NoLawError as NoLawError
    from starlings.errors import NoRoomError as NoRoomError
    from starlings.errors import PosteriorWarning as PosteriorWarning
    from starlings.errors import StabilityError as StabilityError
    from starlings.errors import TuningError as TuningError
    from starlings.errors import UnreadableFileError as UnreadableFileError
    from starlings.network import Inbox as Inbox
    from starlings.network import Network as Network
    from starlings.network.communicator import Communicator as Communicator
    from starlings.problem import Agent as Agent
    from starlings.problem import Parameter as Parameter
    from starlings.problem import Problem as Problem
    from starlings.pytrees import choice as choice
    from starlings.pytrees import pytree as pytree
    from starlings.random.addresses import Round as Round
    from starlings.results.result import Result as Result
    from starlings.results.result import load as load
    from starlings.samplers import CADMM as CADMM
    from starlings.samplers import DADMMS as DADMMS
    from starlings.samplers import DSGHMC as DSGHMC
    from starlings.samplers import DSGLD as DSGLD
    from starlings.samplers import DULA as DULA
    from starlings.samplers import Card as Card
    from starlings.samplers import Decay as Decay
    from starlings.samplers import Info as Info
    from starlings.samplers import Metropolis as Metropolis
    from starlings.samplers import MidpointADMMS as MidpointADMMS
    from starlings.samplers import PilotLength as PilotLength
    from starlings.samplers import PositionState as PositionState
    from starlings.samplers import Sampler as Sampler
    from starlings.samplers import UnitPosterior as UnitPosterior
    from starlings.samplers import no_info as no_info
    from starlings.sampling import sample as sample
    from starlings.study.study import Study as Study
    from starlings.tuning import Tuning as Tuning
    from starlings.tuning import tune as tune


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name in _MODULES:
        return importlib.import_module(f"starlings.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # the next use does not come here
        return value
    moved = f"; since version 0.2 it is {_MOVED[name]}" if name in _MOVED else ""
    raise AttributeError(f"module 'starlings' has no attribute {name!r}{moved}")


def __dir__() -> list[str]:
    return __all__

"""Decentralised Bayesian inference: the public names, loaded when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "CADMM": "starlings.samplers",
    "DADMMS": "starlings.samplers",
    "DSGHMC": "starlings.samplers",
    "DSGLD": "starlings.samplers",
    "DULA": "starlings.samplers",
    "Decay": "starlings.samplers",
    "DivergenceError": "starlings.errors",
    "Metropolis": "starlings.samplers",
    "MidpointADMMS": "starlings.samplers",
    "Network": "starlings.network",
    "Parameter": "starlings.parameters",
    "Problem": "starlings.problem",
    "Result": "starlings.results",
    "StabilityError": "starlings.errors",
    "calibration": "starlings",
    "load": "starlings.results",
    "models": "starlings",
    "sample": "starlings.sampling",
    "theory": "starlings",
}

__all__ = [
    "CADMM",
    "DADMMS",
    "DSGHMC",
    "DSGLD",
    "DULA",
    "Decay",
    "DivergenceError",
    "Metropolis",
    "MidpointADMMS",
    "Network",
    "Parameter",
    "Problem",
    "Result",
    "StabilityError",
    "__version__",
    "calibration",
    "load",
    "models",
    "sample",
    "theory",
]

if TYPE_CHECKING:
    from starlings import calibration, models, theory
    from starlings.errors import DivergenceError, StabilityError
    from starlings.network import Network
    from starlings.parameters import Parameter
    from starlings.problem import Problem
    from starlings.results import Result, load
    from starlings.samplers import (
        CADMM,
        DADMMS,
        DSGHMC,
        DSGLD,
        DULA,
        Decay,
        Metropolis,
        MidpointADMMS,
    )
    from starlings.sampling import sample


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'starlings' has no attribute {name!r}")
    importlib.import_module("starlings.compilation_cache").turn_on()
    if _HOMES[name] == "starlings":
        return importlib.import_module(f"starlings.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__

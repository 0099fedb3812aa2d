"""The samplers, one file each, all of one shape; this registry feeds the CLI and the tests."""

from __future__ import annotations

from typing import Any

from starlings.samplers.base import Card, Info, Sampler
from starlings.samplers.cadmm import CADMM
from starlings.samplers.dadmms import DADMMS
from starlings.samplers.dsghmc import DSGHMC
from starlings.samplers.dsgld import DSGLD
from starlings.samplers.dula import DULA, Decay
from starlings.samplers.metropolis import Metropolis
from starlings.samplers.midpoint import MidpointADMMS

SAMPLERS: dict[str, type[Any]] = {
    "dadmms": DADMMS,
    "cadmm": CADMM,
    "dsgld": DSGLD,
    "dsghmc": DSGHMC,
    "dula": DULA,
    "midpoint": MidpointADMMS,
    "metropolis": Metropolis,
}

__all__ = ["CADMM", "DADMMS", "DSGHMC", "DSGLD", "DULA", "SAMPLERS"]
__all__ += ["Card", "Decay", "Info", "Metropolis", "MidpointADMMS", "Sampler"]

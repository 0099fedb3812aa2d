"""The samplers, one file each: what one agent does in one round."""

from starlings.samplers.async_dadmms import AsyncDADMMS
from starlings.samplers.base import (
    Card,
    Info,
    PilotLength,
    PositionState,
    Sampler,
    UnitPosterior,
    no_info,
)
from starlings.samplers.cadmm import CADMM
from starlings.samplers.dadmms import DADMMS
from starlings.samplers.depsgld import DEPSGLD
from starlings.samplers.diging import DIGing
from starlings.samplers.distributed_sgld import DistributedSGLD
from starlings.samplers.dpsgld import DPSGLD
from starlings.samplers.dsghmc import DSGHMC
from starlings.samplers.dsgld import DSGLD
from starlings.samplers.dula import DULA, Decay
from starlings.samplers.event_dula import EventDULA
from starlings.samplers.fsgld import FSGLD
from starlings.samplers.gextra import GEXTRA
from starlings.samplers.gibbs import NetworkGibbs
from starlings.samplers.hub import HubSampler, HubState
from starlings.samplers.mahmc import MAHMC
from starlings.samplers.metropolis import Metropolis
from starlings.samplers.midpoint import MidpointADMMS
from starlings.samplers.peer_learning import PeerLearning
from starlings.samplers.qlsd import QLSD

__all__ = [
    "CADMM",
    "DADMMS",
    "DEPSGLD",
    "DPSGLD",
    "DSGHMC",
    "DSGLD",
    "DULA",
    "FSGLD",
    "GEXTRA",
    "MAHMC",
    "QLSD",
    "AsyncDADMMS",
    "Card",
    "DIGing",
    "Decay",
    "DistributedSGLD",
    "EventDULA",
    "HubSampler",
    "HubState",
    "Info",
    "Metropolis",
    "MidpointADMMS",
    "NetworkGibbs",
    "PeerLearning",
    "PilotLength",
    "PositionState",
    "Sampler",
    "UnitPosterior",
    "no_info",
]

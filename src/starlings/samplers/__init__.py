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
from starlings.samplers.dglmc import DGLMC
from starlings.samplers.diging import DIGing
from starlings.samplers.distributed_sgld import DistributedSGLD
from starlings.samplers.dpsgld import DPSGLD
from starlings.samplers.dsghmc import DSGHMC
from starlings.samplers.dsgld import DSGLD
from starlings.samplers.dula import DULA, Decay
from starlings.samplers.elf import ELF
from starlings.samplers.event_dula import EventDULA
from starlings.samplers.fald import FALD, VRFALD
from starlings.samplers.fedavg_langevin import FedAvgLangevin
from starlings.samplers.fedpa import FedPA
from starlings.samplers.fsgld import FSGLD
from starlings.samplers.gcmc import GlobalConsensusMC
from starlings.samplers.gextra import GEXTRA
from starlings.samplers.gibbs import NetworkGibbs
from starlings.samplers.hub import HubSampler, HubState
from starlings.samplers.mahmc import MAHMC
from starlings.samplers.metropolis import Metropolis
from starlings.samplers.midpoint import MidpointADMMS
from starlings.samplers.myula import MYULA
from starlings.samplers.peer_learning import PeerLearning
from starlings.samplers.pmala import PMALA
from starlings.samplers.pula import PULA
from starlings.samplers.qlsd import QLSD
from starlings.samplers.spla import SPLA
from starlings.samplers.split_gibbs import SplitGibbs
from starlings.samplers.units import Units

__all__ = [
    "CADMM",
    "DADMMS",
    "DEPSGLD",
    "DGLMC",
    "DPSGLD",
    "DSGHMC",
    "DSGLD",
    "DULA",
    "ELF",
    "FALD",
    "FSGLD",
    "GEXTRA",
    "MAHMC",
    "MYULA",
    "PMALA",
    "PULA",
    "QLSD",
    "SPLA",
    "VRFALD",
    "AsyncDADMMS",
    "Card",
    "DIGing",
    "Decay",
    "DistributedSGLD",
    "EventDULA",
    "FedAvgLangevin",
    "FedPA",
    "GlobalConsensusMC",
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
    "SplitGibbs",
    "UnitPosterior",
    "Units",
    "no_info",
]

"""The public names of starlings and the modules that define them, one import a line.

Type checkers and editors read this file; `__init__.py` reads its lines to load a name when it is
first used.
"""

from starlings import calibration as calibration
from starlings import errors as errors
from starlings import models as models
from starlings import testing as testing
from starlings import theory as theory
from starlings._version import __version__ as __version__
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
from starlings.network.crossings import Crossings as Crossings
from starlings.problem import Agent as Agent
from starlings.problem import Parameter as Parameter
from starlings.problem import Problem as Problem
from starlings.pytrees import choice as choice
from starlings.pytrees import pytree as pytree
from starlings.random.addresses import Round as Round
from starlings.results.result import Result as Result
from starlings.results.result import load as load
from starlings.runtime.callback import exchange_on_host as exchange_on_host
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

"""The contract of a sampler: what ONE agent does, and nothing else.

A sampler owns no loop, no socket and no metric. It is a frozen dataclass under `pytree` whose
fields are its hyper-parameters: numbers become leaves (so a new `rho` does not recompile), and what
selects code, such as a noise law or a batch size, is a field made with `choice`.

Any instance of a subclass of `Sampler` can be given to `starlings.sample`. `init` and `step` have
to be written; everything else has a default that fits a sampler whose neighbours see its position.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from starlings.errors import TuningError
from starlings.network import Inbox, Network
from starlings.network.gossip import Gossip
from starlings.problem import Agent, Problem
from starlings.random.addresses import Round
from starlings.samplers.units import Units, along_main_knob


class Info(NamedTuple):
    """What a step reports about itself."""

    residual: Float[Array, ""]
    """The Newton decrement of the proximal step, 0 at its optimum; 0 without a proximal step."""
    iterations: Int[Array, ""]
    """Newton iterations of the proximal step; 0 without a proximal step."""


class PositionState(NamedTuple):
    """The state of a sampler that remembers its position and nothing else."""

    position: Float[Array, " dim"]
    """x_i."""


@dataclass(frozen=True)
class Card:
    """What a user wants to know before choosing a sampler, printed by `starlings samplers`."""

    title: str
    """The name in tables and figures."""
    exchanged: str
    """What a message holds, in words."""
    floats_per_parameter: int
    """Numbers sent to each neighbour in each round, per parameter of the model."""
    bias: str
    """How the law of the draws differs from the posterior."""
    reference: str
    """The publication."""
    floats_besides: int = 0
    """Further numbers sent to each neighbour in each round, whatever the number of parameters."""
    floats_per_pair: int = 0
    """Further numbers for each pair of parameters, a parameter with itself included: 1 for the
    upper triangle of a matrix."""

    public_code: str = ""
    """What published code for it does instead of its equations; empty if nothing is known."""

    masked_as: str | None = None
    """What it reads of its inbox, if that can be masked: "sum" or "mix". None if messages cannot be
    masked."""

    not_masked: str = "it reads more of its neighbours than a sum"
    """Why messages cannot be masked, where `masked_as` is None."""

    def floats(self, dim: int) -> int:
        """Numbers in one message about `dim` parameters."""
        pairs = dim * (dim + 1) // 2
        return self.floats_per_parameter * dim + self.floats_per_pair * pairs + self.floats_besides

    @property
    def size(self) -> str:
        """The size of a message in words."""
        parts = {
            " per parameter": self.floats_per_parameter,
            " per pair of parameters": self.floats_per_pair,
            "": self.floats_besides,
        }
        return " and ".join(f"{count}{what}" for what, count in parts.items() if count) or "0"


class PilotLength(NamedTuple):
    """The length of a pilot run, by which tuning measures a sampler; its first half is dropped."""

    chains: int
    """The number of chains."""
    cycles: int
    """Cycles of rounds in each chain; see `Sampler.cycle`."""
    draws: int
    """Draws recorded in each chain, in its second half."""


class UnitPosterior(NamedTuple):
    """A posterior in coordinates in which it is near N(0, I), from which a sampler is tuned.

    Every agent has its share of the posterior's gradient and curvature at the origin.
    """

    dim: int
    """The number of coordinates."""
    agents: Agent
    """All local agents, stacked, in these coordinates."""
    gossip: Gossip
    """Sums and maxima over the network, with a count of what they cost."""
    step: float
    """The wanted Langevin step eta, in units of the posterior's curvature."""
    rho: float
    """The penalty of consensus ADMM for that step, or the least at which proximal steps exist."""


class Sampler(abc.ABC):
    """Base class of all samplers.

    `step` reads its own state, its inbox and its own data, never a neighbour.
    """

    card: ClassVar[Card]
    common_start: ClassVar[bool] = False
    """Whether all agents of a chain have to start at one point, and then move together."""
    draws_nothing: ClassVar[bool] = False
    """Whether it converges to the mode instead of drawing: diagnostics then ignore its spread."""
    reads_each: ClassVar[bool] = False
    """Whether it reads `Inbox.each` and `Inbox.arrived`, and nothing else of its inbox. It can then
    go on without messages that were lost, see `Network.lossy`, and `message` may return a row for
    each neighbour, (slot, floats), in the order of `Inbox.each`."""
    needs_hub: ClassVar[bool] = False
    """Whether it needs a coordinator, as a `HubSampler` does; see `starlings.with_hub`."""
    needs_one_place: ClassVar[bool] = False
    """Whether it needs all rows at one agent, see `Problem.pooled`."""
    draws_edges: ClassVar[bool] = False
    """Whether it uses `Round.edge_noise`: agents then know the numbers of their neighbours."""
    draws_local: ClassVar[bool] = False
    """Whether it draws parameters that are local, the last `Agent.num_local` entries of a position,
    and sends nothing of them; see `starlings.Parameter`."""
    step_field: ClassVar[str | None] = None
    """The name of the field that is a step size, which has to be smaller if a run diverges."""
    is_private: ClassVar[bool] = False
    """Whether messages are differentially private. Noise is then never drawn twice, so that a run
    cannot be resumed, and a result has neither counts nor checksums of rows."""
    pilot: ClassVar[PilotLength] = PilotLength(chains=16, cycles=750, draws=125)
    """The length of a pilot run, if the sampler is tuned."""

    def settings(self) -> dict[str, Any]:
        """The hyper-parameters by name: `type(self)(**self.settings())` is an equal sampler."""
        own: Any = self  # every sampler is a dataclass, although this base class is not
        return {field.name: getattr(own, field.name) for field in dataclasses.fields(own)}

    def with_settings(self, **changes: Any) -> Self:
        """This sampler with other values of some hyper-parameters."""
        return type(self)(**{**self.settings(), **changes})

    @property
    def noises(self) -> tuple[str, ...]:
        """The kinds of Gaussian noise that every round draws, which a runtime may draw ahead.

        "shared" for `Round.shared_noise`, "private" for `Round.private_noise`, or both.
        """
        return ()

    @property
    def cycle(self) -> int:
        """Rounds from one new position to the next; tuned burn-in and thinning are multiples."""
        return 1

    @abc.abstractmethod
    def init(self, agent: Agent, position: Float[Array, " dim"], round: Round) -> Any:
        """The state at the start (round 0), from a position.

        A state is a tuple or a pytree with a field `position` of shape (dim,).
        """

    @abc.abstractmethod
    def step(self, agent: Agent, state: Any, inbox: Inbox, round: Round) -> tuple[Any, Info]:
        """One round: the next state, and a report about the step."""

    def prepare(self, agent: Agent) -> Agent:
        """The agent, with what is the same in all rounds computed; called once before a run."""
        return agent

    def floats(self, dim: int) -> int:
        """Numbers in one message about `dim` parameters; those of the card by default."""
        return self.card.floats(dim)

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """Messages that every agent has sent until these rounds, (round, agent).

        By default every agent sends one to each neighbour in every round. For samplers that count
        their `broadcasts` it is the most that they can send.
        """
        return np.multiply.outer(rounds, network.degrees)

    def broadcasts(self, state: Any) -> Int[Array, ""] | None:
        """How often an agent has sent its message to all neighbours in the rounds so far.

        None (the default) where that follows from the number of rounds, see `messages_until`. A
        sampler whose agents may be silent returns a number of its state: 1 after the first round,
        and 1 more after each round whose message was sent. Every other message has to be equal to
        the one before, since that is what neighbours go on with.
        """
        return None

    def gradients_per_round(self, problem: Problem) -> float:
        """How often an agent goes through its rows in one round, on average over many rounds.

        1 by default. Gradients of minibatches count by their share of the rows. A proximal step
        counts once, and so do a Hessian, a product with it, and a value of the potential.
        """
        return 1.0

    def gradients_until(self, rounds: np.ndarray, problem: Problem) -> np.ndarray:
        """How often an agent has gone through its rows until these rounds, (round,).

        It is to be written where rounds differ in that for good; see `gradients_per_round`.
        """
        return rounds * self.gradients_per_round(problem)

    def placed(self, agents: Agent, network: Network) -> Agent:
        """All local agents, stacked, with what this sampler has to know of the network.

        That is an array with a row for each local agent as `Agent.place`, for example.
        """
        if not self.draws_edges:
            return agents
        return dataclasses.replace(agents, neighbours=jnp.asarray(network.neighbour_table))

    def message(self, state: Any) -> Float[Array, "*slots floats"]:
        """All that ever leaves an agent: one flat vector of floats; by default its position.

        With `reads_each` it may be one vector for each neighbour.
        """
        return state.position

    def draw(self, agent: Agent, state: Any, upcoming: Round) -> Float[Array, " dim"]:
        """What is recorded of a state; `upcoming` is the round after the one just made."""
        return state.position

    def check(self, problem: Problem, network: Network) -> None:
        """Raise a `ValueError` with the remedy if it cannot run on this problem or network."""
        return

    def private_keys(self, keys: Array) -> Array:
        """The keys of private noise, from those that the seed gives; called once before a run."""
        return keys

    def attributes(self, chains: int, rounds: int) -> dict[str, Any]:
        """What a result says of a run of so many chains and rounds, by name; found before it."""
        return {}

    @classmethod
    def tuned(cls, unit: UnitPosterior, **choices: Any) -> Sampler:
        """A sampler whose settings the agents choose; `choices` are fields that select code."""
        raise TuningError(
            f"{cls.__name__} cannot be tuned: give its settings, or write its class method `tuned`."
        )

    @classmethod
    def published(cls, problem: Problem, network: Network) -> Sampler | None:
        """The settings of its publication for such a problem; None, the default, if it has none."""
        return None

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> Sequence[Sampler]:
        """Settings among which `starlings.compare` looks for the best, on the grid of `units`.

        By default the step size (`step_field`), or else the penalty `rho`, takes all values of the
        grid. A class with other settings that have to be given writes its own. `fixed` are values
        of other fields.
        """
        return along_main_knob(cls, units, **fixed)


def no_info(position: Float[Array, " dim"]) -> Info:
    """The report of a step that solves no equations."""
    return Info(jnp.zeros((), position.dtype), jnp.zeros((), jnp.int32))

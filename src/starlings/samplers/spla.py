"""SPLA: the stochastic proximal Langevin algorithm, as a token that walks (Salim et al. 2019).

For a potential f + sum_i g_i with a smooth f, proximal maps of g_1, ..., g_n and a step gamma, the
paper makes of x

    z = x - gamma grad f(x),      y_0 = z + sqrt(2 gamma) w,      w ~ N(0, I)               (1)
    y_i = prox_{gamma g_i}(y_{i-1}),      i = 1, ..., n;      x' = y_n                      (2)

The proximal maps come one after the other. So a token (y, x) walks along the links of the network,
on a closed way that visits every agent (`starlings.network.tours`), one link in a round; one tour
makes one x'. Agent i applies the map of its own potential, g_i = f_i, when the token comes to it
for the first time in a tour. The first agent, where tours begin and end, makes (1), and its own map
is the last one: a penalty, if there is one, then follows as g_n. With first="gradient" the
potential of the first agent is f of (1), and with "proximal", by default, f = 0.

The token holds x, too, the result of the tour before. An agent records that x, and hears of it with
the token: agents learn of a draw one after the other, and at the end of a tour all have the same.

For quadratic potentials the variance is wrong in first order of the step, and too small where f is
small: proximal maps pull by gradients at their ends, after the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Inbox, Network
from starlings.network.tours import tour
from starlings.problem import Agent, Problem
from starlings.problem.penalties import Penalty, check_fits, check_is_penalty
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler
from starlings.samplers.units import Units
from starlings.solvers.proximal import prepared, proximal_point

FIRST_STEPS = ("proximal", "gradient")
"""What the first agent of a tour does with its own potential: a step of eq. (2), or of eq. (1)."""


class SPLAState(NamedTuple):
    """What an agent knows, and the token, if the agent has it."""

    position: Any
    """x of the last tour of which the agent has heard."""
    token: Any
    """(y, x), (2 dim,); zeros if the agent has no token."""


@pytree
@dataclass(frozen=True)
class SPLA(Sampler):
    """Proximal steps of one agent after the other, on the way of a token.

    Args:
        step_size: gamma, a Langevin step on the posterior.
        hops: rounds of a tour: as many as it has links, or more, which the first agent waits.
            `SPLA.on(network, step_size)` fills it in.
        first: what the first agent does with its potential: "proximal", or "gradient".
        penalty: a further g_n, such as `starlings.Lasso(2.0)` or `starlings.Box(0.0, 1.0)`, whose
            proximal map is the last one: draws may be exactly zero, and are in a support.
    """

    step_size: Any
    hops: int = choice()
    first: str = choice(default="proximal")
    penalty: Penalty | None = None

    common_start = True
    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="SPLA",
        exchanged="a token: the current point y, and the draw x of the last tour; one link a round",
        floats_per_parameter=2,
        bias="first order in the step",
        reference="Salim, Kovalev, Richtarik 2019",
        not_masked="a token is the message of one agent, which no sum with others hides",
        public_code="the gradient of its notebook is one number, the mean over all coordinates",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_count(1, hops=self.hops)
        check_choice(FIRST_STEPS, first=self.first)
        check_is_penalty(self.penalty, may_be_none=True)

    @classmethod
    def on(cls, network: Network, step_size: float, **settings: Any) -> SPLA:
        """A sampler with as many rounds for a tour as this network needs.

        Tours depend on the order of agents. A network whose nodes are in another order than the
        problem's sites has to be given as `network.matched_to(problem.sites)`.

        >>> SPLA.on(Network.ring(5), 0.1).hops, SPLA.on(Network.star(5), 0.1).hops
        (5, 8)
        """
        return cls(step_size, max(len(tour(network.adjacency)) - 1, 1), **settings)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[SPLA]:
        """Steps g / P, since a tour makes one Langevin step of all agents together."""
        steps = units.grid / units.pooled
        return [cls.on(units.network, float(step), **fixed) for step in steps]

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse networks of which a tour does not reach every agent, and penalties of others."""
        if network.num_edges == 0 and network.size > 1:
            raise ValueError("SPLA passes a token along links: it needs a network with edges.")
        needed = len(tour(network.adjacency)) - 1
        if self.hops < needed:
            raise ValueError(
                f"`hops` must be at least {needed}, the length of a tour of this network, got "
                f"{self.hops}; `SPLA.on(network.matched_to(problem.sites), step_size)` fills it in."
            )
        check_fits(self.penalty, problem, self.card.title)

    @property
    def cycle(self) -> int:
        """Rounds of a tour, which makes one draw."""
        return self.hops

    def holders(self, network: Network) -> np.ndarray:
        """Who has the token before each round of a tour and after the last one, (1 + hops,)."""
        walk = tour(network.adjacency)
        return np.pad(walk, (0, self.hops + 1 - len(walk)), constant_values=walk[-1])

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """Messages that every agent has sent: only the one with the token sends, to one other."""
        holders = self.holders(network)
        moved = np.diff(holders) != 0
        sends = (holders[:-1, None] == np.arange(network.size)) & moved[:, None]
        sent = np.vstack([np.zeros((1, network.size), int), sends.cumsum(axis=0)])
        tours, rest = np.divmod(np.asarray(rounds), self.hops)
        return np.multiply.outer(tours, sent[-1]) + sent[rest]

    def gradients_per_round(self, problem: Problem) -> float:
        """Every agent goes through its rows once in a tour."""
        return 1 / self.hops

    def placed(self, agents: Agent, network: Network) -> Agent:
        """All local agents with the moments at which they have the token, in rounds of a tour.

        The first number is the moment of the agent's own step: its first visit, and the end of the
        tour for the first agent. The others follow; -1 stands for none.
        """
        holders = self.holders(network)
        moments = [np.flatnonzero(holders == agent) for agent in range(network.size)]
        moments[holders[0]] = moments[holders[0]][::-1]  # the end first
        table = np.full((network.size, max(map(len, moments))), -1, np.int32)
        for row, own in zip(table, moments, strict=True):
            row[: len(own)] = own
        return replace(agents, place=jnp.asarray(table[network.local]))

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of (2), if the potential is quadratic."""
        return prepared(agent, 1 / self.step_size)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> SPLAState:
        """Start at `position`; the first tour begins where the first agent starts."""
        token = self._begun(agent, position, round)
        return SPLAState(position, jnp.where(_begins(agent), token, 0.0))

    def message(self, state: SPLAState) -> jax.Array:
        """The token, or zeros."""
        return state.token

    def step(
        self, agent: Agent, state: SPLAState, inbox: Inbox, round: Round
    ) -> tuple[SPLAState, Info]:
        """Take the token where it comes here, apply eq. (2) the first time, and pass it on."""
        moment = (round.index - 1) % self.hops + 1
        has_token, is_turn = (agent.place == moment).any(), agent.place[0] == moment
        stays = (agent.place == moment - 1).any()  # where the first agent waits, or is alone
        y, last = jnp.split(jnp.where(stays, state.token, inbox.sum), 2)
        moves = is_turn & ~_begins(agent) if self.first == "gradient" else is_turn
        solution = proximal_point(agent, 1 / self.step_size, y / self.step_size, start=y)
        y = jnp.where(moves, solution.point, y)  # (2)
        token = jax.lax.cond(
            moment == self.hops,
            lambda: self._begun(agent, self._penalised(y), round),
            lambda: jnp.concatenate([y, last]),
        )
        info = Info(jnp.where(moves, solution.residual, 0.0), solution.iterations * moves)
        position = jnp.where(is_turn, last, state.position)
        return SPLAState(position, jnp.where(has_token, token, 0.0)), info

    def _penalised(self, y: jax.Array) -> jax.Array:
        """Eq. (2) for the penalty, the last of all."""
        return y if self.penalty is None else self.penalty.prox(y, self.step_size)

    def _begun(self, agent: Agent, x: jax.Array, round: Round) -> jax.Array:
        """The token (y_0, x) of a tour that begins here, eq. (1)."""
        gamma = self.step_size
        z = x - gamma * agent.gradient(x) if self.first == "gradient" else x
        return jnp.concatenate([z + jnp.sqrt(2 * gamma) * round.private_noise(x), x])  # (1)


def _begins(agent: Agent) -> jax.Array:
    """Whether tours begin at this agent."""
    return (agent.place == 0).any()

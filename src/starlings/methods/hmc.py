"""Hamiltonian Monte Carlo on sums: all sites run the same chains, and one sum makes one leapfrog.

Every site knows all positions q of all chains (the same bits: the same seed, the same sums) and
differs from the others only in which part f_i of the potential F = sum_i f_i it can compute. With
momenta p ~ N(0, I) and a metric A, for which A A' is near the covariance of the posterior, a
leapfrog of length eps is

    p <- p - eps/2 A' grad F(q)                                                             (1)
    q <- q + eps A p                                                                        (2)
    p <- p - eps/2 A' grad F(q)                                                             (3)

and needs one sum over the network, of chains (dim + 1) numbers: F and its gradient at the new q.
One more number counts the chains in which a site's potential is NaN there, taken as infinite. A
trajectory of L leapfrogs ends in q', p', and is accepted with the probability

    min(1, exp(H(q, p) - H(q', p'))),    H(q, p) = F(q) + p'p / 2                           (4)

so that exp(-F) is invariant exactly, for any potential. All chains have the same eps and the same
L: they move in lock-step, and one message carries them all.

Momenta and the uniform number of (4) have the address (chain, iteration) of the noise that all
agents share, so that they are drawn again wherever a run is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.methods.phase import Phase
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.problem.coordinates import times
from starlings.random.addresses import Round
from starlings.runtime.buckets import Agents, grouped

KIND = "potentials and gradients along trajectories"
"""What an agent puts into the sums, in the account of what leaves a site."""
LARGEST_ENERGY_ERROR = 1000.0
"""Energy error H(q', p') - H(q, p), in nats, above which a trajectory counts as diverged."""


class Ended(NamedTuple):
    """What a trajectory came to, for every chain."""

    phase: Phase
    """The next start: the end of the trajectory where it was accepted, its beginning elsewhere."""
    acceptance: Any
    """The probability of eq. (4), (chain,)."""
    is_divergent: Any
    """Whether the energy error was larger than `LARGEST_ENERGY_ERROR`, (chain,)."""


@dataclass(frozen=True)
class SummedChains:
    """The potential of all agents at the positions of all chains: one sum over the network."""

    agents: Agents
    """The local agents, in the coordinates in which the chains move."""
    gossip: Gossip
    undefined: list[Any] = field(default_factory=list)
    """What `met_undefined` adds up."""

    @classmethod
    def of(cls, problem: Problem, gossip: Gossip) -> SummedChains:
        """The sums of a problem."""
        return cls(grouped(problem.agents(gossip.network)), gossip)

    def at(self, positions: Any) -> tuple[Any, Any]:
        """F (chain,) and its gradient (chain, dim) at positions (chain, dim)."""
        value, gradient, _ = self._summed(positions, np.ones(len(positions), bool))
        return value, gradient

    def begun(self, positions: Any) -> Any:
        """The phase at positions (chain, dim), without momenta."""
        return Phase(positions, jnp.zeros_like(positions), *self.at(positions))

    def refreshed(self, phase: Any, keys: Any, iteration: int) -> Any:
        """The phase with new momenta; `keys` are those that agents share, one for each chain."""
        return refreshed(phase, keys, iteration)

    def observe(self, phase: Any) -> None:
        """Note where a trajectory of the warm-up ended; see `hierarchical`."""

    def adapted(self, phase: Any, reference: np.ndarray) -> Any:
        """The phase in the coordinates of the next window; see `hierarchical`."""
        return phase

    def draws(self, phase: Any, number: int) -> np.ndarray:
        """The positions as they are recorded: (chain, dim), or (chain, agent, dim).

        `number` is that of the draw, which addresses what it takes from private noise.
        """
        return np.asarray(phase.position)

    def arrays(self) -> dict[str, np.ndarray]:
        """What was learnt besides the settings, as named arrays."""
        return {}

    def restore(self, named: dict[str, np.ndarray]) -> None:
        """Go back to where these were the `arrays`."""

    def _summed(self, positions: Any, is_new: Any) -> tuple[Any, Any, Any]:
        """The same, and how often a site's potential is undefined in those chains that are new."""
        if self.gossip.masks is not None:
            return self._masked(positions, is_new)
        self._count(1, positions.shape)
        value, gradient, is_bad = _local_sums(self.agents, positions)
        number = jnp.sum(is_bad & is_new)
        if not self.gossip.network.is_distributed:
            return value, gradient, number
        own = np.column_stack([np.asarray(value), np.asarray(gradient)])
        own = np.append(own.ravel(), number)
        return _split(self.gossip.network.communicator.sum(own), positions.shape)

    def leapfrogs(self, number: int, phase: Any, step: float, metric: Any) -> Any:
        """The phase after `number` leapfrogs, eqs. (1) to (3)."""
        if self.gossip.masks is None and not self.gossip.network.is_distributed:
            self._count(number, phase.position.shape)
            phase, count = _leapfrogs(self.agents, number, phase, step, metric)
            self.undefined.append(count)
            return phase
        for _ in range(number):
            is_new = np.isfinite(phase.value)
            phase = drifted(phase, step, metric)
            value, gradient, count = self._summed(phase.position, is_new)
            self.undefined.append(count)
            phase = _kicked(phase, value, gradient, step, metric)
        return phase

    def met_undefined(self) -> int:
        """How often leapfrogs came from a finite potential to one that is undefined at a site.

        Since this was asked last.
        """
        total = sum(int(count) for count in self.undefined)
        self.undefined.clear()
        return total

    def _count(self, sums: int, shape: tuple[int, ...]) -> None:
        """Count what the agents send for sums at positions of a shape (chain, dim)."""
        self._count_floats(sums, shape[0] * (shape[1] + 1) + 1, KIND)

    def _count_floats(self, sums: int, floats: int, kind: str) -> None:
        """Count what the agents send for sums of so many numbers."""
        gossip = self.gossip
        messages = sums * int(gossip.messages_by_agent.sum())
        gossip.network.budget.require(sums * gossip.rounds_per_sum)
        gossip.ledger.note(kind, sums * floats)
        gossip.count(sums * gossip.rounds_per_sum, messages, floats)

    def _masked(self, positions: Any, is_new: Any) -> tuple[Any, Any, Any]:
        """The same by a sum of which nobody learns more than the total."""
        parts = np.asarray(_stacked_parts(self.agents, positions))
        counts = (np.asarray(is_undefined(parts[..., 0])) & np.asarray(is_new)).sum(axis=1)
        flat = np.column_stack([self.gossip.bounded(parts).reshape(len(parts), -1), counts])
        return _split(self.gossip.sum(flat, KIND)[0], positions.shape)

    def own(self, positions: Any) -> np.ndarray:
        """The potential of every local agent at positions, (agent, position)."""
        return np.asarray(_local_parts(self.agents, positions)[0])


def refreshed(phase: Phase, keys: Any, iteration: int) -> Phase:
    """The phase with new momenta, N(0, I); `keys` are those that agents share, one per chain."""
    return _refreshed(phase, keys, iteration)


@jax.jit
def _refreshed(phase: Phase, keys: Any, iteration: Any) -> Phase:
    def drawn(key, like):
        return Round(iteration, key, key).shared_noise(like)

    return phase._replace(momentum=jax.vmap(drawn)(keys, phase.position))


@jax.jit
def ended(before: Phase, after: Phase, keys: Any, iteration: Any) -> Ended:
    """Accept or refuse trajectories from `before` to `after`, eq. (4)."""

    def uniform(key):
        return jax.random.uniform(Round(iteration, key, key).shared_key(), dtype=after.value.dtype)

    error = after.energy - before.energy
    error = jnp.where(jnp.isfinite(error), error, jnp.inf)
    acceptance = jnp.minimum(1.0, jnp.exp(-error))
    is_accepted = jax.vmap(uniform)(keys) < acceptance  # (4)

    def chosen(new, old):
        return jnp.where(is_accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    phase = jax.tree.map(chosen, after, before)
    return Ended(phase, acceptance, error > LARGEST_ENERGY_ERROR)


def half_kick(phase: Phase, gradient: Any, step: Any, metric: Any) -> Any:
    """The momenta of eqs. (1) and (3)."""
    turned = gradient @ metric if metric.ndim == 2 else gradient * metric
    return phase.momentum - step / 2 * turned


@jax.jit
def drifted(phase: Phase, step: Any, metric: Any) -> Phase:
    """The phase after eqs. (1) and (2), with the potential and the gradient of before."""
    momentum = half_kick(phase, phase.gradient, step, metric)  # (1)
    drift = jax.vmap(times, in_axes=(None, 0))(metric, momentum)
    return phase._replace(position=phase.position + step * drift, momentum=momentum)  # (2)


@jax.jit
def _kicked(phase: Phase, value: Any, gradient: Any, step: Any, metric: Any) -> Phase:
    momentum = half_kick(phase, gradient, step, metric)  # (3)
    return Phase(phase.position, momentum, value, gradient)


@jax.jit
def _leapfrogs(
    agents: Agents, number: Any, phase: Phase, step: Any, metric: Any
) -> tuple[Phase, Any]:
    def one(_, carried):
        phase, count = carried
        is_new, phase = jnp.isfinite(phase.value), drifted(phase, step, metric)
        value, gradient, is_bad = _local_sums(agents, phase.position)
        return _kicked(phase, value, gradient, step, metric), count + jnp.sum(is_bad & is_new)

    return jax.lax.fori_loop(0, number, one, (phase, jnp.zeros((), int)))


@jax.jit
def _local_parts(agents: Agents, positions: Any) -> tuple[Any, Any]:
    """Potentials (agent, chain) and gradients (agent, chain, dim) of the local agents."""

    def of_agent(agent):
        return jax.vmap(agent.value_and_gradient)(positions)

    return agents.each(of_agent)


@jax.jit
def _stacked_parts(agents: Agents, positions: Any) -> Any:
    """The same as one array, (agent, chain, 1 + dim)."""
    values, gradients = _local_parts(agents, positions)
    return jnp.concatenate([values[..., None], gradients], axis=2)


@jax.jit
def _local_sums(agents: Agents, positions: Any) -> tuple[Any, Any, Any]:
    """The sums over the local agents of potentials and gradients, and where they are undefined.

    They are infinite there.

    Automatic differentiation is applied to the sum rather than to its terms: what agents have in
    common, such as the prior or the solution of a differential equation, is differentiated once.
    """
    if agents.knows_gradient:
        value, gradient = (part.sum(axis=0) for part in _local_parts(agents, positions))
        return *defined(value, gradient), is_undefined(value)

    def total(q):
        return agents.sum_over(lambda agent: agent.potential(q))

    value, gradient = jax.vmap(jax.value_and_grad(total))(positions)
    return *defined(value, gradient), is_undefined(value)


def _split(total: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Values, gradients and a count from the numbers of a sum at positions of this shape."""
    parts = jnp.asarray(total[:-1]).reshape(shape[0], shape[1] + 1)
    return *defined(parts[:, 0], parts[:, 1:]), total[-1]


def is_undefined(value: Any) -> Any:
    """Whether potentials are those of no density: NaN, or minus infinity."""
    return jnp.isnan(value) | (value == -jnp.inf)


def defined(value: Any, gradient: Any) -> tuple[Any, Any]:
    """A potential that is infinite, with a gradient of zero, where one of them is not finite."""
    is_defined = jnp.isfinite(value) & jnp.isfinite(gradient).all(axis=1)
    return jnp.where(is_defined, value, jnp.inf), jnp.where(is_defined[:, None], gradient, 0.0)

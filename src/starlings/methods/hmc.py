"""Hamiltonian Monte Carlo on sums: all sites run the same chains, and one sum makes one leapfrog.

Every site knows all positions q of all chains (the same bits: the same seed, the same sums) and
differs from the others only in which part f_i of the potential F = sum_i f_i it can compute. With
momenta p ~ N(0, I) and a metric A, for which A A' is near the covariance of the posterior, a
leapfrog of length eps is

    p <- p - eps/2 A' grad F(q)                                                             (1)
    q <- q + eps A p                                                                        (2)
    p <- p - eps/2 A' grad F(q)                                                             (3)

and needs one sum over the network, of chains (dim + 1) numbers: F and its gradient at the new q. A
trajectory of L leapfrogs ends in q', p', and is accepted with the probability

    min(1, exp(H(q, p) - H(q', p'))),    H(q, p) = F(q) + p'p / 2                           (4)

so that exp(-F) is invariant exactly, for any potential. All chains have the same eps and the same
L: they move in lock-step, and one message carries them all.

Momenta and the uniform number of (4) have the address (chain, iteration) of the noise that all
agents share, so that they are drawn again wherever a run is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.problem.coordinates import times
from starlings.random.addresses import Round
from starlings.runtime.buckets import Agents, grouped

KIND = "potentials and gradients along trajectories"
"""What an agent puts into the sums, in the account of what leaves a site."""
LARGEST_ENERGY_ERROR = 1000.0
"""Energy error H(q', p') - H(q, p), in nats, above which a trajectory counts as diverged."""


class Phase(NamedTuple):
    """Where all chains are: positions and momenta, and F and its gradient at the positions."""

    position: Any
    """q, (chain, dim)."""
    momentum: Any
    """p, (chain, dim), in units in which it is N(0, I)."""
    value: Any
    """F(q), (chain,)."""
    gradient: Any
    """grad F(q), (chain, dim)."""

    @property
    def energy(self) -> Any:
        """H of eq. (4), (chain,)."""
        return self.value + 0.5 * jnp.sum(self.momentum**2, axis=1)


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

    @classmethod
    def of(cls, problem: Problem, gossip: Gossip) -> SummedChains:
        """The sums of a problem."""
        return cls(grouped(problem.agents(gossip.network)), gossip)

    def at(self, positions: Any) -> tuple[Any, Any]:
        """F (chain,) and its gradient (chain, dim) at positions (chain, dim)."""
        if self.gossip.masks is not None:
            return self._masked(positions)
        self._count(1, positions.shape)
        value, gradient = _local_sums(self.agents, positions)
        if not self.gossip.network.is_distributed:
            return value, gradient
        own = np.column_stack([np.asarray(value), np.asarray(gradient)])
        total = jnp.asarray(self.gossip.network.communicator.sum(own))
        return _defined(total[:, 0], total[:, 1:])

    def leapfrogs(self, number: int, phase: Phase, step: float, metric: Any) -> Phase:
        """The phase after `number` leapfrogs, eqs. (1) to (3)."""
        if self.gossip.masks is None and not self.gossip.network.is_distributed:
            self._count(number, phase.position.shape)
            return _leapfrogs(self.agents, number, phase, step, metric)
        for _ in range(number):
            phase = _drifted(phase, step, metric)
            value, gradient = self.at(phase.position)
            phase = _kicked(phase, value, gradient, step, metric)
        return phase

    def _count(self, sums: int, shape: tuple[int, ...]) -> None:
        """Count what the agents send for sums at positions of a shape (chain, dim)."""
        gossip, floats = self.gossip, shape[0] * (shape[1] + 1)
        messages = sums * int(gossip.messages_by_agent.sum())
        gossip.ledger.note(KIND, sums * floats)
        gossip.ledger.add(sums * gossip.rounds_per_sum, messages, floats)

    def _masked(self, positions: Any) -> tuple[Any, Any]:
        """The same by a sum of which nobody learns more than the total."""
        values, gradients = (np.asarray(part) for part in _local_parts(self.agents, positions))
        parts = np.concatenate([values[..., None], gradients], axis=2)
        total = jnp.asarray(self.gossip.sum(self.gossip.bounded(parts), KIND)[0])
        return _defined(total[:, 0], total[:, 1:])


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


def _half_kick(phase: Phase, gradient: Any, step: Any, metric: Any) -> Any:
    """The momenta of eqs. (1) and (3)."""
    turned = gradient @ metric if metric.ndim == 2 else gradient * metric
    return phase.momentum - step / 2 * turned


@jax.jit
def _drifted(phase: Phase, step: Any, metric: Any) -> Phase:
    momentum = _half_kick(phase, phase.gradient, step, metric)  # (1)
    drift = jax.vmap(times, in_axes=(None, 0))(metric, momentum)
    return phase._replace(position=phase.position + step * drift, momentum=momentum)  # (2)


@jax.jit
def _kicked(phase: Phase, value: Any, gradient: Any, step: Any, metric: Any) -> Phase:
    momentum = _half_kick(phase, gradient, step, metric)  # (3)
    return Phase(phase.position, momentum, value, gradient)


@jax.jit
def _leapfrogs(agents: Agents, number: Any, phase: Phase, step: Any, metric: Any) -> Phase:
    def one(_, phase):
        phase = _drifted(phase, step, metric)
        return _kicked(phase, *_local_sums(agents, phase.position), step, metric)

    return jax.lax.fori_loop(0, number, one, phase)


@jax.jit
def _local_parts(agents: Agents, positions: Any) -> tuple[Any, Any]:
    """Potentials (agent, chain) and gradients (agent, chain, dim) of the local agents."""

    def of_agent(agent):
        return jax.vmap(lambda q: (agent.potential(q), agent.gradient(q)))(positions)

    return agents.each(of_agent)


@jax.jit
def _local_sums(agents: Agents, positions: Any) -> tuple[Any, Any]:
    """The sums over the local agents of potentials and gradients; infinite where undefined.

    Automatic differentiation is applied to the sum rather than to its terms: what agents have in
    common, such as the prior or the solution of a differential equation, is differentiated once.
    """
    if agents.knows_gradient:
        values, gradients = _local_parts(agents, positions)
        return _defined(values.sum(axis=0), gradients.sum(axis=0))

    def total(q):
        return agents.sum_over(lambda agent: agent.potential(q))

    return _defined(*jax.vmap(jax.value_and_grad(total))(positions))


def _defined(value: Any, gradient: Any) -> tuple[Any, Any]:
    """A potential that is infinite, with a gradient of zero, where one of them is not finite."""
    is_defined = jnp.isfinite(value) & jnp.isfinite(gradient).all(axis=1)
    return jnp.where(is_defined, value, jnp.inf), jnp.where(is_defined[:, None], gradient, 0.0)

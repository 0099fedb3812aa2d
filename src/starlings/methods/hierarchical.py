"""Lock-step HMC where every site has parameters of its own: exact, and these never leave it.

All sites know the shared position q and momentum p of every chain, as in `hmc`. Site i alone knows
its local position w_i and momentum r_i ~ N(0, I). With the potential f_i(q, w_i), a leapfrog is

    p   <- p - eps/2 A' sum_i df_i/dq       r_i <- r_i - eps/2 df_i/dw_i                    (1)
    q   <- q + eps A p                      w_i <- w_i + eps r_i                            (2)
    p   <- p - eps/2 A' sum_i df_i/dq       r_i <- r_i - eps/2 df_i/dw_i                    (3)

Sites need one sum for it, that of f_i and df_i/dq at the new positions. Site i has made its half of
(3) before it sends, so the change of its kinetic energy since the trajectory began is sent along:

    k_i = (|r_i|^2 - |r_i at the beginning|^2) / 2                                          (4)

and the energy of which the difference decides on acceptance, as in eq. (4) of `hmc`, is

    H = sum_i f_i + |p|^2 / 2 + sum_i k_i                                                   (5)

So a leapfrog takes chains (shared dim + 2) + 1 numbers, whatever the number of local parameters.

Local parameters are strongly tied to shared ones where there are many sites. Every site therefore
moves in coordinates of its own, in which the two are nearly independent:

    x = c + L q,      u_i = m_i + B_i (x - x0) + S_i D_i w_i                                (6)

with m_i, B_i and S_i from Laplace's approximation at a reference x0 (see `solvers.laplace`), and
D_i the standard deviations that the site's own chains showed in those coordinates. Given x, (6) is
a shift, and a scaling that does not depend on x: it changes f_i by a constant. For a Gaussian
posterior q and all w_i are exactly independent. During the warm-up, x0 follows the mean of the
chains, which all sites know, and all else in (6) is found at the site, without a message.

Local momenta have the address (chain, agent, iteration) of private noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.methods.hmc import (
    Phase,
    SummedChains,
    defined,
    drifted,
    half_kick,
    is_undefined,
    refreshed,
)
from starlings.methods.own_coordinates import Sites, original_positions, relocated
from starlings.methods.phase import SplitPhase, still
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.random.addresses import Round, chain_keys
from starlings.runtime.buckets import Agents

KIND = "potentials, gradients and kinetic energies along trajectories"
"""What an agent puts into the sums, in the account of what leaves a site."""


@dataclass(frozen=True)
class HierarchicalChains(SummedChains):
    """The potential of all agents at the shared positions of all chains, and at local ones."""

    sites: Sites = field(kw_only=True)

    @classmethod
    def at_sites(
        cls, problem: Problem, gossip: Gossip, coordinates: Any, seed: int, chains: int
    ) -> HierarchicalChains:
        """The sums of a problem with local parameters.

        Args:
            problem: the problem in the model's coordinates.
            gossip: the sums over its network.
            coordinates: c and L of eq. (6), with any fields after them; None for 0 and I.
            seed: the seed of local noise.
            chains: the number of chains.
        """
        keys, shared = chain_keys(seed, chains, problem.local)[0], problem.num_shared
        centre, scale = np.zeros(shared), np.eye(shared)
        if coordinates is not None:
            centre, scale = coordinates.centre, coordinates.scale
            scale = np.diag(scale) if scale.ndim == 1 else scale
        # Known quadratic potentials are of the coordinates of the model, and rows have the same.
        agents = replace(problem.agents(gossip.network), quadratic=None)
        sites = Sites(agents, keys, np.asarray(centre), np.asarray(scale))
        return cls(sites.moved, gossip, sites=sites)

    def at(self, positions: Any) -> tuple[Any, Any]:
        """F (chain,) and its gradient (chain, shared) at positions, where all w_i are zero."""
        phase = self._evaluated(positions, self._nowhere(len(positions)))
        return phase.value, phase.gradient

    def own(self, positions: Any) -> np.ndarray:
        """The potential of every local agent at positions, (agent, position), with w_i = 0."""
        phase = still(jnp.asarray(positions), self._nowhere(len(positions)))
        return np.asarray(_parts(self.sites.moved, phase, 0.0)[1][..., 0])

    def begun(self, positions: Any) -> SplitPhase:
        """The phase at positions (chain, shared), with local ones near those of Laplace.

        Chains whose potential is not finite there have w_i = 0.
        """
        noise = _private(self.sites.keys, 0, self._nowhere(len(positions)))
        phase = self._evaluated(positions, noise)
        is_bad = ~np.isfinite(np.asarray(phase.value))
        if not is_bad.any():
            return phase
        return self._evaluated(positions, jnp.where(is_bad[:, None, None], 0.0, noise))

    def refreshed(self, phase: SplitPhase, keys: Any, iteration: int) -> SplitPhase:
        """The phase with new momenta, shared and local, N(0, I)."""
        momentum = refreshed(Phase(*phase[:4]), keys, iteration).momentum
        return _with_momenta(phase, momentum, self.sites.keys, iteration)

    def leapfrogs(self, number: int, phase: SplitPhase, step: float, metric: Any) -> SplitPhase:
        """The phase after `number` leapfrogs, eqs. (1) to (3)."""
        agents = self.sites.moved
        if self.gossip.masks is None and not self.gossip.network.is_distributed:
            self._count(number, phase.position.shape)
            phase, count = _leapfrogs(agents, number, phase, step, metric)
            self.undefined.append(count)
            return phase
        for _ in range(number):
            is_new = np.isfinite(phase.value)
            phase = _moved(phase, step, metric)
            phase, parts = _parts(agents, phase, step)
            total, count = self._summed_parts(parts, is_new)
            self.undefined.append(count)
            phase = _with_sums(phase, total, step, metric)
        return phase

    def observe(self, phase: SplitPhase) -> None:
        """Note the local positions of a trajectory, for `adapted`."""
        self.sites.observe(phase.own.position)

    def adapted(self, phase: SplitPhase, reference: np.ndarray) -> SplitPhase:
        """The same point in the coordinates (6) for another reference, given as q; one sum."""
        before = self.sites.frame
        self.sites.learn_spread()
        self.sites.refer_to(reference)
        where = relocated(before, self.sites.frame, phase)
        return self._evaluated(phase.position, where)

    def draws(self, phase: SplitPhase, number: int) -> np.ndarray:
        """The model's flat vectors (x, u_i), (chain, agent, dim)."""
        return np.asarray(original_positions(self.sites.frame, phase))

    def arrays(self) -> dict[str, np.ndarray]:
        """What the sites have learnt, as named arrays."""
        return self.sites.arrays()

    def restore(self, named: dict[str, np.ndarray]) -> None:
        """Go back to where these were the `arrays`."""
        self.sites.restore(named)

    def _nowhere(self, chains: int) -> Any:
        """w_i = 0, (chain, agent, local)."""
        return jnp.zeros((chains, *self.sites.spread.shape))

    def _evaluated(self, positions: Any, own: Any) -> SplitPhase:
        """The phase without momenta at these positions, by one sum."""
        phase, parts = _parts(self.sites.moved, still(jnp.asarray(positions), own), 0.0)
        if self.gossip.masks is None and not self.gossip.network.is_distributed:
            self._count(1, phase.position.shape)
            total = parts.sum(axis=0)
        else:
            total, _ = self._summed_parts(parts, np.zeros(len(positions), bool))
        return _with_sums(phase, total, 0.0, jnp.ones(phase.position.shape[1]))

    def _summed_parts(self, parts: Any, is_new: Any) -> tuple[Any, Any]:
        """The sum of parts (agent, chain, number) over all agents, and of undefined potentials."""
        counts = (np.asarray(is_undefined(parts[..., 0])) & np.asarray(is_new)).sum(axis=1)
        if self.gossip.masks is not None:
            bounded = self.gossip.bounded(parts).reshape(len(parts), -1)
            total = self.gossip.sum(np.column_stack([bounded, counts]), KIND)[0]
        else:
            self._count(1, (parts.shape[1], parts.shape[2] - 2))
            own = np.append(np.asarray(parts.sum(axis=0)).ravel(), counts.sum())
            total = self.gossip.network.communicator.sum(own)
        return jnp.asarray(total[:-1]).reshape(parts.shape[1:]), total[-1]

    def _count(self, sums: int, shape: tuple[int, ...]) -> None:
        """Count what the agents send for sums at positions of a shape (chain, shared)."""
        self._count_floats(sums, shape[0] * (shape[1] + 2) + 1, KIND)


@jax.jit
def _private(keys: Any, iteration: Any, like: Any) -> Any:
    """Private noise of an iteration, (chain, agent, local)."""

    def drawn(key, one):
        return Round(iteration, key, key).private_noise(one)

    return jax.vmap(jax.vmap(drawn))(keys, like)


@jax.jit
def _with_momenta(phase: SplitPhase, momentum: Any, keys: Any, iteration: Any) -> SplitPhase:
    own = _private(keys, iteration, phase.own.position)
    local = phase.own._replace(momentum=own, energy=0.5 * jnp.sum(own**2, axis=2))
    return phase._replace(momentum=momentum, kinetic=jnp.zeros_like(phase.kinetic), own=local)


@jax.jit
def _moved(phase: SplitPhase, step: Any, metric: Any) -> SplitPhase:
    """Eqs. (1) and (2)."""
    shared = drifted(Phase(*phase[:4]), step, metric)
    momentum = phase.own.momentum - step / 2 * phase.own.gradient  # (1)
    own = phase.own._replace(
        momentum=momentum,
        position=phase.own.position + step * momentum,  # (2)
    )
    return phase._replace(**shared._asdict(), own=own)


@jax.jit
def _parts(agents: Agents, phase: SplitPhase, step: Any) -> tuple[SplitPhase, Any]:
    """The phase after the local half of (3), and f_i, k_i and df_i/dq, (agent, chain, ...)."""
    shared = phase.position.shape[1]

    def of_agent(agent, own):
        def at(q, w):
            return jax.value_and_grad(agent.potential)(jnp.concatenate([q, w]))

        return jax.vmap(at)(phase.position, own)

    values, gradients = agents.each(of_agent, jnp.moveaxis(phase.own.position, 1, 0))
    is_defined = jnp.isfinite(values) & jnp.isfinite(gradients).all(axis=2)
    slopes = jnp.where(is_defined[..., None], gradients[..., shared:], 0.0).swapaxes(0, 1)
    momentum = phase.own.momentum - step / 2 * slopes  # (3)
    change = 0.5 * jnp.sum(momentum**2, axis=2) - phase.own.energy  # (4)
    own = phase.own._replace(momentum=momentum, gradient=slopes)
    numbers = (values[..., None], change.T[..., None], gradients[..., :shared])
    return phase._replace(own=own), jnp.concatenate(numbers, axis=2)


@jax.jit
def _with_sums(phase: SplitPhase, total: Any, step: Any, metric: Any) -> SplitPhase:
    """The phase after the shared half of (3), with sums (chain, 2 + shared)."""
    value, gradient = defined(total[:, 0], total[:, 2:])
    momentum = half_kick(Phase(*phase[:4]), gradient, step, metric)  # (3)
    return SplitPhase(phase.position, momentum, value, gradient, total[:, 1], phase.own)


@jax.jit
def _leapfrogs(
    agents: Agents, number: Any, phase: SplitPhase, step: Any, metric: Any
) -> tuple[SplitPhase, Any]:
    def one(_, carried):
        phase, count = carried
        is_new = jnp.isfinite(phase.value)
        phase, parts = _parts(agents, _moved(phase, step, metric), step)
        total = parts.sum(axis=0)
        count = count + jnp.sum(is_undefined(total[:, 0]) & is_new)
        return _with_sums(phase, total, step, metric), count

    return jax.lax.fori_loop(0, number, one, (phase, jnp.zeros((), int)))

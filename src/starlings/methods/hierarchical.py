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

with m_i, B_i and S_i from Laplace's approximation at a reference x0 (see `solvers.laplace`), and D_i
the standard deviations that the site's own chains showed in those coordinates. Given x, (6) is a
shift and a scaling that do not depend on x, so it changes f_i by a constant. For a Gaussian
posterior q and all w_i are exactly independent. During the warm-up, x0 follows the mean of the
chains, which all sites know, and all else in (6) is found at the site, without a message.

Local momenta have the address (chain, agent, iteration) of private noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.problem.agent import Agent
from starlings.problem.coordinates import Frame
from starlings.random.addresses import Round, chain_keys
from starlings.runtime.buckets import Agents, grouped
from starlings.runtime.checkpoint import OWN
from starlings.solvers.laplace import Conditional, conditional

KIND = "potentials, gradients and kinetic energies along trajectories"
"""What an agent puts into the sums, in the account of what leaves a site."""
PRIOR_DRAWS = 5.0
"""Weight, in draws, of the standard deviation 1 towards which D_i is shrunk."""


class Own(NamedTuple):
    """Where the chains are at the local agents; arrays (chain, agent, ...)."""

    position: Any
    """w_i, (chain, agent, local)."""
    momentum: Any
    """r_i, (chain, agent, local)."""
    gradient: Any
    """df_i/dw_i, (chain, agent, local)."""
    energy: Any
    """|r_i|^2 / 2 at the beginning of the trajectory, (chain, agent)."""


class SplitPhase(NamedTuple):
    """Where all chains are: what all sites know, and what the local agents know."""

    position: Any
    """q, (chain, shared)."""
    momentum: Any
    """p, (chain, shared)."""
    value: Any
    """F = sum_i f_i, (chain,)."""
    gradient: Any
    """sum_i df_i/dq, (chain, shared)."""
    kinetic: Any
    """sum_i k_i of eq. (4), (chain,)."""
    own: Own

    @property
    def energy(self) -> Any:
        """H of eq. (5), (chain,)."""
        return self.value + 0.5 * jnp.sum(self.momentum**2, axis=1) + self.kinetic  # (5)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """All parts as named arrays; those of agents with the agent as first axis."""
        shared = zip(self._fields[:-1], self[:-1], strict=True)
        own = zip(Own._fields, self.own, strict=True)
        return {f"{name}_{key}": np.asarray(value) for key, value in shared} | {
            f"{OWN}{name}_{key}": np.moveaxis(np.asarray(value), 1, 0) for key, value in own
        }

    @classmethod
    def from_arrays(cls, name: str, named: dict[str, np.ndarray]) -> SplitPhase:
        """The phase of which these are the `arrays`."""
        shared = (jnp.asarray(named[f"{name}_{key}"]) for key in cls._fields[:-1])
        own = (jnp.asarray(np.moveaxis(named[f"{OWN}{name}_{key}"], 0, 1)) for key in Own._fields)
        return cls(*shared, Own(*own))


@dataclass
class Sites:
    """The local agents in the coordinates (6), and what changes these in the warm-up."""

    agents: Agent
    """The local agents, in the coordinates of the model."""
    keys: Any
    """The keys of private noise, (chain, agent)."""
    centre: np.ndarray
    """c, (shared,)."""
    scale: np.ndarray
    """L, (shared, shared)."""
    moved: Agents = field(init=False)
    """The local agents in the coordinates (6)."""
    frame: Frame = field(init=False)
    """These coordinates, with the agent as first axis."""
    found: Conditional = field(init=False)
    """m_i, B_i and S_i, with the agent as first axis."""
    spread: np.ndarray = field(init=False)
    """The diagonal of D_i, (agent, local)."""
    moments: np.ndarray = field(init=False)
    """The number, the sum and the sum of squares of positions w seen, (agent, 3, local)."""

    def __post_init__(self) -> None:
        count, local, shared = len(self.agents.num_rows), self.agents.num_local, len(self.centre)
        root = np.broadcast_to(np.eye(local), (count, local, local))
        slope = np.zeros((count, local, shared))
        self.found = Conditional(np.zeros((count, local)), slope, root)
        self.spread, self.moments = np.ones((count, local)), np.zeros((count, 3, local))
        self.refer_to(np.zeros(shared))

    def refer_to(self, reference: np.ndarray) -> None:
        """Take the coordinates (6) for the reference x0 = c + L `reference`."""
        x0 = self.centre + self.scale @ reference
        new = Conditional(*map(np.asarray, _conditionals(self.agents, x0, self.found.mode)))
        flat = [part.reshape(len(part), -1) for part in new]
        is_known = np.isfinite(np.hstack(flat)).all(axis=1)
        known = [is_known.reshape(-1, *[1] * (part.ndim - 1)) for part in new]
        self.found = Conditional(*map(np.where, known, new, self.found))
        self._take_frame(x0)

    def learn_spread(self) -> None:
        """Take D_i from the positions that were seen since the last time."""
        count, total, square = np.moveaxis(self.moments, 1, 0)
        count = np.maximum(count, 1.0)
        variance = np.maximum(square / count - (total / count) ** 2, 0.0)
        pooled = (count * variance + PRIOR_DRAWS) / (count + PRIOR_DRAWS)
        self.spread = self.spread * np.sqrt(pooled)
        self.moments = np.zeros_like(self.moments)

    def observe(self, positions: Any) -> None:
        """Note positions w (chain, agent, local)."""
        w = np.asarray(positions)
        sums = np.full(w.shape[1:], float(len(w))), w.sum(axis=0), (w**2).sum(axis=0)
        self.moments = self.moments + np.stack(sums, axis=1)

    def _take_frame(self, x0: np.ndarray) -> None:
        (mode, slope, root), shared = self.found, len(self.centre)
        dim = shared + mode.shape[1]
        centre, scale = np.zeros((len(mode), dim)), np.zeros((len(mode), dim, dim))
        centre[:, :shared], scale[:, :shared, :shared] = self.centre, self.scale
        centre[:, shared:] = mode + slope @ (self.centre - x0)  # (6)
        scale[:, shared:, :shared] = slope @ self.scale  # (6)
        scale[:, shared:, shared:] = root * self.spread[:, None, :]  # (6)
        self.set_frame(centre, scale)

    def set_frame(self, centre: np.ndarray, scale: np.ndarray) -> None:
        """Move the agents to the coordinates z = centre + scale (q, w)."""
        parts = (centre, scale, np.zeros_like(centre), np.zeros_like(scale))
        self.frame = Frame(*map(jnp.asarray, parts))
        self.moved = grouped(replace(self.agents, frame=self.frame))

    def arrays(self) -> dict[str, np.ndarray]:
        """All that changes, as named arrays."""
        parts = {"centre": self.frame.centre, "scale": self.frame.scale, "spread": self.spread}
        parts |= {"moments": self.moments, **self.found._asdict()}
        return {f"{OWN}site_{name}": np.asarray(value) for name, value in parts.items()}

    def restore(self, named: dict[str, np.ndarray]) -> None:
        """Go back to where these were the `arrays`."""
        own = {name.removeprefix(f"{OWN}site_"): value for name, value in named.items()}
        self.found = Conditional(*(own[name] for name in Conditional._fields))
        self.spread, self.moments = own["spread"], own["moments"]
        self.set_frame(own["centre"], own["scale"])


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
        phase = _still(jnp.asarray(positions), self._nowhere(len(positions)))
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
        where = _relocated(before, self.sites.frame, phase)
        return self._evaluated(phase.position, where)

    def draws(self, phase: SplitPhase) -> np.ndarray:
        """The model's flat vectors (x, u_i), (chain, agent, dim)."""
        return np.asarray(_originals(self.sites.frame, phase))

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
        phase, parts = _parts(self.sites.moved, _still(jnp.asarray(positions), own), 0.0)
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


def _still(positions: Any, own: Any) -> SplitPhase:
    """A phase without momenta, of which nothing but the positions is known."""
    chains, agents, _ = own.shape
    nothing, zero = jnp.zeros(chains), jnp.zeros_like(own)
    local = Own(own, zero, zero, jnp.zeros((chains, agents)))
    return SplitPhase(positions, jnp.zeros_like(positions), nothing, positions, nothing, local)


@jax.jit
def _conditionals(agents: Agent, x: Any, starts: Any) -> Conditional:
    return jax.vmap(conditional, in_axes=(0, None, 0))(agents, x, starts)


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
    return SplitPhase(*shared, phase.kinetic, own)


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


@jax.jit
def _originals(frame: Frame, phase: SplitPhase) -> Any:
    """The model's flat vectors, (chain, agent, dim)."""

    def of_agent(own_frame, w):
        return jax.vmap(lambda q, own: own_frame.to_original(jnp.concatenate([q, own])))(
            phase.position, w
        )

    return jax.vmap(of_agent)(frame, phase.own.position.swapaxes(0, 1)).swapaxes(0, 1)


@jax.jit
def _relocated(before: Frame, after: Frame, phase: SplitPhase) -> Any:
    """Local positions (chain, agent, local) in other coordinates with the same c and L."""
    shared, local = phase.position.shape[1], _originals(before, phase)

    def of_agent(own_frame, z):
        lower, root = own_frame.scale[shared:, :shared], own_frame.scale[shared:, shared:]
        left = z[:, shared:] - own_frame.centre[shared:] - phase.position @ lower.T
        return jnp.linalg.solve(root, left.T).T

    return jax.vmap(of_agent)(after, local.swapaxes(0, 1)).swapaxes(0, 1)

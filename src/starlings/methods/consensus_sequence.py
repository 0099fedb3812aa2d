"""Global consensus Monte Carlo along a sequence of ties (Rendell, Johansen, Lee, Whiteley 2021).

Particles (z, x_1, ..., x_b), in d dimensions, go through the laws of `samplers.gcmc`

    pi_k(z, x) = mu(z) prod_j N(x_j; z, l_k) exp(-f_j(x_j)) / Z_k,      l_0 > l_1 > ...     (1)

They begin in l_0 with sweeps of its Gibbs sampler. On the way from l_k to the next l they have

    log w = (b d / 2) log(l_k / l) - (1 / l - 1 / l_k) sum_j |x_j - z|^2 / 2                (2)

added to the logarithms of their weights, which are W_i, of sum one, after division by

    Z_{k+1} / Z_k = sum_i W_i w_i                                                           (3)

If 1 / sum_i W_i^2, the effective number, is below a share of their number, as many are drawn by
their weights, independently, and weigh the same. Then they make sweeps in the new l. As l goes to
zero Z comes to the evidence, so that (3) says by how much that of l_0 is wrong. What follows for
estimates and their errors is in `consensus_estimates`.

The hub has z and hears x, so that (2) and all draws by weights are made there: for them it sends
nothing but the numbers of the particles that were drawn, with its next message. A message is one
for all particles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import CandidateError, check_count
from starlings.methods.consensus_estimates import ConsensusSequence
from starlings.network import Network
from starlings.network.ledger import Ledger
from starlings.problem import Problem
from starlings.problem.hub import with_hub
from starlings.random.addresses import chain_keys, shared_uniforms
from starlings.runtime import loop
from starlings.runtime.masked_delivery import delivery_of
from starlings.runtime.rounds import prepared
from starlings.runtime.unreliable import OnLinks
from starlings.samplers import GlobalConsensusMC


def consensus_sequence(
    problem: Problem,
    strengths: Sequence[float],
    *,
    particles: int = 1_000,
    burn_in: int = 50,
    sweeps: int = 2,
    threshold: float = 0.5,
    seed: int = 0,
) -> ConsensusSequence:
    """Estimates at many ties l at once: the sequential sampler of global consensus Monte Carlo.

    Every particle is a chain of `GlobalConsensusMC`, whose ties become tighter, and whose weight
    says how well it fits. `ConsensusSequence.at_zero` takes off the bias of all ties. All sites are
    in this process.

    Args:
        problem: the model and the rows of every site, without a hub.
        strengths: l_0 > l_1 > ..., variances in squared parameters. With b sites and d parameters,
            steps by a factor of less than 1 + 1 / sqrt(b d) keep weights even.
        particles: their number.
        burn_in: sweeps in l_0, of particles that begin in N(0, I).
        sweeps: sweeps in each other l.
        threshold: the share of the particles below which the effective number has them drawn anew.
        seed: the same seed gives the same particles.

    >>> import starlings as st
    >>> two = st.models.gaussian([[[1.0]], [[3.0]]])  # the posterior is N(0, 1 / 4)
    >>> found = st.consensus_sequence(two, [0.4, 0.3, 0.2], particles=50)
    >>> found.positions.shape, found.sent.rounds
    ((3, 50, 1), 108)
    """
    ties = _checked(strengths)
    check_count(2, particles=particles)
    check_count(1, burn_in=burn_in, sweeps=sweeps)
    if not 0 <= threshold <= 1:
        raise ValueError(f"`threshold` must be between 0 (never) and 1, got {threshold!r}.")
    hubbed, network = with_hub(problem, prior="hub")
    sampler = GlobalConsensusMC(float(ties[0]))
    sampler.check(hubbed, network)
    with jax.enable_x64(True):
        swarm = _Swarm.of(hubbed, network, sampler, particles, seed)
        swarm.sweep(float(ties[0]), burn_in)
        moments = [swarm.moment(0.0, False)]
        uniforms = shared_uniforms(seed, "resampling", particles * (len(ties) - 1))
        for tie, uniform in zip(ties[1:], uniforms.reshape(-1, particles), strict=True):
            ratio = swarm.weigh(float(tie))
            is_due = swarm.effective_number < threshold * particles
            if is_due:
                swarm.draw(uniform)
            swarm.sweep(float(tie), sweeps)
            moments.append(swarm.moment(ratio, is_due))
    return _sequence(ties, moments, swarm.sent)


class _Moment(NamedTuple):
    """What is kept of the particles in one l."""

    positions: np.ndarray
    weights: np.ndarray
    ancestors: np.ndarray
    log_ratio: float
    """The logarithm of eq. (3)."""
    resampled: bool


def _sequence(ties: np.ndarray, moments: list[_Moment], sent: Ledger) -> ConsensusSequence:
    """All moments as one result."""
    return ConsensusSequence(
        strengths=ties,
        positions=np.array([each.positions for each in moments]),
        weights=np.array([each.weights for each in moments]),
        ancestors=np.array([each.ancestors for each in moments]),
        log_ratios=np.cumsum([each.log_ratio for each in moments]),
        resampled=np.array([each.resampled for each in moments]),
        sent=sent,
    )


def _checked(strengths: Any) -> np.ndarray:
    """The ties as numbers that fall."""
    ties = np.asarray(strengths, float)
    is_list = ties.ndim == 1 and len(ties) > 0 and np.isfinite(ties).all()
    if not is_list or ties[-1] <= 0 or np.any(np.diff(ties) >= 0):
        raise ValueError(
            "`strengths` must be positive numbers in descending order, such as "
            f"numpy.geomspace(1.0, 0.01, 30), got {strengths!r}."
        )
    return ties


@dataclass
class _Swarm:
    """The particles on their way."""

    network: Network
    sampler: GlobalConsensusMC
    """In the present l."""
    placed: Any
    """All agents, which know whether they are the hub."""
    wiring: Any
    keys: Any
    carry: Any
    """The states of sampler and particles, (particle, agent, ...); None before the first sweep."""
    starts: Any
    weights: np.ndarray
    ancestors: np.ndarray
    sent: Ledger

    @classmethod
    def of(
        cls, problem: Problem, network: Network, sampler: Any, particles: int, seed: int
    ) -> _Swarm:
        """Particles before the first sweep."""
        shape = (particles, network.size, problem.dim)
        keys = chain_keys(seed, particles, network.local)
        starts = jnp.asarray(np.random.default_rng(seed).standard_normal(shape))
        placed = sampler.placed(problem.agents(network, starts.dtype), network)
        wiring = delivery_of(network, sampler, starts.dtype)
        weights, ancestors = np.full(particles, 1 / particles), np.arange(particles)
        return cls(
            network, sampler, placed, wiring, keys, None, starts, weights, ancestors, Ledger()
        )

    def sweep(self, tie: float, count: int) -> None:
        """Move all particles by so many sweeps in this l."""
        self.sampler = replace(self.sampler, variance=tie)
        on_links = OnLinks.of(self.sampler, self.network)
        agents, rounds = prepared(on_links, self.placed), 2 * count
        if self.carry is None:
            self.carry = loop.start(on_links, agents, self.starts, self.keys)
        fixed = (on_links, agents, self.wiring, self.keys, jnp.inf)
        self.carry, _ = loop.advance(*fixed, self.carry, 1, rounds, capacity=1)
        messages = self.sampler.messages_until(np.array([rounds]), self.network).sum()
        self.sent.add(rounds, int(messages), self.starts[:, 0].size)

    @property
    def positions(self) -> np.ndarray:
        """z, (particle, dim)."""
        return np.asarray(self.carry.states.position[:, self.network.centre])

    @property
    def effective_number(self) -> float:
        """1 / sum_i W_i^2."""
        return float(1 / np.sum(self.weights**2))

    def weigh(self, tie: float) -> float:
        """Weigh the particles for the next l, eq. (2), and return the logarithm of eq. (3)."""
        x = np.delete(np.asarray(self.carry.states.memory), self.network.centre, axis=1)
        squares = np.sum((x - self.positions[:, None]) ** 2, axis=(1, 2))
        before = float(self.sampler.variance)
        number = x.shape[1] * x.shape[2]
        log_w = number / 2 * np.log(before / tie) - (1 / tie - 1 / before) * squares / 2  # (2)
        if not np.isfinite(log_w).all():
            raise CandidateError(
                f"particles of global consensus Monte Carlo left all bounds with the tie {before:g}"
                ": begin `strengths` with a smaller one."
            )
        largest = log_w.max()
        products = self.weights * np.exp(log_w - largest)
        self.weights = products / products.sum()
        return float(largest + np.log(products.sum()))  # (3)

    def draw(self, uniforms: np.ndarray) -> None:
        """Draw as many particles by their weights, and tell all sites their numbers."""
        passed = np.cumsum(self.weights)
        chosen = np.searchsorted(passed / passed[-1], uniforms)
        states = jax.tree.map(lambda column: column[chosen], self.carry.states)
        self.carry = self.carry._replace(states=states)
        self.ancestors = self.ancestors[chosen]
        self.weights = np.full(len(chosen), 1 / len(chosen))
        self.sent.add(0, self.network.num_edges, len(chosen))  # with the next position

    def moment(self, log_ratio: float, resampled: bool) -> _Moment:
        """The particles in the present l."""
        return _Moment(self.positions, self.weights, self.ancestors, log_ratio, resampled)

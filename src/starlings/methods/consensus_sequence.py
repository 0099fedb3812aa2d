"""Global consensus Monte Carlo along a sequence of ties (Rendell, Johansen, Lee, Whiteley 2021).

Particles (z, x_1, ..., x_b), in d dimensions, go through the laws of `samplers.gcmc`

    pi_k(z, x) = mu(z) prod_j N(x_j; z, l_k) exp(-f_j(x_j)) / Z_k,      l_0 > l_1 > ...     (1)

They begin in l_0 with sweeps of its Gibbs sampler. On the way from l_k to the next l they have

    log w = (b d / 2) log(l_k / l) - (1 / l - 1 / l_k) sum_j |x_j - z|^2 / 2                (2)

added to the logarithms of their weights, which are W_i, of sum one, after division by

    Z_{k+1} / Z_k = sum_i W_i w_i                                                           (3)

If 1 / sum_i W_i^2, the effective number, is below a share of their number, as many are drawn by
their weights, independently, and weigh the same. Then they make sweeps in the new l. As l goes to
zero Z comes to the evidence, so that (3) says by how much that of l_0 is wrong.

A particle descends from one of the first ones, its ancestor, which were independent. For a function
h of z, with the estimate m = sum_i W_i h(z_i) in one l,

    p_a = sum over the particles i of ancestor a of W_i (h(z_i) - m)                        (4)

are the parts of its error, and sum_a p_a^2 estimates its variance (Lee, Whiteley 2018). After r
draws of n particles by their weights, with the sum S_a of the weights of one ancestor's,

    1 - (n / (n - 1))^(r + 1) (1 - sum_a S_a^2)                                             (5)

estimates the relative variance of Z_k / Z_0. Estimates in all l have the ancestors in common. Their
regression on l (`estimate_at_zero`) is linear, and what it makes of the parts are the parts of the
estimate at l = 0.

The hub has z and hears x, so that (2) and all draws by weights are made there: for them it sends
nothing but the numbers of the particles that were drawn, with its next message. A message is one
for all particles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.diagnostics.extrapolation import AtZero, estimate_at_zero
from starlings.errors import CandidateError, check_count
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

Function = Callable[[np.ndarray], np.ndarray]
"""What is estimated of positions z, (particle, dim) -> (particle, ...)."""


class Estimates(NamedTuple):
    """What is expected of a function of z, in every l of a sequence."""

    estimate: np.ndarray
    """m, (tie, ...)."""
    error: np.ndarray
    """Its standard error, (tie, ...)."""
    parts: np.ndarray
    """The parts of its error, eq. (4), (tie, ancestor, ...)."""


@dataclass(frozen=True, eq=False)
class ConsensusSequence:
    """Weighted particles in every l, as `starlings.consensus_sequence` returns them."""

    strengths: np.ndarray
    """l_0 > l_1 > ..., (tie,)."""
    positions: np.ndarray
    """z in unconstrained coordinates, (tie, particle, dim)."""
    weights: np.ndarray
    """W_i, (tie, particle)."""
    ancestors: np.ndarray
    """The number of the first particle from which each descends, (tie, particle)."""
    log_ratios: np.ndarray
    """The logarithms of Z_k / Z_0, eq. (3), (tie,)."""
    resampled: np.ndarray
    """Whether particles were drawn by their weights on the way to each l, (tie,)."""
    sent: Ledger
    """What hub and sites have sent."""

    @property
    def effective_numbers(self) -> np.ndarray:
        """1 / sum_i W_i^2, (tie,)."""
        return 1 / np.sum(self.weights**2, axis=1)

    @property
    def log_ratio_errors(self) -> np.ndarray:
        """The standard errors of `log_ratios`, eq. (5), (tie,)."""
        number, drawn = self.weights.shape[1], np.cumsum(self.resampled)
        pairs = zip(self.ancestors, self.weights, strict=True)
        shares = np.array([np.bincount(*pair, minlength=number) for pair in pairs])
        apart = 1 - np.sum(shares**2, axis=1)
        return np.sqrt(np.maximum(1 - (number / (number - 1)) ** (drawn + 1) * apart, 0))  # (5)

    @property
    def surviving(self) -> np.ndarray:
        """Ancestors with descendants, (tie,): errors are those of so few, and rough below 100."""
        return np.array([len(np.unique(each)) for each in self.ancestors])

    def estimates(self, function: Function = np.asarray) -> Estimates:
        """What is expected of a function of z, by default of z itself, with its error.

        Args:
            function: from positions (particle, dim), unconstrained, to (particle, ...).
        """
        values = np.array([function(z) for z in self.positions], float)
        weights = self.weights.reshape(*self.weights.shape, *[1] * (values.ndim - 2))
        means = np.sum(weights * values, axis=1)
        apart, parts = weights * (values - means[:, None]), np.zeros_like(values)
        for part, ancestor, own in zip(parts, self.ancestors, apart, strict=True):
            np.add.at(part, ancestor, own)  # (4)
        return Estimates(means, np.sqrt(np.sum(parts**2, axis=1)), parts)

    def at_zero(self, function: Function = np.asarray, largest: float = np.inf) -> AtZero:
        """The same at l = 0: in the posterior, but for a bias of second order in l.

        Args:
            function: from positions (particle, dim), unconstrained, to (particle, ...).
            largest: ties with larger l are left out of the regression: further away a line fits
                less, and nearer by there are fewer estimates.
        """
        found = self.estimates(function)
        by = {"variances": found.error**2, "largest": largest}
        shared = by | {"variances": found.error[:, None] ** 2}
        parts = estimate_at_zero(self.strengths, found.parts, **shared).estimate
        at_zero = estimate_at_zero(self.strengths, found.estimate, **by)
        return AtZero(at_zero.estimate, np.sqrt(np.sum(parts**2, axis=0)))


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
        states = [swarm.state(0.0, False)]
        uniforms = shared_uniforms(seed, "resampling", particles * (len(ties) - 1))
        for tie, uniform in zip(ties[1:], uniforms.reshape(-1, particles), strict=True):
            ratio = swarm.weigh(float(tie))
            is_due = swarm.effective_number < threshold * particles
            if is_due:
                swarm.draw(uniform)
            swarm.sweep(float(tie), sweeps)
            states.append(swarm.state(ratio, is_due))
    *columns, ratios, resampled = map(np.array, zip(*states, strict=True))
    return ConsensusSequence(ties, *columns, np.cumsum(ratios), resampled, swarm.sent)


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

    def state(self, log_ratio: float, resampled: bool) -> tuple[Any, ...]:
        """What a `ConsensusSequence` keeps of the present l."""
        return self.positions, self.weights, self.ancestors, log_ratio, resampled

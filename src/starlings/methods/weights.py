"""Importance weights: one sum over the network makes draws of a near-Gaussian posterior.

Every site draws the same candidates z_s from a proposal (see `proposal`) and computes its own
potential f_i at all of them; one sum of as many numbers as there are candidates gives every site

    log w_s = - sum_i f_i(z_s) - log q(z_s),    q = sum_b (S_b / S) q_b                     (1)

Where the weights are uneven, further batches b are drawn from proposals that are fitted to the
weighted candidates so far; q in (1) is the mixture of all proposals (adaptive multiple importance
sampling), so that no candidate is lost. The largest weights are smoothed by a generalised Pareto
distribution, whose shape k-hat judges them (Vehtari, Simpson, Gelman, Yao and Gabry 2024): with
k-hat below `LARGEST_K` the weights have a finite variance. The effective number of candidates is

    n_eff = (sum_s w_s)^2 / sum_s w_s^2                                                     (2)

and the evidence, the marginal likelihood of all rows, is the mean of the weights,

    log Z = log (1/S) sum_s w_s,    error = sqrt(variance of w_s / S) / Z                   (3)

The largest of S weights whose tail has the shape k is of the order of S^k times their mean. Where
proposals are nearly perfect, the largest weights are a plateau from which a few stand out slightly;
a Pareto fit then means nothing, and k-hat comes out above one. So, with M the largest weight in
units of the mean,

    k-hat = log M / log S    where the fit gives `LARGEST_K` or more, but M <= sqrt(S) / 10     (4)

No single candidate, seen or unseen, then matters beside the Monte Carlo error of 1 / sqrt(S).

What k-hat cannot see: a mode that no candidate is near.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from starlings.errors import CandidateError
from starlings.methods.evaluation import device_of, potentials_at
from starlings.methods.proposal import Proposal
from starlings.network.gossip import Gossip
from starlings.runtime.buckets import Agents

KIND = "potentials at shared candidates"
"""What an agent puts into the sums, in the account of what leaves a site."""
LARGEST_K = 0.5
"""k-hat from which on weights are not trusted: their variance would be infinite."""
FEWEST_SMOOTHED = 25
"""Candidates of positive weight below which no k-hat is known: it needs five in the tail."""
EVEN = 0.1
"""Largest weight up to which weights count as even, in units of their mean and of sqrt(S)."""
BLOCK_BYTES, ACCELERATOR_BLOCK_BYTES = 2**22, 2**28
"""Bytes of one number for every row and candidate of a block, on a CPU and on other devices."""


class Batch(NamedTuple):
    """Candidates, and what the sum over the network says of them."""

    points: np.ndarray
    """z_s, (candidate, dim)."""
    potentials: np.ndarray
    """F(z_s), (candidate,)."""
    undefined: int = 0
    """How often the potential of a site was NaN, or minus infinity, at one of them."""


@dataclass
class WeightedCandidates:
    """All candidates so far, with the summed potential at each of them."""

    proposals: list[Proposal] = field(default_factory=list)
    """The different ones, in the order in which they were first drawn from."""
    drawn_from: list[int] = field(default_factory=list)
    """The number of the proposal of each batch."""
    sizes: list[int] = field(default_factory=list)
    """Candidates of each batch."""
    points: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    """z_s, (candidate, dim)."""
    potentials: np.ndarray = field(default_factory=lambda: np.empty(0))
    """F(z_s), (candidate,); infinite where it is undefined."""

    log_densities: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    """log q(z_s) of the different proposals, (proposal, candidate)."""
    undefined: list[int] = field(default_factory=list)
    """How often potentials of sites were undefined, by batch."""

    def with_batch(self, proposal: Proposal, *parts: Batch) -> WeightedCandidates:
        """These candidates and further batches from one proposal."""
        points, potentials = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        before, proposals = self.points.reshape(-1, points.shape[1]), self.proposals
        at_earlier = list(self.log_densities)
        if not any(proposal is each for each in proposals):
            proposals = [*proposals, proposal]
            at_earlier.append(proposal.log_density(before))
        at_new = [each.log_density(points) for each in proposals]
        number = next(i for i, each in enumerate(proposals) if each is proposal)
        return WeightedCandidates(
            proposals,
            [*self.drawn_from, *[number] * len(parts)],
            [*self.sizes, *(len(part.points) for part in parts)],
            np.concatenate([before, points]),
            np.concatenate([self.potentials, potentials]),
            np.concatenate([at_earlier, at_new], axis=1),
            [*self.undefined, *(part.undefined for part in parts)],
        )

    @property
    def last_proposal(self) -> Proposal:
        """The proposal of the last batch."""
        return self.proposals[self.drawn_from[-1]]

    @cached_property
    def log_weights(self) -> np.ndarray:
        """log w_s, eq. (1)."""
        shares = np.log(np.bincount(self.drawn_from, self.sizes) / len(self.points))
        return -self.potentials - logsumexp(shares[:, None] + self.log_densities, axis=0)  # (1)

    @property
    def is_defined(self) -> bool:
        """Whether any candidate has a finite potential, hence a positive weight."""
        return bool(np.isfinite(self.potentials).any())

    @property
    def undefined_share(self) -> float:
        """The share of the candidates at which the potential of a site is undefined, at most."""
        return min(1.0, sum(self.undefined) / max(1, len(self.points)))

    @cached_property
    def _smoothed(self) -> tuple[np.ndarray, float]:
        return _pareto_smoothed(self.log_weights) if self.is_defined else (self.log_weights, np.inf)

    @property
    def smoothed_log_weights(self) -> np.ndarray:
        """The logarithms of the smoothed weights, which sum to one."""
        return self._smoothed[0]

    @property
    def pareto_k(self) -> float:
        """k-hat of the weights: trust them below `LARGEST_K`; infinite where it is not known."""
        return self._smoothed[1]

    @property
    def effective_number(self) -> float:
        """n_eff, eq. (2)."""
        if not self.is_defined:
            return 0.0
        return float(np.exp(-logsumexp(2 * self.smoothed_log_weights)))  # (2)

    @property
    def log_evidence(self) -> tuple[float, float]:
        """log Z and its standard error, eq. (3), in the coordinates of the candidates."""
        logs, count = self.log_weights, len(self.log_weights)
        value = logsumexp(logs) - np.log(count)
        error = np.exp(logs - value).std(ddof=1) / np.sqrt(count)
        return float(value), float(error)  # (3)

    @cached_property
    def gaussian_k(self) -> float:
        """k-hat of the first batch: how near the posterior is to its Gaussian approximation."""
        return self._first_batches(1).pareto_k

    def without_last_batch(self) -> WeightedCandidates:
        """All candidates but those of the last batch."""
        return self._first_batches(len(self.sizes) - 1)

    def _first_batches(self, number: int) -> WeightedCandidates:
        count, drawn_from = sum(self.sizes[:number]), self.drawn_from[:number]
        different = max(drawn_from, default=-1) + 1
        kept = self.points[:count], self.potentials[:count], self.log_densities[:different, :count]
        return WeightedCandidates(
            self.proposals[:different],
            drawn_from,
            self.sizes[:number],
            *kept,
            self.undefined[:number],
        )

    @cached_property
    def is_trusted(self) -> bool:
        """Whether k-hat is good: at once, or before and after the last batch.

        The first good value of several is not trusted by itself: batches are drawn until there is
        one, and a tail that no candidate has found yet makes k-hat too small.
        """
        if not self.sizes or not self.pareto_k < LARGEST_K:
            return False
        return len(self.sizes) == 1 or self.without_last_batch().pareto_k < LARGEST_K

    def suffice(self, wanted: float) -> bool:
        """Whether the weights can be trusted, and are worth `wanted` draws."""
        return self.is_trusted and self.effective_number >= wanted


@dataclass(frozen=True)
class CandidateSums:
    """The sum over the network of all agents' potentials at candidates."""

    agents: Agents
    """The local agents, in the coordinates of the candidates."""
    gossip: Gossip
    dim: int
    num_rows: int
    """Rows of the local agents, by which candidates are divided into blocks."""

    def at(self, points: np.ndarray) -> Batch:
        """Candidates (candidate, dim) with F at each of them, by one sum over the network.

        Two further numbers: how many potentials are undefined at a site, and the mean of all
        coordinates, which tells whether all sites have the same candidates.
        """
        own = self.own(points)
        undefined = is_undefined(own).sum(axis=1, keepdims=True)
        own = self.gossip.bounded(_infinite_where_undefined(own))
        checksum = np.full((len(own), 1), points.mean())
        total = self.gossip.sum(np.column_stack([own, undefined, checksum]), KIND)[0]
        expected = self.gossip.network.size * points.mean()
        if not np.isclose(total[-1], expected, rtol=1e-9, atol=1e-9):
            raise CandidateError(
                "the sites did not draw the same candidates: they must run the same versions of "
                "starlings, NumPy and SciPy, with the same `seed`."
            )
        return Batch(points, _infinite_where_undefined(total[:-2]), round(total[-2]))

    def own(self, points: np.ndarray) -> np.ndarray:
        """The potential of every local agent at points, (agent, point)."""
        return potentials_at(self.agents, points, self.num_rows, block_bytes(self.agents))


def _pareto_smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Logarithms of weights, smoothed and normalised, and k-hat; infinite if none is known.

    Those that are zero in floating point take no part, since a tail of zeros fits any shape.
    Weights are left as they are where few are left, and by eq. (4).
    """
    from arviz_stats.base import array_stats

    plain = log_weights - logsumexp(log_weights)
    is_positive = plain > plain.max() + np.log(np.finfo(float).tiny)
    if is_positive.sum() < FEWEST_SMOOTHED:
        return plain, np.inf
    smoothed, log_count = plain.copy(), np.log(len(plain))
    with np.errstate(all="ignore"):  # of a fit that has no solution: k-hat is then NaN
        smoothed[is_positive], k = array_stats.psislw(-plain[is_positive])
    log_largest = plain.max() + log_count
    if not k < LARGEST_K and log_largest <= np.log(EVEN) + log_count / 2:
        return plain, float(log_largest / log_count)  # (4)
    return (smoothed, float(k)) if np.isfinite(k) else (plain, np.inf)


def is_undefined(potentials: np.ndarray) -> np.ndarray:
    """Whether potentials are those of no density: NaN, or minus infinity."""
    return np.isnan(potentials) | (potentials == -np.inf)


def _infinite_where_undefined(potentials: np.ndarray) -> np.ndarray:
    """Potentials, with those that are not finite made infinite: such candidates weigh nothing."""
    return np.where(np.isfinite(potentials), potentials, np.inf)


def block_bytes(agents: Agents) -> int:
    """The bytes of a block on the device that has the agents' rows."""
    is_cpu = device_of(agents).platform == "cpu"
    return BLOCK_BYTES if is_cpu else ACCELERATOR_BLOCK_BYTES

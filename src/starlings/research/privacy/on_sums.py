"""Attacks on what sites send for sums: in the clear, with masks, and on the totals themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.privacy.secrecy import Secrecy
from starlings.problem import Problem
from starlings.research.privacy import equations, sums
from starlings.research.privacy.equations import Equations
from starlings.research.privacy.rounds import Heard, Known, noise_of, slopes
from starlings.research.privacy.runs import (
    EVERY_ROUND,
    SEED,
    SITE,
    Found,
    rows_found,
    rows_found_by_site,
)
from starlings.research.privacy.trial import (
    Study,
    prior_derivatives,
    prior_part,
)
from starlings.research.privacy.wire import SumTap
from starlings.samplers import DADMMS
from starlings.sampling import sample
from starlings.sampling.starts import start_positions

SENDING: dict[str, Callable[..., sums.Sent]] = {
    "tuning": sums.sent_in_tuning,
    "weights": partial(sums.sent_for_weights, seed=SEED),
    "hmc": partial(sums.sent_in_leapfrogs, seed=SEED),
}
"""What sends numbers into sums, by name."""
MASKED_ROUNDS = 40
"""Rounds of D-ADMMS with masks."""


def of_sums(
    kind: str, study: Study, sites: Sequence[int] = (SITE,), is_masked: bool = False
) -> Found:
    """Rows of some sites of a path from the sum of what they put into sums over the network.

    Args:
        kind: "tuning", "weights" or "hmc".
        study: of three sites.
        sites: those the sum of whose numbers is known: one that sends them in the clear; or, from a
            total, all but the neighbour itself, which subtracts its own numbers.
        is_masked: whether sites send masked numbers, which the neighbour takes for numbers.
    """
    problem = study.problem()
    network = Network.path(3).matched_to(problem.sites)
    masks = Secrecy.agreed(network) if is_masked else None
    known = SENDING[kind](problem, network, masks=masks).of(*sites)
    return rows_found(problem, sites, _without_prior(problem, known, len(sites)))


def _without_prior(problem: Problem, known: sums.Sent, num_sites: int) -> list[Equations]:
    """Equations of gradients and Hessians, or of potentials where there is nothing else."""
    prior = prior_part(problem, known.points)
    if known.gradients is None:
        return [equations.of_values(known.points, known.values - num_sites * prior.value)]
    own = known.gradients - num_sites * prior.gradient
    received = [equations.of_gradients(known.points, own)]
    if known.hessians is not None:
        own = known.hessians - num_sites * prior.hessian
        received.append(equations.of_hessians(known.points, own))
    return received


class Third(NamedTuple):
    """What site 0 has after a masked run of D-ADMMS, in which all three sites are neighbours."""

    problem: Problem
    sampler: DADMMS
    known: Known
    """What everybody knows of site 1, and of site 2 alike."""
    own: np.ndarray
    """Its own positions x_0, (round, dim)."""
    both: np.ndarray
    """What it reads, x_1 + x_2, (round, dim)."""
    first_apart: np.ndarray
    """x_1 - x_2 in round 0, which follows from the seed, (dim,)."""

    @classmethod
    def of(cls, rho: float, study: Study) -> Third:
        """A run of a study of three sites."""
        sampler, problem = DADMMS(rho, output="iterate"), study.problem()
        network = Network.complete(3).matched_to(problem.sites)
        tap = SumTap(Secrecy.agreed(network))
        result = sample(problem, network.masked(tap), sampler, draws=MASKED_ROUNDS, **EVERY_ROUND)
        with jax.enable_x64(True):
            starts = np.asarray(start_positions(problem, sampler, None, 1, SEED, np.float64)[0])
        own = np.concatenate([starts[:1], result.posterior["beta"].values[0, :-1, 0]])
        both = np.array(tap.received[network.names[0]])
        return cls(problem, sampler, Known.of(network, 1), own, both, starts[1] - starts[2])

    def equations(self, of_first: int, of_second: int) -> Equations:
        """Eq. (1) of `rounds` for the sum and for the difference of sites 1 and 2.

        The sum has nothing but x_0 and x_1 + x_2 on its right. The difference has nothing but
        x_1 - x_2 there, which is unknown: it comes after the rows of both, whose numbers are given.
        """
        noise = 2 * noise_of(self.sampler, self.known, SEED, len(self.own) - 1, self.problem.dim)
        around = Heard(self.both, 2 * self.own + self.both, self.both)
        total = slopes(self.sampler, around, self.known, noise).gradients

        def predicted(unknown: jax.Array) -> jax.Array:
            first, second, later = jnp.split(unknown, [of_first, of_first + of_second])
            apart = jnp.concatenate([self.first_apart[None], later])
            one = self._gradients(first, (self.both + apart)[1:] / 2)
            other = self._gradients(second, (self.both - apart)[1:] / 2)
            nothing = np.zeros_like(total)
            right = slopes(self.sampler, Heard(apart, -apart, apart), self.known, nothing)
            return jnp.stack([one + other, one - other - right.gradients])

        return Equations(predicted, np.stack([total, np.zeros_like(total)]))

    def _gradients(self, rows: jax.Array, points: Any) -> jax.Array:
        """The gradients of a site with signed rows at points (point, dim)."""
        prior = prior_derivatives(self.problem, points).gradient
        return equations.gradient(rows, points) + prior


def by_third_site(rho: float, study: Study) -> Found:
    """Rows of two sites, and whose they are, from nothing but masked sums of their positions.

    Each round has as many equations for the sum as it has unknowns in the difference, and as many
    equations for the difference besides.
    """
    heard, hidden = Third.of(rho, study), MASKED_ROUNDS - 1
    received = heard.equations(*study.sizes[1:])
    return rows_found_by_site(heard.problem, [1, 2], [received], hidden)

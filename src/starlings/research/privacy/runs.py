"""Runs with a tap, and what an attack on one of them came to.

On a path of three sites, 0 - 1 - 2, the last one is attacked by its neighbour, which is the root of
sums too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.problem import Problem
from starlings.research.privacy.equations import Equations
from starlings.research.privacy.recovery import Recovered, Score, fitted, scored
from starlings.research.privacy.rounds import Heard, Known, Slopes, noise_of, slopes
from starlings.research.privacy.trial import OTHER_ROWS, Study, rows_of
from starlings.research.privacy.wire import tapped
from starlings.samplers import Sampler
from starlings.sampling import sample

SITE, NEIGHBOUR = 2, 1
"""The site of a path that is attacked, and the one that attacks."""
SEED = 1
"""The seed of the runs, which all sites know."""
EVERY_ROUND: dict[str, Any] = {
    "chains": 1,
    "burn_in": 0,
    "thin": 1,
    "seed": SEED,
    "check": False,
    "progress": False,
}
"""How `sample` is called so that every round makes a draw."""


class Found(NamedTuple):
    """What an attack came to."""

    rows: Recovered
    """What the neighbour has in the end."""
    score: Score
    """How right that is."""
    gradient_error: float | None = None
    """The largest error of a gradient that the neighbour computed, in units of the potential per
    unit of a parameter; None where it computes none."""


class Run(NamedTuple):
    """A run in which everything that agents send was kept."""

    problem: Problem
    network: Network
    sampler: Sampler
    messages: np.ndarray
    """(round, agent, floats)."""
    draws: np.ndarray
    """The neighbour's own draws of every round, (round, dim)."""

    @classmethod
    def of(cls, sampler: Sampler, study: Study, network: Network, rounds: int) -> Run:
        """A run in which every round makes a draw."""
        problem = study.problem()
        network = network.matched_to(problem.sites)
        heard, tap = tapped(network)
        result = sample(problem, heard, sampler, draws=rounds, **EVERY_ROUND)
        draws = result.posterior["beta"].values[0, :, NEIGHBOUR]
        return cls(problem, network, sampler, np.array(tap.messages), draws)

    @classmethod
    def on_path(cls, sampler: Sampler, num_rows: int, rounds: int) -> Run:
        """A run on a path of three sites, the last of which has `num_rows` rows."""
        study = Study([OTHER_ROWS, OTHER_ROWS, num_rows])
        return cls.of(sampler, study, Network.path(3), rounds)

    def slopes(self, site: int, is_seed_known: bool = True) -> Slopes:
        """The gradients of a site that all its neighbours together compute from what they hear.

        Without the seed they take the noise for zero.
        """
        heard, known = Heard.of(self.messages, self.network, site), Known.of(self.network, site)
        noise = np.zeros((len(self.messages) - 1, self.problem.dim))
        if is_seed_known:
            noise = noise_of(self.sampler, known, SEED, *noise.shape)
        return slopes(self.sampler, heard, known, noise)

    def gradient_error(self, found: Slopes, site: int) -> float:
        """The largest error of gradients of a site."""
        with jax.enable_x64(True):
            agent = jax.tree.map(lambda array: array[site], self.problem.agents(self.network))
            right = jax.vmap(agent.gradient)(jnp.asarray(found.points))
            return float(jnp.abs(right - found.gradients).max())


def rows_found(problem: Problem, sites: Sequence[int], received: list[Equations]) -> Found:
    """Rows of some sites, without saying whose they are, from what was received."""
    right = rows_of(problem, *sites)
    rows = fitted(received, len(right.labels), problem.dim)
    return Found(rows, scored(rows, *right))


def rows_found_by_site(
    problem: Problem, sites: Sequence[int], received: list[Equations], num_hidden: int = 0
) -> Found:
    """Rows of some sites, one after the other; a row counts for the site that it is said to be of.

    `num_hidden` is that of `fitted`.
    """
    right = [rows_of(problem, site) for site in sites]
    ends = np.cumsum([len(rows.labels) for rows in right])
    rows = fitted(received, int(ends[-1]), problem.dim, num_hidden)
    of_site = zip(
        np.split(rows.covariates, ends[:-1]), np.split(rows.labels, ends[:-1]), strict=True
    )
    scores = [
        scored(Recovered(*own, rows.misfit), *expected)
        for own, expected in zip(of_site, right, strict=True)
    ]
    return Found(rows, Score(np.concatenate([score.errors for score in scores])))

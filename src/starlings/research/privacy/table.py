"""All attacks, and what they found, as a table of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from starlings.network import Network
from starlings.problem.supports import Ball
from starlings.research.privacy import on_rounds
from starlings.research.privacy.on_sums import by_third_site, of_sums
from starlings.research.privacy.runs import Found
from starlings.research.privacy.trial import OTHER_ROWS, Study
from starlings.samplers import (
    CADMM,
    DADMMS,
    DEPSGLD,
    DPSGLD,
    DSGHMC,
    DSGLD,
    DULA,
    GEXTRA,
    MAHMC,
    SPLA,
    DIGing,
    EventDULA,
    MidpointADMMS,
    NetworkGibbs,
    PeerLearning,
    Sampler,
)

RHO = 5.0
"""The penalty of D-ADMMS."""

ROWS = 5
"""Rows of the site that is attacked, where nothing else is said."""
WITHIN_GUARD_RAILS = Study([12, OTHER_ROWS, 12], covariates=3, seed=2)
"""A study that passes all guard rails of `starlings.privacy.guard_rails`, by a small margin."""
SECRET = bytes(32)
"""The secret of DP-SGLD's noise, so that the table can be printed again; no attack uses it."""
TRIED_ROWS = (1, 3, 5, 8, 12, 20)
"""Rows of the site in the attacks on D-ADMMS."""
WRONG = "wrong labels"
"""Said in place of an error where the label of some row is wrong."""
HEADINGS = (
    "method",
    "what the neighbour has",
    "what it computes",
    "error of a gradient",
    "rows recovered",
    "largest error of a row",
)


class Attack(NamedTuple):
    """One line of the table."""

    part: str
    """The part of the table."""
    method: str
    has: str
    """What the neighbour has."""
    computes: str
    run: Callable[[], Found]


def every_attack() -> list[Attack]:
    """All attacks, in the order of the table."""
    return [*_on_samplers(), *_on_rings(), *_on_sums(), *_on_masks(), *_on_secrets()]


def _on_samplers() -> Iterable[Attack]:
    """The leaf of a path of three sites, in the rounds of samplers."""
    part = "In the clear, rounds: the last site of a path of three, by its neighbour"
    positions = partial(_of_positions, part)
    for number in TRIED_ROWS:
        yield positions("D-ADMMS, coherent noise", DADMMS(RHO), number)
    for noise in ("paper", "private"):
        yield positions(f'D-ADMMS, noise="{noise}"', DADMMS(RHO, noise=noise))
    for noise in ("curvature", "coherent-curvature"):
        sampler = DADMMS(RHO, noise=noise, output="iterate")
        run = partial(on_rounds.of_curvature_noise, sampler, ROWS)
        has = "positions; noise from the seed"
        yield Attack(part, f'D-ADMMS, noise="{noise}"', has, "gradient plus noise, rows", run)
    yield positions("midpoint D-ADMMS", MidpointADMMS(RHO))
    yield positions("C-ADMM", CADMM(RHO))
    yield positions("D-SGLD", DSGLD(0.01))
    yield positions("D-SGHMC", DSGHMC(0.05, 1.0))
    yield positions("D-ULA", DULA(0.005, 0.2))
    run = partial(on_rounds.of_positions, EventDULA(0.005, 0.2, threshold=0.5), ROWS)
    has = "positions of some rounds; noise from the seed"
    yield Attack(part, "Event-triggered D-ULA", has, "gradients, rows", run)
    yield positions("Generalized EXTRA-SGLD", GEXTRA(0.01))
    yield positions("DIGing-SGLD", DIGing(0.01))
    yield positions("DE-PSGLD", DEPSGLD(0.01, Ball(1.0), smoothing=0.1))
    run = partial(on_rounds.of_positions, SPLA.on(Network.path(3), 0.01), ROWS)
    yield Attack(part, "SPLA", "tokens before and after the site", "gradients, rows", run)
    run = partial(on_rounds.of_positions, NetworkGibbs(RHO), ROWS)
    has = "positions; noise of edges from the seed"
    yield Attack(part, "Gibbs over networks", has, "gradients plus private noise, rows", run)
    run = partial(on_rounds.of_positions, MAHMC(0.1), ROWS)
    has = "positions and tracked slopes"
    yield Attack(part, "Decentralised MAHMC", has, "gradients, rows", run)
    run = partial(on_rounds.of_beliefs, PeerLearning(updates=3), ROWS)
    yield Attack(part, "Peer-to-peer learning", "beliefs", "gradients, Hessians, rows", run)
    run = partial(on_rounds.of_minibatches, ROWS, 1)
    has = "positions; noise and batches from the seed"
    yield Attack(part, "D-SGLD, batches of one row", has, "the row of every batch", run)
    run = partial(on_rounds.of_changes, ROWS)
    yield Attack(part, "Metropolis, sum", "changes of the potential", "rows", run)
    run = partial(on_rounds.of_votes, 1)
    has = "votes; their thresholds from the seed"
    yield Attack(part, "Metropolis, votes", has, "a row that fits all votes", run)


def _of_positions(part: str, method: str, sampler: Sampler, num_rows: int = ROWS) -> Attack:
    has = "positions" if isinstance(sampler, CADMM) else "positions; noise from the seed"
    run = partial(on_rounds.of_positions, sampler, num_rows)
    return Attack(part, method, has, "gradients, rows", run)


def _on_rings() -> Iterable[Attack]:
    part = "In the clear, rounds: a ring of four sites"
    sampler = DADMMS(RHO)
    yield Attack(
        part,
        "D-ADMMS, two neighbours of a site together",
        "positions; noise from the seed",
        "gradients, rows",
        partial(on_rounds.by_two_neighbours, sampler, ROWS),
    )
    yield Attack(
        part,
        "D-ADMMS, one neighbour of two sites alone",
        "positions of both",
        "the difference of their gradients, rows of both",
        partial(on_rounds.by_one_neighbour, sampler, ROWS),
    )


SUMS = {
    "tuning": ("tuning", "gradients and Hessians where the search for the mode tries"),
    "weights": ("importance weights", "potentials at candidates"),
    "hmc": ("lock-step HMC", "gradients at every leapfrog"),
}
"""The methods on sums: their names, and what a site at the rim sends."""


def _on_sums() -> Iterable[Attack]:
    part = "In the clear, sums: the last site of a path of three, by its neighbour"
    study = Study([OTHER_ROWS, OTHER_ROWS, ROWS])
    for kind, (method, has) in SUMS.items():
        yield Attack(part, method, has, "rows", partial(of_sums, kind, study))


def _on_masks() -> Iterable[Attack]:
    part = 'With masks, privacy="totals": three sites'
    study = Study([OTHER_ROWS, OTHER_ROWS, ROWS])
    for kind, (method, _) in SUMS.items():
        run = partial(of_sums, kind, study, is_masked=True)
        yield Attack(part, method, "masked numbers of one site", "rows of that site", run)
    for kind, study in (
        ("weights", Study([4, OTHER_ROWS, 4])),
        ("tuning", Study([11, OTHER_ROWS, 11])),
        ("hmc", WITHIN_GUARD_RAILS),
    ):
        has = f"totals; {study.sizes[0]} rows at each other site, {study.covariates + 1} parameters"
        run = partial(of_sums, kind, study, sites=(0, 2))
        yield Attack(part, SUMS[kind][0], has, "rows of the others, not whose they are", run)
    run = partial(by_third_site, RHO, Study([OTHER_ROWS, 3, 3]))
    has = "sums of two neighbours with 3 rows each; noise from the seed"
    yield Attack(part, "D-ADMMS, coherent noise", has, "rows, and whose they are", run)
    run = partial(on_rounds.of_masked_result, DSGLD(0.01), WITHIN_GUARD_RAILS)
    has = "the result: draws of all agents, one for each round; noise from the seed"
    yield Attack(part, "D-SGLD", has, "gradients, rows of one site", run)


def _on_secrets() -> Iterable[Attack]:
    part = "With noise that only the site knows: the last site of a path of three, by its neighbour"
    for method, sampler in (
        ("D-SGLD, if its noise were secret", DSGLD(0.01)),
        ("DP-SGLD", DPSGLD(0.004, clip=1.0, noise_multiplier=1.0, secret=SECRET)),
    ):
        run = partial(on_rounds.of_positions, sampler, ROWS, is_seed_known=False)
        yield Attack(part, method, "positions", "gradients with noise, a fit of rows", run)


def lines(tried: Iterable[Attack]) -> Iterable[str]:
    """The lines of the table, each as soon as its attack is over."""
    before = None
    for attack in tried:
        if attack.part != before:
            yield from ("", f"**{attack.part}**", "") if before else (f"**{attack.part}**", "")
            yield _line(HEADINGS)
            yield _line(["---", "---", "---", "---:", "---:", "---:"])
            before = attack.part
        yield _line([attack.method, attack.has, attack.computes, *_numbers(attack.run())])


def _numbers(found: Found) -> tuple[str, str, str]:
    """The error of a gradient, the rows recovered, and the largest error of a row, as text."""
    errors, error = found.score.errors, found.gradient_error
    right = f"{found.score.recovered} of {found.score.total}"
    worst = f"{errors.max():.0e}" if np.isfinite(errors).all() else WRONG
    return "" if error is None else f"{error:.0e}", right, worst


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""The results as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ..tables import Grid
from .cases import BUILDERS, HARD
from .grid import FASTEST, SLOWEST
from .methods import FRICTIONS, NUTS_CHAINS, NUTS_WARMUP
from .report import all_rounds, all_w2, costs, errors, summary
from .results import Row
from .runs import BURN_IN
from .targets import EFFECTIVE_DRAWS, HARD_TARGETS, NEAR_GAUSSIAN, Target

TEXT = """# Real posteriors

Made by `python -m benchmarks posteriors FOLDER --page docs/posteriors.md`.

## What is compared

{cases} posteriors of real models and data from posteriordb, with reference draws (10,000 for each,
most of them by its maintainers). The rows of each are divided among the agents of a ring in two
ways: at *random* (agents are alike) and *sorted* by a covariate or by time (agents differ strongly,
and some have no posterior of their own). {easy} of them are near a Gaussian; {hard} are not.

Over the internet a round takes 10 to 100 ms, whatever is in it. So the first figure of a method is
the number of **network rounds, all included**: the search for the mode, pilot runs, warm-up or
burn-in, and the draws. In a network round every agent sends at most one message to each neighbour;
the message has the numbers of all chains. The second figure is bytes: those of all agents together.

The columns, each asked for {draws:,} effective draws:

| column | what it is |
|---|---|
| `auto` | `starlings.sample(problem, network)`: nothing is set by hand |
| `hmc` | `method="hmc"`: lock-step Hamiltonian Monte Carlo on sums |
| `dadmms` | `method="dadmms"`: D-ADMMS tuned by the agents, many short chains |
| `nuts` | NUTS on the pooled rows: the errors that nearly perfect draws have, and the speed of a \
sampler that has all rows in one place |
| `paper` | D-ADMMS as published, with the best rho of a grid |
| `dsgld` | D-SGLD as published with full gradients, with the best step of a grid |
| `dsghmc` | D-SGHMC as published with full gradients, with the best step of a grid for each of \
the frictions {frictions} |
| `consensus` | consensus Monte Carlo: NUTS at every agent alone, one upload to a coordinator, \
averages weighted by the inverse covariances |

`--methods` says which of them are run. `paper`, `dsgld` and `dsghmc` have no tuning of their own.
They are given the coordinates that `starlings.tune` finds (the mode, and the metric in which the
posterior has unit curvature), a start at the mode, a burn-in of {burn_in} autocorrelation times,
and the point of the grid that is best when compared with the reference. Their grids reach from
{fast:.0f} to {slow:.0f} rounds for one independent draw. Rounds of tuning and of the search are not
counted for them.

## How

The draws of every agent are compared with the reference. For every parameter as it is reported:
`mean` is the error of the mean and `W2` the Wasserstein-2 distance, both in posterior standard
deviations, and `sd` is the ratio of the standard deviations. For the unconstrained vector: `Mahal.`
is the Mahalanobis length of the error of the mean, divided by the square root of the dimension, and
`eigenvalues` are the least and the largest eigenvalue of the covariance, whitened by that of the
reference. Each number is that of the worst agent and parameter. In brackets, or under `by chance`,
is what as many perfect draws would show: a W2 near its bracket is no evidence against a method.

`draws` are effective draws (bulk, by ArviZ) of the worst agent and parameter over all chains.
`R-hat` is nested R-hat where chains begin in groups, and rank-normalised split R-hat elsewhere.
`k-hat` is the Pareto shape of importance weights: below 0.5 they are trusted.

`first s` are the CPU seconds of the first run, in which programs are compiled; `s` are those of the
same run made again, where nothing is compiled, with all that makes draws included: the search for
the mode, warm-up and draws, but not the examination of the draws. All agents run in one process
with one thread, and messages take no time. `draws / s` are effective draws per second of such a
run, and `over NUTS` is their ratio to those of `nuts` in the same process. NUTS makes {nuts_chains}
chains in one compiled program, each with a warm-up of {nuts_warmup} steps, which is included. It
starts at the mode, in coordinates in which the posterior has unit curvature: these are given to it.

## The targets

{targets}
"""

BEFORE = """## Before

Figures of an earlier version, which are not measured again here. Its default was D-ADMMS with few
long chains, for 10,000 effective draws: about 21,000 network rounds for the near-Gaussian
posteriors, 0.5 to 2 million rounds of all chains together for eight schools and Lotka-Volterra, and
R-hat 1.7 for the latent Gaussian process. On the near-Gaussian posteriors, W2 of the worst agent
was 0.08 to 0.24 for `paper`, 0.06 to 0.55 for `dsgld`, 0.06 to 0.48 for `dsghmc`, and 0.03 to 1.67
for `consensus`, which had no result in 4 of 18 cases. `--methods paper,dsgld,dsghmc,consensus`
computes them again, in many hours.
"""

ROUND_TRIP = 0.03
"""Seconds of a round between distant sites, for an example."""


def page_text(rows: Sequence[Row]) -> str:
    """The page: what is compared, how, and the tables."""
    text = TEXT.format(
        cases=len(BUILDERS),
        easy=len(BUILDERS) - len(HARD),
        hard=len(HARD),
        draws=EFFECTIVE_DRAWS,
        frictions=" and ".join(f"{friction:g}" for friction in FRICTIONS),
        burn_in=BURN_IN,
        fast=FASTEST,
        slow=SLOWEST,
        nuts_chains=NUTS_CHAINS,
        nuts_warmup=f"{NUTS_WARMUP:,}",
        targets=_targets(),
    )
    missing = [case for case in BUILDERS if case not in {row["case"] for row in rows}]
    if missing:
        text += f"\nNot run for this page: {', '.join(missing)}.\n"
    sections = [
        _section(None, [summary(rows)]),
        _section("The default", [costs(rows, "auto"), errors(rows, "auto")]),
        _section("Methods by name", [costs(rows, name) for name in ("hmc", "dadmms", "nuts")]),
        _section("All columns", [all_rounds(rows), all_w2(rows)]),
    ]
    return "\n".join([text, *sections, _learnt(rows), BEFORE])


def _section(title: str | None, grids: Sequence[Grid]) -> str:
    heading = [] if title is None else [f"## {title}\n"]
    return "\n".join([*heading, *(grid.markdown() for grid in grids if grid.rows)])


def _learnt(rows: Sequence[Row]) -> str:
    """What the figures say, in sentences."""
    of_default = [row for row in rows if row["method"] == "auto" and "error" not in row]
    easy = [row for row in of_default if row["case"] not in HARD]
    by_hmc = [row for row in rows if row.get("notes", {}).get("chosen") == "hmc"]
    by_rounds = [row for row in rows if row["method"] == "dadmms" and "error" not in row]
    lines = [
        *_sentence("`auto` on the near-Gaussian posteriors", easy),
        *_sentence("lock-step HMC, wherever it was used", by_hmc),
        *_sentence("D-ADMMS", by_rounds),
        "Importance weights and lock-step HMC make the same draws at all agents. How rows are "
        "divided changes them by rounding errors only, which grow from one trajectory of HMC to "
        "the next.",
        "The rounds of D-ADMMS are those of the search for the mode, a pilot run, the burn-in, the "
        "draws, and a test of their law. Those of burn-in and draws do not grow with the diameter "
        "of the network, as sums over the network do.",
        "CPU seconds are those of all agents together. Agents on computers of their own share "
        "them.",
    ]
    return "\n".join(["## What was learnt\n", *(f"- {line}" for line in lines), ""])


def _sentence(who: str, rows: Sequence[Row]) -> list[str]:
    """The ranges of some rows: network rounds, how long they take, and W2."""
    if not rows:
        return []
    rounds, w2 = [row["network_rounds"] for row in rows], [row["w2"] for row in rows]
    seconds = [ROUND_TRIP * number for number in (min(rounds), max(rounds))]
    return [
        f"{who}: {min(rounds):,} to {max(rounds):,} network rounds, which take "
        f"{seconds[0]:,.0f} to {seconds[1]:,.0f} s at {1000 * ROUND_TRIP:.0f} ms a round; "
        f"W2 {min(w2):.3f} to {max(w2):.3f}."
    ]


def _targets() -> str:
    """The targets as a list."""
    lines = [f"- the near-Gaussian ones: {_limits(NEAR_GAUSSIAN)}"]
    lines += [f"- {case}: {_limits(target)}" for case, target in HARD_TARGETS.items()]
    return f"For {EFFECTIVE_DRAWS:,} effective draws by `auto`:\n\n" + ";\n".join(lines) + "."


def _limits(target: Target) -> str:
    limits = [f"at most {target.network_rounds:,} network rounds"]
    limits += [f"W2 at most {target.w2}"] if target.w2 < float("inf") else []
    limits += [f"R-hat at most {target.r_hat}"] if target.r_hat < float("inf") else []
    return ", ".join([*limits, f"at least {target.speed:g} times the speed of NUTS"])

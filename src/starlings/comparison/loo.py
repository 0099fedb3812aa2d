"""Leave-one-out cross-validation over the network, with one sum.

Every site computes the terms elpd_r and p_r of its own rows (see `row_terms`) at the draws of its
own agent. Sums over the rows are all that it sends. With n the number of rows of all sites,

    elpd = sum_r elpd_r                                                                     (1)
    se   = sqrt(n var_r elpd_r),   var_r elpd_r = (sum_r elpd_r^2 - elpd^2 / n) / (n - 1)   (2)

For two models a and b of the same rows, with d_r the difference of their terms,

    difference    = sum_r d_r = elpd_a - elpd_b                                             (3)
    difference_se = sqrt(n var_r d_r)                                                       (4)

Rows that are hard to predict are so for both models, and (4) is often much smaller than what the
two standard errors (2) suggest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd

from starlings.comparison.row_terms import RowTerms, row_terms, shape_limit
from starlings.comparison.site_likelihood import local_vectors
from starlings.network import Network
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.results.result import Result
from starlings.sampling.private import private_network

COLUMNS = ("elpd", "se", "p_loo", "difference", "difference_se", "unreliable_rows")
"""The columns of `compare_loo`."""


@dataclass(frozen=True)
class Loo:
    """Leave-one-out cross-validation of one model over the rows of all sites; print it."""

    elpd: float
    """Expected log pointwise predictive density, the sum over all rows, in nats; larger is
    better."""
    se: float
    """Standard error of `elpd`, in nats: what other rows of the same kind would change."""
    p_loo: float
    """Effective number of parameters; far above the number of parameters, the model is wrong."""
    num_rows: int
    """Number of rows of all sites."""
    num_unreliable: int
    """Number of rows whose Pareto k-hat is above `limit`."""
    limit: float
    """Pareto k-hat above which the term of a row is not reliable."""
    num_draws: int
    """Number of draws that each site used."""
    rounds: int
    """Rounds of messages that the sum over the network took."""
    bytes: int
    """Bytes that all agents together sent for it."""

    def __str__(self) -> str:
        value = f"elpd {self.elpd:.2f} (standard error {self.se:.2f}), p_loo {self.p_loo:.2f}"
        return f"{value}, {self.num_rows:,} rows\n{self._reliability()}"

    def _reliability(self) -> str:
        if self.num_unreliable == 0:
            return f"Reliable: no row has a Pareto k-hat above {self.limit:.2f}."
        return (
            f"Not reliable for {self.num_unreliable:,} rows, whose Pareto k-hat is above "
            f"{self.limit:.2f}: the posterior without such a row differs much from that with it."
        )


def loo(problem: Problem, network: Network, result: Result | None, privacy: str = "none") -> Loo:
    """Cross-validate a model by leaving out one row at a time, without running it again.

    Every site computes the terms of its own rows at the draws of its own agent. One sum over the
    network follows, of five numbers of each site: the sums over its rows of the terms, of their
    squares and of the effective numbers of parameters, and its numbers of unreliable rows and of
    rows. Runs of more than 4000 draws are thinned to that number. Densities have to be normalised
    in the data, as those of `starlings.models` are, or `elpd` is off by a constant.

    Privacy: an agent without neighbours farther from the centre of the network sends its own sums,
    or shares of them. The sums of a site with a single row are the terms of that row.

    Args:
        problem: the model and the rows of every site.
        network: who talks to whom, as in `sample`.
        result: draws of this problem. On a network of several processes, all of them call this;
            process 0 gives the result, and the others None.
        privacy: "totals" masks the sum, as in `sample`; "none" sends it as it is. On a network of
            several processes "totals" needs draws by "weights" or "hmc": process 0 shows the others
            the draws, and those of a sampler in rounds are what masks hide.
    """
    _refuse_stand_in(problem)
    network = private_network(problem, network.matched_to(problem.sites), privacy)
    vectors = local_vectors(problem, network, result)
    parts = [_sums(row_terms(problem, site, own)) for site, own in vectors.items()]
    total, gossip = _network_sum(network, parts)
    elpd, squares, p_loo, unreliable, rows = total.tolist()  # (1)
    draws = _num_draws(vectors)
    return Loo(
        elpd,
        float(_standard_error(elpd, squares, rows)),
        p_loo,
        round(rows),
        round(unreliable),
        shape_limit(draws),
        draws,
        gossip.ledger.rounds,
        gossip.ledger.bytes,
    )


def _refuse_stand_in(problem: Problem) -> None:
    """Refuse a problem with a Gaussian in place of rows, none of which can be left out."""
    if problem.has_stand_in:
        raise ValueError(
            "a Gaussian stands in for the rows of absent sites, and single rows of a Gaussian "
            'cannot be left out. Use `without` with "leave".'
        )


def compare_loo(
    network: Network,
    models: Mapping[str, tuple[Problem, Result | None]],
    privacy: str = "none",
) -> pd.DataFrame:
    """Compare models of the same rows by leave-one-out cross-validation, with one sum.

    The table has one row for each model, best first. Its columns are `elpd`, its standard error
    `se`, `p_loo` and `unreliable_rows`, as in `Loo`; `difference`, eq. (3), to the elpd of the best
    model, at most 0; and `difference_se`, eq. (4). A difference of less than about four, or of less
    than two or three of its standard errors, says little. Sites send sums over their rows only.

    Args:
        network: who talks to whom, as in `sample`.
        models: by name, the problem and its result, as in `starlings.loo`. The rows of each site
            have to be the same, in the same order; their columns may differ.
        privacy: "totals" masks the sum, as in `sample`; "none" sends it as it is.
    """
    problems = _checked_problems(models)
    first, *others = problems.values()
    network = private_network(first, network.matched_to(first.sites), privacy, *others)
    vectors = {
        name: local_vectors(problem, network, models[name][1]) for name, problem in problems.items()
    }
    parts = []
    for site in first.shards:
        terms = [row_terms(problems[name], site, vectors[name][site]) for name in problems]
        parts.append(_joint_sums(terms))
    total, _ = _network_sum(network, parts)
    return _comparison(list(problems), total)


def _sums(terms: RowTerms) -> np.ndarray:
    """Return what one site sends: sums over its rows, and their number."""
    elpd, p_loo, is_unreliable = terms
    return np.array([elpd.sum(), elpd @ elpd, p_loo.sum(), is_unreliable.sum(), len(elpd)])


def _joint_sums(terms: list[RowTerms]) -> np.ndarray:
    """Return the same for several models, and the sums of the squared differences of all pairs."""
    elpd = np.stack([own.elpd for own in terms])
    squared = [((elpd - own) ** 2).sum(axis=1) for own in elpd]
    return np.concatenate([*map(_sums, terms), *squared])


def _network_sum(network: Network, parts: list[np.ndarray]) -> tuple[np.ndarray, Gossip]:
    """Return the sum over all sites, and what it cost."""
    with jax.enable_x64(True):
        gossip = Gossip(network)
        return gossip.sum(np.stack(parts), "sums over rows")[0], gossip


def _standard_error(total: Any, squares: Any, rows: Any) -> Any:
    """Return eq. (2) or (4), nan for a single row; a sum of squares is not negative by rounding."""
    spread = np.maximum(squares - total**2 / rows, 0.0)
    return np.sqrt(rows * spread / np.where(rows > 1, rows - 1, np.nan))  # (2), (4)


def _comparison(names: list[str], total: np.ndarray) -> pd.DataFrame:
    """Lay out what `_joint_sums` has summed over the network, best model first."""
    count = len(names)
    elpd, squares, p_loo, unreliable, rows = total[: 5 * count].reshape(count, 5).T
    best = int(elpd.argmax())
    squared = total[5 * count :].reshape(count, count)[best]
    difference = elpd - elpd[best]  # (3)
    columns = (
        elpd,
        _standard_error(elpd, squares, rows),
        p_loo,
        difference,
        _standard_error(difference, squared, rows),
        np.rint(unreliable).astype(int),
    )
    table = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)), index=names)
    return table.sort_values("elpd", ascending=False)


def _num_draws(vectors: Mapping[str, np.ndarray]) -> int:
    return math.prod(next(iter(vectors.values())).shape[:2])


def _checked_problems(models: Any) -> dict[str, Problem]:
    """Return the problems of at least two models, if their sites have equally many rows."""
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            "`models` must map the names of at least two models to pairs of a problem and its "
            f"result, got {models!r}."
        )
    problems = {name: problem for name, (problem, _) in models.items()}
    rows = {
        name: dict(zip(problem.shards, problem.num_rows.tolist(), strict=True))
        for name, problem in problems.items()
    }
    (first, wanted), *others = rows.items()
    for name, found in others:
        if found != wanted:
            raise ValueError(
                "`models` must have the same rows at every site, got numbers of rows "
                f"{wanted} in {first!r} and {found} in {name!r}."
            )
    return problems

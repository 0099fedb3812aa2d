"""Predictions for new rows, from the draws of a regression.

For draw s of the parameters and a row x,

    eta_s = x'beta_s + offset + r'u_s                                                       (1)
    kind "mean"       E(y | eta_s)                                                          (2)
    kind "outcome"    y_s ~ p(y | eta_s), one outcome for each draw                         (3)

The spread of (2) over the draws says how well the expected outcome is known; that of (3) also has
the scatter of single outcomes. With effects of sites, u_s are those of a site that is named, or of
a new one: u_s ~ N(0, covariance_s) by the law of the sites in draw s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from starlings.errors import check_choice, nearest
from starlings.results.answers.model import (
    COEFFICIENTS,
    STANDARDISED,
    DesignRows,
    RegressionModel,
    regression_of,
    table_of_rows,
)
from starlings.results.answers.site_effects import effects_of
from starlings.results.intervals import interval_levels, moments_and_interval
from starlings.results.tables import ROW_HEADING, AnswerTable

MAX_DRAWS = 4000
"""Draws that predictions are made from, over all chains and sites: others are left out evenly."""
BLOCK_NUMBERS = 2**22
"""Numbers of a block of predictions, (draw, row), that are in memory at once."""
KINDS = ("mean", "outcome")


@dataclass(frozen=True)
class Predictor:
    """The draws of a regression, and how rows become expected outcomes or outcomes."""

    model: RegressionModel
    draws: Mapping[str, np.ndarray]
    """Draws of every parameter by name, (draw, ...)."""
    effects: np.ndarray | None = None
    """u_s of eq. (1), (draw, column of r); None in a model without effects of sites."""

    @classmethod
    def of(
        cls,
        attrs: Mapping[str, Any],
        posterior: xr.Dataset,
        site: str | None = None,
        draws: int | None = None,
        seed: int = 0,
    ) -> Predictor:
        """That of a result.

        Args:
            attrs: the attributes of the result.
            posterior: its draws.
            site: the site whose own effects count; None for a new one.
            draws: how many draws to use; None for at most `MAX_DRAWS`.
            seed: of the effects of a new site.
        """
        model = regression_of(attrs, posterior)
        found = chosen_draws(_of_agent(posterior, site), draws)
        return cls(model, found, effects_of(found, site, np.random.default_rng([seed, 1])))

    def expected(self, rows: DesignRows) -> np.ndarray:
        """The expected outcome of every row, eq. (2), (draw, row)."""
        return self.model.family.mean(self.draws, self._eta(rows), dict(rows.columns))

    def outcomes(self, rows: DesignRows, rng: np.random.Generator) -> np.ndarray:
        """One outcome of every row for every draw, eq. (3), (draw, row)."""
        return self.model.family.draw(rng, self.draws, self._eta(rows), dict(rows.columns))

    @property
    def num_draws(self) -> int:
        """How many draws there are."""
        return len(self.draws[COEFFICIENTS])

    def part(self, some: slice) -> Predictor:
        """The same with some of the draws."""
        draws = {name: values[some] for name, values in self.draws.items()}
        effects = None if self.effects is None else self.effects[some]
        return replace(self, draws=draws, effects=effects)

    def outcomes_at(self, rows: Mapping[str, Any], rng: np.random.Generator) -> np.ndarray:
        """One outcome of each of a site's rows for every draw, (draw, row).

        Args:
            rows: the columns of the site, as a problem has them.
            rng: the source of the random numbers.
        """
        return self._of_sites().outcomes(_of_site(rows), rng)

    def expected_at(self, rows: Mapping[str, Any]) -> np.ndarray:
        """The expected outcome of each of a site's rows, on average over the draws, (row,)."""
        own = self._of_sites()
        blocks = own.blocks(_of_site(rows))
        return np.concatenate([own.expected(some).mean(axis=0) for some in blocks])

    def _of_sites(self) -> Predictor:
        """The same for rows as their sites have them, which a study may have standardised."""
        coefficients = self.draws.get(STANDARDISED, self.draws[COEFFICIENTS])
        return replace(self, draws={**self.draws, COEFFICIENTS: coefficients})

    def blocks(self, rows: DesignRows) -> Iterator[DesignRows]:
        """The rows, some at a time."""
        size = max(1, BLOCK_NUMBERS // self.num_draws)
        for first in range(0, len(rows.x), size):
            yield rows.part(slice(first, first + size))

    def _eta(self, rows: DesignRows) -> np.ndarray:
        eta = self.draws[COEFFICIENTS] @ rows.x.T + rows.columns.get("offset", 0.0)  # (1)
        if "r" not in rows.columns:
            return eta
        if self.effects is None:
            raise ValueError("this result has no effects of sites, which its model speaks of.")
        return eta + self.effects @ rows.columns["r"].T


def _of_agent(posterior: xr.Dataset, site: str | None) -> xr.Dataset:
    """The draws of one site's agent; those of all for None."""
    if site is None:
        return posterior
    agents = posterior["agent"].values.astype(str).tolist()
    if site not in agents:
        raise ValueError(f"`site` must be one of {agents}, got {site!r}.{nearest(site, agents)}")
    return posterior.isel(agent=[agents.index(site)])


def _of_site(rows: Mapping[str, Any]) -> DesignRows:
    """The rows of a site, as a problem has them."""
    columns = {name: np.asarray(column, float) for name, column in rows.items() if name != "x"}
    return DesignRows(np.asarray(rows["x"], float), columns)


def predicted(
    attrs: Mapping[str, Any],
    posterior: xr.Dataset,
    new_rows: Any,
    kind: str = "mean",
    prob: float = 0.9,
    site: str | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> AnswerTable:
    """Return the table of `Result.predict`, which explains the arguments."""
    check_choice(KINDS, kind=kind)
    interval_levels(prob)  # refuses what is no probability
    table = table_of_rows(new_rows, "new_rows")
    predictor = Predictor.of(attrs, posterior, site, draws, seed)
    rng = np.random.default_rng(seed)
    rows = predictor.model.rows(table)
    parts = [
        moments_and_interval(
            predictor.expected(some) if kind == "mean" else predictor.outcomes(some, rng), prob
        )
        for some in predictor.blocks(rows)
    ]
    found = AnswerTable(pd.concat(parts).set_axis(table.index))
    found.attrs[ROW_HEADING] = "row"
    return found


def chosen_draws(posterior: xr.Dataset, draws: int | None) -> dict[str, np.ndarray]:
    """Return draws of every parameter by name, (draw, ...), evenly from all chains and agents."""
    sizes = [posterior.sizes[dim] for dim in ("chain", "draw", "agent")]
    total = int(np.prod(sizes))
    if draws is not None and not (isinstance(draws, int) and draws >= 1):
        raise ValueError(f"`draws` must be a whole number of at least 1, got {draws!r}.")
    count = min(total, MAX_DRAWS if draws is None else draws)
    places = np.unravel_index(np.arange(count) * total // count, sizes)
    return {str(name): values.values[places] for name, values in posterior.items()}

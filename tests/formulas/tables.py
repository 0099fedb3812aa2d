"""Small tables of three sites, and their encoding without a problem."""

from __future__ import annotations

import numpy as np
import pandas as pd

from starlings.formulas import Encoding, Formula, Request, SiteRows, Sums, agree

SITES = ("north", "south", "west")


def rows(size: int = 150, seed: int = 0) -> pd.DataFrame:
    """Rows of three sites; ward D occurs in the west only, and ward A does not."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"hospital": rng.choice(SITES, size), "age": rng.normal(60, 10, size)})
    table["stay"] = rng.gamma(2.0, 3.0, size).round(1)
    table["smoker"] = rng.random(size) < 0.4
    west = table["hospital"] == "west"
    table["ward"] = np.where(west, rng.choice(list("BCD"), size), rng.choice(list("ABC"), size))
    table["days in bed"] = rng.integers(0, 9, size)
    table["y"] = rng.normal(size=size) + 0.1 * table["age"]
    return table


def by_site(table: pd.DataFrame) -> list[SiteRows]:
    """The rows of each site, in order."""
    return [SiteRows.of(str(site), group) for site, group in table.groupby("hospital")]


def agreed(text: str, table: pd.DataFrame, sums: Sums | None = None, **said) -> Encoding:
    """The encoding of a formula."""
    random = said.pop("random", None)
    request = Request.of(Formula.of(text, random), **said)
    return agree(request, by_site(table), sums or Sums())

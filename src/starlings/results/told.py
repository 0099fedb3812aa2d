"""What tables that sites add to a result tell of them, for `Result.disclosed`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from starlings.results.kinds import ALONE, STATISTICS


def with_tables_told(
    attrs: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> dict[str, str]:
    """Return the attributes that also say what tables of a result tell of each site.

    Args:
        attrs: the attributes of the result; one of an old version says nothing, and stays so.
        tables: by name, with the column `site`.
    """
    if "disclosed" not in attrs:
        return {}
    told = _Told(*(json.loads(attrs.get(name, "{}")) for name in ("disclosed", "disclosed_by")))
    for name, table in tables.items():
        if name == "alone":
            told.note(ALONE, table)
        else:
            told.note(STATISTICS, table)
    return {"disclosed": json.dumps(told.kinds), "disclosed_by": json.dumps(told.senders)}


class _Told:
    """The kinds of numbers that left the sites, and the sites that sent them."""

    def __init__(self, kinds: dict[str, int], senders: dict[str, list[str]]) -> None:
        self.kinds, self.senders = kinds, senders

    def note(self, kind: str, table: pd.DataFrame) -> None:
        """Add the numbers of a table: the most that any site has in it."""
        numbers = table["site"].value_counts() * len(table.select_dtypes("number").columns)
        most = int(numbers.max()) if len(numbers) else 0
        self.kinds[kind] = self.kinds.get(kind, 0) + most
        self.senders[kind] = sorted({*self.senders.get(kind, []), *map(str, numbers.index)})

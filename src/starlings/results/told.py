"""What tables that sites add to a result tell of them, for `Result.disclosed`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from starlings.results.disclosed import ALONE, STATISTICS


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
    kinds, senders = (json.loads(attrs.get(k, "{}")) for k in ("disclosed", "disclosed_by"))
    for name, table in tables.items():
        kind = ALONE if name == "alone" else STATISTICS
        numbers = table["site"].value_counts() * len(table.select_dtypes("number").columns)
        kinds[kind] = kinds.get(kind, 0) + int(numbers.max() if len(numbers) else 0)
        senders[kind] = sorted({*senders.get(kind, []), *map(str, numbers.index)})
    return {"disclosed": json.dumps(kinds), "disclosed_by": json.dumps(senders)}

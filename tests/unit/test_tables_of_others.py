"""Tables of Polars, Arrow and DuckDB are the same tables of pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import starlings as st
from starlings.problem.shards import check_shards
from starlings.problem.tables import as_column, as_table

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

WANTED = pd.DataFrame(
    {
        "age": pd.array([61, None, 2**53 + 1], dtype="Int64"),
        "dose": [0.5, np.nan, 1.5],
        "smoker": pd.array([True, None, False], dtype="boolean"),
        "ward": pd.Categorical(["low", None, "high"], ["low", "middle", "high"], ordered=True),
        "site": ["north", "north", "south"],
        "stay": np.array([3, 1, 4]),
    }
)
POLARS = pl.DataFrame(
    {
        "age": [61, None, 2**53 + 1],
        "dose": [0.5, None, 1.5],
        "smoker": [True, None, False],
        "ward": pl.Series(["low", None, "high"], dtype=pl.Enum(["low", "middle", "high"])),
        "site": ["north", "north", "south"],
        "stay": [3, 1, 4],
    }
)
CONNECTION = duckdb.connect()
CONNECTION.register("rows", POLARS.to_arrow())
CONNECTION.execute("CREATE TYPE level AS ENUM ('low', 'middle', 'high')")
TABLES = {
    "polars": lambda: POLARS,
    "lazy": POLARS.lazy,
    "arrow": POLARS.to_arrow,
    "duckdb": lambda: CONNECTION.sql("SELECT * REPLACE (ward::level AS ward) FROM rows"),
    "columns": lambda: {name: POLARS[name] for name in POLARS.columns},
}


@pytest.mark.parametrize("kind", TABLES)
def test_types_categories_and_missing_values_stay(kind):
    found = as_table(TABLES[kind]())
    if kind == "duckdb":  # whose categories have an order that Arrow does not know of
        found["ward"] = found["ward"].cat.as_ordered()
    pd.testing.assert_frame_equal(found, WANTED)


def test_anything_else_is_refused():
    assert as_column([1, 2]) == [1, 2]
    assert as_column(pa.array([1, None])).tolist()[0] == 1
    with pytest.raises(TypeError, match=r"`data` must be a table .* got list"):
        as_table([1, 2])


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_a_regression_takes_them(kind):
    random = np.random.default_rng(0)
    table = pl.DataFrame({"age": random.normal(size=12), "ill": [0, 1] * 6, "site": ["a", "b"] * 6})
    other = table if kind == "polars" else table.to_arrow()
    pandas = table.to_pandas()
    wanted = st.models.logistic_regression(pandas[["age"]], pandas["ill"], pandas["site"])
    found = st.models.logistic_regression(other.select(["age"]), other["ill"], other["site"])
    assert found.parameters.labels() == ["beta[intercept]", "beta[age]"]
    np.testing.assert_array_equal(found.potentials([0.1, 0.2]), wanted.potentials([0.1, 0.2]))
    shards = {"a": {"x": other["age"], "y": other["ill"]}}
    problem = st.Problem(lambda p, row: p["m"] * row["x"], lambda p: 0.0, {"m": ()}, shards)
    np.testing.assert_array_equal(problem.shards["a"]["x"], pandas["age"])
    for whole in (other.select(["age", "ill"]), pandas[["age", "ill"]]):
        np.testing.assert_array_equal(check_shards({"a": whole})["a"]["ill"], pandas["ill"])

"""Rows in folders of Parquet files and in DuckDB: the same rows, and no others are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from starlings.study.grouped import Database, ParquetFolder
from starlings.study.study import Study

duckdb = pytest.importorskip("duckdb")

TABLE = pd.DataFrame(
    {
        "site": ["02", "01", "3 beds", "01", "02", "3 beds", "3 beds"],
        "x": [1, 2, 3, 4, 5, 6, 7],
        "y": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
        "note": ["t", "u", None, "w", "x", "y", "z"],
    }
)
STUDY = """
[model]
kind = "logistic_regression"
outcome = "y"
covariates = ["x"]
[data]
%s
[network]
graph = "path"
"""


def partitioned(folder):
    for site, rows in TABLE.groupby("site"):
        (folder / "rows" / f"site={site}").mkdir(parents=True)
        rows.drop(columns="site").to_parquet(folder / "rows" / f"site={site}" / "part-0.parquet")
    return ParquetFolder(folder / "rows", "site")


def in_parts(folder):
    (folder / "rows").mkdir()
    TABLE[:3].to_parquet(folder / "rows" / "a.parquet")
    TABLE[3:].to_parquet(folder / "rows" / "b.parquet")
    return ParquetFolder(folder / "rows", "site")


def database(folder, **asked):
    with duckdb.connect(str(folder / "trial.duckdb")) as connection:
        connection.register("rows", TABLE)
        connection.execute('CREATE TABLE "all ""rows""" AS SELECT * FROM rows')
    return Database(folder / "trial.duckdb", "site", **(asked or {"table": 'all "rows"'}))


def query(folder):
    return database(folder, query='SELECT * FROM "all ""rows""" WHERE x > 0')


PLACES = {"partitioned": partitioned, "in parts": in_parts, "table": database, "query": query}


@pytest.mark.parametrize("place", PLACES)
def test_the_rows_of_sites_are_those_of_the_table(place, tmp_path):
    source = PLACES[place](tmp_path)
    survey = source.survey()
    assert (survey.sites, survey.rows.tolist()) == (["01", "02", "3 beds"], [2, 2, 3])
    found = source.read(["y", "x"], ["3 beds", "01"])
    assert list(found) == ["3 beds", "01"]
    for site, rows in found.items():
        wanted = TABLE.loc[TABLE["site"] == site, ["y", "x"]].astype(float)
        pd.testing.assert_frame_equal(rows[["y", "x"]], wanted.reset_index(drop=True))
    notes = source.tables(["note"], ["3 beds"])["3 beds"]["note"]
    assert notes.isna().tolist() == [True, False, False]
    with pytest.raises(ValueError, match="has no column 'z'"):
        source.read(["z"], None)
    with pytest.raises(ValueError, match=r"site '3 beds'.*'note' in 1 row \(row 0\)"):
        source.read(["note"], ["3 beds"])


def test_a_process_reads_only_its_own_sites_and_columns(tmp_path, monkeypatch):
    source, read = database(tmp_path), []
    run = Database._run

    def noted(self, *arguments):
        found = run(self, *arguments)
        read.append(found.shape)
        return found

    monkeypatch.setattr(Database, "_run", noted)
    source.read(["x"], ["01"])
    assert (2, 1) in read
    assert max(rows for rows, _ in read) == 3, "one row for each site, and those of one site"


DATA = {
    "folder": 'folder = "rows"\nsite = "site"',
    "database": 'database = "trial.duckdb"\nsite = "site"\ntable = "all \\"rows\\""',
}


@pytest.mark.parametrize("place", DATA)
def test_a_study_names_them(place, tmp_path):
    (in_parts if place == "folder" else database)(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY % DATA[place])
    problem = Study.read(tmp_path / "study.toml").make_problem()
    assert (problem.sites, problem.num_rows.tolist()) == (["01", "02", "3 beds"], [2, 2, 3])
    np.testing.assert_array_equal(problem.shards["02"]["x"], [[1.0, 1.0], [1.0, 5.0]])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ('database = "trial.duckdb"\nsite = "site"', "needs either `table` or `query`"),
        ('folder = "rows"\ntable = "a"', "neither with anything else"),
        ('database = "trial.duckdb"\ntable = "a"', "needs `site` with a `database`"),
        ('file = "a.csv"\ndatabase = "trial.duckdb"', "only one of them"),
        ('database = "no.duckdb"\nsite = "site"\ntable = "a"', "no database at"),
        ('database = "trial.duckdb"\nsite = "site"\ntable = "a"', "cannot be read: .*a does not"),
        ('folder = "empty"\nsite = "site"', "no folder of data at"),
    ],
)
def test_what_cannot_be_read_is_said(data, text, tmp_path):
    database(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY % data)
    with pytest.raises((ValueError, FileNotFoundError), match=f"(?s){text}"):
        Study.read(tmp_path / "study.toml").make_problem()

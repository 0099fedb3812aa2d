"""Rows of some sites, read without those of the others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import starlings.study.tables
from starlings.study.sources import SiteFile, SiteFolder, moments, standardisation
from starlings.study.study import Study

TABLE = pd.DataFrame(
    {
        "site": ["b", "a", "c", "a", "b", "c", "c"],
        "x": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
        "y": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
        "other": list("tuvwxyz"),
    }
)


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path, monkeypatch):
    monkeypatch.setattr(starlings.study.tables, "PIECE", 2)
    path = tmp_path / f"rows.{request.param}"
    TABLE.to_csv(path, index=False) if request.param == "csv" else TABLE.to_parquet(path)
    return SiteFile(path, "site")


@pytest.fixture(params=["csv", "parquet"])
def folder(request, tmp_path):
    tmp_path = tmp_path / "sites"
    tmp_path.mkdir()
    for site, rows in TABLE.groupby("site"):
        path = tmp_path / f"{site}.{request.param}"
        rows = rows.drop(columns="site")
        rows.to_csv(path, index=False) if request.param == "csv" else rows.to_parquet(path)
    (tmp_path / "notes.txt").write_text("not a table")
    return SiteFolder(tmp_path)


def test_a_survey_counts_the_rows_of_every_site(file, folder):
    for source in (file, folder):
        survey = source.survey()
        assert survey.sites == ["a", "b", "c"]
        assert survey.rows.tolist() == [2, 2, 3]


@pytest.mark.parametrize("sites", [None, ["c", "a"], ["b"]])
def test_the_rows_of_some_sites_are_those_of_the_table(file, sites):
    found = file.read(["y", "x"], sites)
    assert list(found) == (sites or ["a", "b", "c"])
    for site, rows in found.items():
        wanted = TABLE.loc[TABLE["site"] == site, ["x", "y"]]
        pd.testing.assert_frame_equal(rows[["x", "y"]], wanted)


def test_a_folder_opens_no_other_file(folder, monkeypatch):
    opened, read = [], starlings.study.sources.read_rows

    def noted(path, *arguments):
        opened.append(path.stem)
        return read(path, *arguments)

    monkeypatch.setattr("starlings.study.sources.read_rows", noted)
    found = folder.read(["x", "y"], ["c"])
    assert opened == ["c"]
    np.testing.assert_array_equal(found["c"]["x"], [0.3, 0.6, 0.7])


PARQUET_SITES = {
    "integers": (pa.array([10, 2, 1, 2]), ["1", "2", "10"]),
    "floats": (pa.array([10.0, 2.0, 1.0, 2.0]), ["1", "2", "10"]),
    "text": (pa.array(["10", "2", "01", "1"]), ["01", "1", "2", "10"]),
    "white space": (pa.array(["b", "a ", " a", "a"]), ["a", "b"]),
    "categories": (pa.array(["b", "a", "c", "a"]).dictionary_encode(), ["a", "b", "c"]),
    "categories of integers": (pa.array([10, 2, 1, 2]).dictionary_encode(), ["1", "2", "10"]),
    "truth": (pa.array([True, False, True, True]), ["False", "True"]),
    "dates": (pa.array(["2020-01-02", "2020-01-01"] * 2).cast("date32"), None),
}


@pytest.mark.parametrize(("labels", "sites"), PARQUET_SITES.values(), ids=PARQUET_SITES)
def test_labels_of_sites_in_parquet(tmp_path, labels, sites):
    pq.write_table(pa.table({"site": labels, "x": [0.0, 1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    source = SiteFile(tmp_path / "t.parquet", "site")
    sites = sites or ["2020-01-01", "2020-01-02"]
    assert source.survey().sites == sites
    for site, rows in source.read(["x"], None).items():
        assert rows.index.tolist() == rows["x"].tolist() != []
        pd.testing.assert_frame_equal(source.read(["x"], [site])[site], rows)


def test_a_site_may_be_the_index_of_a_parquet_file(tmp_path):
    TABLE.set_index("site").to_parquet(tmp_path / "t.parquet")
    source = SiteFile(tmp_path / "t.parquet", "site")
    assert source.survey().sites == ["a", "b", "c"]
    assert source.read(["x"], ["a"])["a"]["x"].tolist() == [0.2, 0.4]


PARQUET_FAULTS = {
    "times": (pa.array([0, 1], pa.timestamp("ns")), "has dates or times, which are no numbers"),
    "dates": (pa.array([0, 1]).cast("int32").cast("date32"), "has dates or times, which are no"),
    "durations": (pa.array([0, 1], pa.duration("s")), "has dates or times, which are no numbers"),
    "missing": (pa.array([1, None]), r"column 'x' in 1 row \(row 1\); .* Rows are counted from 0"),
    "lists": (pa.array([[1.0], [2.0]]), "has entries that are not numbers: column 'x' in 2 rows"),
}


@pytest.mark.parametrize(("column", "text"), PARQUET_FAULTS.values(), ids=PARQUET_FAULTS)
def test_faults_of_a_parquet_file_are_named(tmp_path, column, text):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"site": ["a", "b"], "x": column}), path)
    with pytest.raises(ValueError, match=f"^{path} .*{text}"):
        SiteFile(path, "site").read(["x"], None)


def test_sites_of_a_parquet_file_are_names(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"site": ["a", None], "x": [1.0, 2.0]}), path)
    with pytest.raises(
        ValueError, match=rf"{path} names no site in column 'site' in 1 row \(row 1"
    ):
        SiteFile(path, "site").survey()
    columns = [pa.array(["a"]), pa.array([1.0]), pa.array([2.0])]
    pq.write_table(pa.Table.from_arrays(columns, names=["site", "x", "x"]), path)
    with pytest.raises(ValueError, match="more than one column 'x'"):
        SiteFile(path, "site").read(["x"], None)


def test_faults_of_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder of data"):
        SiteFolder(tmp_path / "nowhere").survey()
    with pytest.raises(ValueError, match=r"has no .csv or .parquet file"):
        SiteFolder(tmp_path).survey()
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match="has no column 'z'"):
        SiteFolder(tmp_path).read(["z"], None)
    TABLE.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"two files for each of the sites \['a'\]"):
        SiteFolder(tmp_path).survey()


def test_standardising_by_sites_is_standardising_by_rows(tmp_path):
    by_site = {site: moments(rows[["x"]]) for site, rows in TABLE.groupby("site")}
    X = TABLE[["x"]]
    wanted = (X - X.mean()) / X.std(ddof=0)
    np.testing.assert_allclose(
        standardisation(list(X), by_site, tmp_path).of(X), wanted, rtol=1e-14
    )
    constant = pd.DataFrame({"x": [0.1, 0.1, 0.1]})
    with pytest.raises(ValueError, match=r"'x' .* is constant"):
        standardisation(list(constant), {"a": moments(constant)}, tmp_path)


def test_a_study_of_a_folder_is_that_of_a_file(tmp_path):
    (tmp_path / "sites").mkdir()
    for site, rows in TABLE.groupby("site"):
        rows.to_csv(tmp_path / "sites" / f"{site}.csv", index=False)
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    text = """
        [model]
        kind = "logistic_regression"
        outcome = "y"
        covariates = ["x"]
        standardise = true
        [data]
        {data}
        [network]
        graph = "ring"
    """
    problems = []
    for name, data in (("a", 'file = "rows.csv"\nsite = "site"'), ("b", 'folder = "sites"')):
        (tmp_path / f"{name}.toml").write_text(text.format(data=data))
        problems.append(Study.read(tmp_path / f"{name}.toml").make_problem())
    one, other = problems
    assert one.sites == other.sites
    for site in one.sites:
        for column in one.shards[site]:
            np.testing.assert_array_equal(one.shards[site][column], other.shards[site][column])
    part = (
        Study.read(tmp_path / "b.toml")
        .make_problem(
            ["c"],
            lambda own: {
                **own,
                **{site: moments(TABLE.loc[TABLE["site"] == site, ["x"]]) for site in "ab"},
            },
        )
        .part_of(one.sites)
    )
    assert (part.num_agents, part.local.tolist()) == (3, [2])
    for column in one.shards["c"]:
        np.testing.assert_array_equal(part.shards["c"][column], one.shards["c"][column])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ('folder = "sites"\nfile = "rows.csv"', "either `file` or `folder`"),
        ('file = "rows.csv"', "needs `site` with a `file`"),
    ],
)
def test_a_study_names_one_source(tmp_path, data, fault):
    (tmp_path / "study.toml").write_text(
        f'[model]\nkind = "logistic_regression"\noutcome = "y"\ncovariates = ["x"]\n'
        f'[data]\n{data}\n[network]\ngraph = "ring"\n'
    )
    with pytest.raises(ValueError, match=fault):
        Study.read(tmp_path / "study.toml")

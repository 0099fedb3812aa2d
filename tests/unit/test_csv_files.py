"""CSV files that are misread if nobody looks: read rightly, or refused with the file and line."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

import starlings.study.tables
from starlings.study.sources import SiteFile, SiteFolder
from starlings.study.study import Study
from starlings.study.tables import read_rows

HEADER = "site,a,b,y\n"
ROWS = "h1,1,2,3\nh2,4,5,6\nh1,7,8,9\n"
WANTED = {"h1": [[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]], "h2": [[4.0, 5.0, 6.0]]}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(starlings.study.tables, "PIECE", 2)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def every_way_to_read(path, folder):
    """Functions that read a file, or a folder with this file only, by what they read."""
    count = 50
    return {
        "all columns": lambda: read_rows(path),
        "some columns": lambda: read_rows(path, ["a", "y"]),
        "some rows": lambda: read_rows(path, ["y"], np.arange(count) == 0),
        "survey": lambda: SiteFile(path, "site").survey(),
        "all sites": lambda: SiteFile(path, "site").read(["a"], None),
        "one site": lambda: SiteFile(path, "site").read(["a"], ["h1"]),
        "survey of a folder": lambda: SiteFolder(folder).survey(),
        "folder": lambda: SiteFolder(folder).read(["a", "y"], None),
    }


WRONG_ROWS = {
    "longer": (
        HEADER + ROWS + "h3,1,500,-3.11,1.80\n",
        "line 5 has 5 fields, but the header has 4",
    ),
    "longer at first": (HEADER + "h3,1,500,-3.11,1.80\n" + ROWS, "line 2 has 5 fields"),
    "all longer": (
        HEADER + "1,h1,1,2,3\n2,h2,4,5,6\n",
        "line 2 has 5 fields, but the header has 4 (2",
    ),
    "shorter": (HEADER + ROWS + "h2,1,2\n", "line 5 has 3 fields, but the header has 4"),
    "shorter at first": (HEADER + "h2\n" + ROWS, "line 2 has 1 field, but the header has 4"),
    "cut off": ((HEADER + ROWS)[:-3], "line 4 has 3 fields, but the header has 4"),
    "CRLF": ((HEADER + ROWS + "1,2,3\n").replace("\n", "\r\n"), "line 5 has 3 fields"),
    "CR": ((HEADER + ROWS + "1,2,3\n").replace("\n", "\r"), "line 5 has 3 fields"),
    "after blank lines": ("\n" + HEADER + "\n  \n" + ROWS + "1,2,3\n", "line 8 has 3 fields"),
    "after line breaks": (HEADER + '"h\n1",1,2,3\n' + ROWS + "1,2,3\n", "line 7 has 3 fields"),
    "quoted": (HEADER + ROWS + '"h1","1,5",2,3,4\n', "line 5 has 5 fields"),
    "byte-order mark": ("\ufeff" + HEADER + ROWS + "1,2,3\n", "line 5 has 3 fields"),
    "indented header": ("  " + HEADER + ROWS + "1,2,3\n", "line 5 has 3 fields"),
    "a comma at an end": (HEADER + ROWS + "h1,1,2,3,\n", "line 5 has 5 fields"),
    "a comma missing at an end": (
        HEADER + ROWS.replace("\n", ",\n") + "h1,1,2,3\n",
        "line 5 has 4 fields",
    ),
    "more than a comma at an end": (
        HEADER + ROWS.replace("\n", ",\n") + "h1,1,2,3,4\n",
        "line 5 has 5 fields",
    ),
    "decimal commas": (HEADER + "h1,1,5,2,5,3,5\n", "line 2 has 7 fields"),
    "many": (HEADER + "h1,1,2,3,4\n" * 9, "(9 such lines: 2, 3, 4, 5, 6, ...)"),
    "stray quotes": (HEADER + '"h1,1,2,3\n"h2,4,5,6\n', "wrong in the row that begins in line 2"),
    "open quote": (HEADER + ROWS + '"h1,1,2,3\nh2,4,5,6\n', "the row that begins in line 5"),
    "NUL": (HEADER + ROWS + "h1,1\0002,5,6\n", "a NUL byte in the row that begins in line 5"),
    "Latin-1": ((HEADER + ROWS + "h\xe9,1,2,3\n").encode("latin-1"), "line 5 is not UTF-8"),
    "UTF-16": ((HEADER + ROWS).encode("utf-16"), "it is UTF-16 text; save it as UTF-8"),
    "gzip": (gzip.compress(HEADER.encode()), "it is compressed by gzip; unpack it"),
    "workbook": (b"PK\x03\x04\x00", "it is a workbook or a zip archive"),
    "Parquet": (b"PAR1", "it is a Parquet file"),
    "empty": ("", "is empty; it needs a header and at least one row"),
    "blank": ("\n \n", "is empty; it needs a header and at least one row"),
    "header only": (HEADER, "is empty; it needs a header and at least one row"),
}


@pytest.mark.parametrize(("content", "text"), WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_every_way_to_read_refuses(tmp_path, content, text):
    path = write(tmp_path / "h1.csv", content)
    for way, read in every_way_to_read(path, tmp_path).items():
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            read()
        assert text in str(caught.value), way


UNUSUAL = {
    "plain": HEADER + ROWS,
    "commas at all ends": HEADER + ROWS.replace("\n", ",\n"),
    "a comma at the end of the header": HEADER.replace("\n", ",\n") + ROWS,
    "commas at the end of all lines": (HEADER + ROWS).replace("\n", ",\n"),
    "blank lines": "\n\n" + HEADER + "\n \t\n" + ROWS + "\n\n",
    "CRLF": (HEADER + ROWS).replace("\n", "\r\n"),
    "CR": (HEADER + ROWS).replace("\n", "\r"),
    "byte-order mark": "\ufeff" + HEADER + ROWS,
    "byte-order mark and quotes": '\ufeff"site","a","b","y"\n' + ROWS,
    "spaces in the header": "  site, a ,b ,\ty\n" + ROWS,
    "spaces in rows": HEADER + ROWS.replace(",", " , "),
    "quotes": HEADER + 'h1,"1",2,"3"\n"h2",4,5,6\n"h1",7,8,9\n',
    "no last line break": (HEADER + ROWS)[:-1],
    "a column of notes": "site,a,b,note,y\n"
    'h1,1,2,"of\n\n two, lines",3\nh2,4,5,"say ""no""",6\nh1,7,8,5" long,9\n',
    "a column without a name": "site,a,b,,y\nh1,1,2,,3\nh2,4,5,x,6\nh1,7,8,,9\n",
    "an index": ",site,a,b,y\n0,h1,1,2,3\n1,h2,4,5,6\n2,h1,7,8,9\n",
    "two columns nobody asks for": "site,c,a,b,y,c\nh1,,1,2,3,\nh2,,4,5,6,\nh1,,7,8,9,\n",
    "truth": HEADER.replace("y", "y,is") + "h1,1,2,3,True\nh2,4,5,6,False\nh1,7,8,9,True\n",
}


@pytest.mark.parametrize("content", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_files_are_read(tmp_path, content):
    source = SiteFile(write(tmp_path / "rows.csv", content), "site")
    survey = source.survey()
    assert dict(zip(survey.sites, survey.rows.tolist(), strict=True)) == {"h1": 2, "h2": 1}
    for sites in (None, ["h1"], ["h2"]):
        found = source.read(["a", "b", "y"], sites)
        assert list(found) == (sites or ["h1", "h2"])
        for site, rows in found.items():
            assert rows[["a", "b", "y"]].to_numpy().tolist() == WANTED[site]


SITE_LABELS = {
    "leading zeros": (["1", "01", "2", "10"], ["01", "1", "2", "10"]),
    "whole numbers": (["10", "2", "1", "2"], ["1", "2", "10"]),
    "whole numbers with a point": (["10.0", "2.0", "1", "2.00"], ["1", "2", "10"]),
    "numbers": (["10.5", "2.0", "1", "2.0"], ["1", "2.0", "10.5"]),
    "white space": (["a", " a", "a ", "b\t"], ["a", "b"]),
    "numbers and text": (["1", "a", "1", "01"], ["01", "1", "a"]),
    "as written": (["1e3", "1000", "True", "true"], ["1000", "1e3", "True", "true"]),
}


@pytest.mark.parametrize(("labels", "sites"), SITE_LABELS.values(), ids=SITE_LABELS)
def test_labels_of_sites_are_text(tmp_path, labels, sites):
    lines = [f"{label},{row}" for row, label in enumerate(labels)]
    source = SiteFile(write(tmp_path / "rows.csv", "\n".join(["site,x", *lines])), "site")
    assert source.survey().sites == sites
    found = source.read(["x"], None)
    assert list(found) == sites
    for site in sites:
        own = source.read(["x"], [site])[site]["x"].tolist()
        assert own == found[site]["x"].tolist() != []


@pytest.mark.parametrize("label", ["", "  ", '" "', "NA", "null"])
def test_rows_without_a_site_are_refused(tmp_path, label):
    path = write(tmp_path / "rows.csv", f"site,x\n\na,1\n{label},2\n{label},3\n")
    text = f"{path} names no site in column 'site' in 2 rows (first: line 4); label or drop them."
    with pytest.raises(ValueError, match=re.escape(text)):
        SiteFile(path, "site").survey()


def test_faults_of_the_files_of_a_folder_are_told_together(tmp_path):
    for site in "abcdef":
        write(tmp_path / f"{site}.csv", "x,y\n1,2\n")
    assert SiteFolder(tmp_path).survey().rows.tolist() == [1] * 6
    write(tmp_path / "b.csv", "x,y\n\n1,\n,?\n")
    write(tmp_path / "d.csv", "x,y\n,2\n")
    with pytest.raises(ValueError, match="has missing or infinite values") as caught:
        SiteFolder(tmp_path).read(["x", "y"], None)
    one, other = tmp_path / "b.csv", tmp_path / "d.csv"
    assert str(caught.value) == (
        f"{one} has missing or infinite values: column 'x' in 1 row (line 4), column 'y' in 1 row "
        "(line 3); drop or impute those rows. It has entries that are not numbers: column 'y' in 1 "
        f"row ('?' in line 4); correct them, or code them as numbers. {other} has missing or "
        "infinite values: column 'x' in 1 row (line 2); drop or impute those rows."
    )
    for site in "ef":
        write(tmp_path / f"{site}.csv", "x\n1\n")
    with pytest.raises(ValueError, match=r"1 more files have such faults: \['f.csv'\]\.$"):
        SiteFolder(tmp_path).read(["x", "y"], None)


def test_no_file_of_a_folder_is_passed_over(tmp_path):
    write(tmp_path / "10.CSV", "x\n1\n")
    write(tmp_path / "9.csv", "x\n1\n")
    assert SiteFolder(tmp_path).survey().sites == ["9", "10"]
    write(tmp_path / "09 .csv", "x\n1\n")
    assert SiteFolder(tmp_path).survey().sites == ["09", "9", "10"]
    write(tmp_path / "9 .csv", "x\n1\n")
    with pytest.raises(ValueError, match=r"two files for each of the sites \['9'\]"):
        SiteFolder(tmp_path).survey()
    (tmp_path / "9 .csv").rename(tmp_path / "8.csv.gz")
    with pytest.raises(ValueError, match=r"has compressed files: \['8.csv.gz'\]; unpack them"):
        SiteFolder(tmp_path).survey()
    (tmp_path / "8.csv.gz").unlink()
    (tmp_path / "8.csv").mkdir()
    with pytest.raises(IsADirectoryError, match=r"8.csv is a folder, not a table"):
        SiteFolder(tmp_path).survey()


STUDY = """
[model]
kind = "poisson_regression"
outcome = "y"
covariates = ["x"]
[data]
{data}
[network]
graph = "path"
"""


@pytest.mark.parametrize("of_folder", [False, True], ids=["file", "folder"])
def test_an_outcome_that_the_model_cannot_have_is_told_with_its_line(tmp_path, of_folder):
    folder = tmp_path / "sites"
    folder.mkdir()
    content = "site,x,y\na,1,0\n\na,2,-3\n"
    write(tmp_path / "rows.csv", content + "b,1,1\n")
    write(folder / "a.csv", content)
    write(folder / "b.csv", "site,x,y\nb,1,1\n")
    data = 'folder = "sites"' if of_folder else 'file = "rows.csv"\nsite = "site"'
    study = Study.read(write(tmp_path / "study.toml", STUDY.format(data=data)))
    place = f"{folder / 'a.csv'}." if of_folder else f"{tmp_path / 'rows.csv'} (site 'a')."
    text = f"`y` must be a count (0, 1, 2, ...), got -3 in line 4 of {place}"
    with pytest.raises(ValueError, match=re.escape(text)):
        study.make_problem()


def test_a_fault_of_an_option_is_not_blamed_on_a_site(tmp_path):
    write(tmp_path / "rows.csv", "site,x,y\na,1,0\n")
    text = STUDY.format(data='file = "rows.csv"\nsite = "site"')
    path = write(tmp_path / "study.toml", text.replace("[data]", "prior_std = -1.0\n[data]"))
    with pytest.raises(ValueError, match=r"^`prior_std` must be positive"):
        Study.read(path).make_problem()


def test_the_old_name_of_a_prior_is_refused_with_the_new_one(tmp_path):
    write(tmp_path / "rows.csv", "site,x,y\na,1,0\n")
    text = STUDY.format(data='file = "rows.csv"\nsite = "site"')
    path = write(tmp_path / "study.toml", text.replace("[data]", "prior_var = 1.0\n[data]"))
    with pytest.raises(ValueError, match=r"`prior_var` is now `prior_std`, a standard deviation"):
        Study.read(path).make_problem()

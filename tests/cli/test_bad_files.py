"""Every wrong file, study or output path ends in an error that says where and what is wrong."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import starlings as st
from starlings.study.study import Study
from starlings.study.tables import ColumnError, numeric_columns, read_rows
from starlings.system.files import check_writable

CSV = "site,x,y\na,1,2\nb,3,4\nc,5,6\n"


def refuses(error, text: str, action) -> None:
    """The error's text contains `text` word for word."""
    with pytest.raises(error, match=re.escape(text)):
        action()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


TABLES = {
    "missing": ("none.csv", None, FileNotFoundError, "no data file at "),
    "suffix": ("rows.xlsx", CSV, ValueError, "its name must end in .csv or .parquet"),
    "empty": ("rows.csv", "", ValueError, "rows.csv is empty"),
    "header only": ("rows.csv", "site,x,y\n", ValueError, "rows.csv is empty"),
    "longer rows": ("rows.csv", "x,y\n0,1,2\n1,3,4\n", ValueError, "line 2 has 3 fields, but"),
    "ragged rows": ("rows.csv", "x,y\n1,2\n1,2,3\n", ValueError, "line 3 has 3 fields, but"),
    "not parquet": ("rows.parquet", "hello", ValueError, "cannot be read as Parquet"),
}


@pytest.mark.parametrize(("name", "content", "error", "text"), TABLES.values(), ids=TABLES)
def test_tables(tmp_path, name, content, error, text):
    if content is not None:
        write(tmp_path, name, content)
    refuses(error, text, lambda: read_rows(tmp_path / name))


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path, "rows.parquet", "")
    refuses(ImportError, "pip install 'starlings[parquet]'", lambda: read_rows(path))


COLUMNS = {
    "missing": (
        "age\n1\n",
        ["agee", "x"],
        "rows.csv has no column 'agee', 'x'; it has ['age']. Did you mean 'age'?",
    ),
    "text": (
        "age\n1\nold\n",
        ["age"],
        "rows.csv has entries that are not numbers: column 'age' in 1 row ('old' in line 3); "
        "correct them, or code them as numbers.",
    ),
    "nan and inf": (
        "age,bmi\n1,1\n,inf\n3,4\n\n,2\n",
        ["age", "bmi"],
        "rows.csv has missing or infinite values: column 'age' in 2 rows (first: line 3), column "
        "'bmi' in 1 row (line 3); drop or impute those rows.",
    ),
    "all kinds": (
        "age,bmi,sex\n1,.,f\n,2,m\n",
        ["age", "bmi", "sex"],
        "values: column 'age' in 1 row (line 3); drop or impute those rows. It has entries that "
        "are not numbers: column 'bmi' in 1 row ('.' in line 2), column 'sex' in 2 rows (first: "
        "'f' in line 2); correct",
    ),
    "twice": ("age,bmi,age\n1,2,3\n", ["age"], "rows.csv has more than one column 'age'"),
    "semicolons": ("age;bmi\n1,5;2,5\n", ["age"], "separated by commas, not by ';'"),
}


@pytest.mark.parametrize(("content", "columns", "text"), COLUMNS.values(), ids=COLUMNS)
def test_columns(tmp_path, content, columns, text):
    path = write(tmp_path, "rows.csv", content)
    refuses(ColumnError, text, lambda: numeric_columns(read_rows(path, columns), columns, path))


STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["x"]
noise_std = 1.0
[data]
file = "rows.csv"
site = "site"
[network]
graph = "path"
[sampler]
name = "dadmms"
rho = 5.0
[run]
draws = 2
"""
EDGES = ('graph = "path"', 'edges = [["a", "b"]]')


def build(path: Path) -> None:
    study = Study.read(path)
    study.make_network(study.make_problem().sites)
    study.make_sampler()


STUDIES = {
    "section": (
        "[model]",
        "[modle]",
        "unknown section [modle]; expected one of [model], [data]",
    ),
    "section hint": ("[network]", "[netwrok]", "Did you mean 'network'?"),
    "stray key": (
        "\n[model]",
        "seed = 1\n[model]",
        "unknown key `seed` on top; expected one of [model]",
    ),
    "not a section": ("[run]", "[[run]]", "`run` must be a section [run], got [{'draws': 2}]"),
    "no section": ('[data]\nfile = "rows.csv"\nsite = "site"\n', "", "needs a section [data]"),
    "model key": (
        "noise_std",
        "noise_sd",
        "[model] unknown key `noise_sd`; expected one of ['kind'",
    ),
    "model key hint": ("noise_std", "noise_sd", "Did you mean 'noise_std'?"),
    "key of another model": (
        "noise_std = 1.0",
        "degrees_of_freedom = 4",
        "[model] unknown key `degrees_of_freedom`",
    ),
    "model kind": (
        '"linear_regression"',
        '"linear_regresion"',
        "got 'linear_regresion'. Did you mean 'linear_regression'?",
    ),
    "old model key": (
        "noise_std",
        "prior_var",
        "`prior_var` is now `prior_std`, a standard deviation",
    ),
    "no model kind": ('kind = "linear_regression"\n', "", "[model] needs the key `kind`"),
    "no outcome": ('outcome = "y"\n', "", "[model] needs the key `outcome`"),
    "covariates": ('["x"]', '"x"', "`covariates` must be a list of names in quotes, got 'x'"),
    "no covariates": ('["x"]', "[]\nintercept = false", "there is nothing to infer"),
    "twice": ('["x"]', '["x", "y"]', "names the columns ['y'] more than once"),
    "intercept": ('["x"]', '["x"]\nintercept = 1', "`intercept` must be true or false, got 1"),
    "model value": ("noise_std = 1.0", 'noise_std = "1"', "`noise_std` must be a number, got '1'"),
    "data key": ('site = "site"', 'sites = "site"', "[data] unknown key `sites`; expected one of"),
    "site column": ('site = "site"', 'site = "sit"', "has no column 'sit'; it has ['site', 'x'"),
    "covariate column": ('["x"]', '["xx"]', "rows.csv has no column 'xx'"),
    "data file": ('"rows.csv"', '"row.csv"', "no data file at "),
    "graph": ('"path"', '"pth"', "[network] `graph` must be one of ['ring', 'complete'"),
    "graph hint": ('"path"', '"pth"', "Did you mean 'path'?"),
    "graph key": ('"path"', '"path"\nrows = 2', "[network] unknown key `rows`"),
    "graph needs": ('"path"', '"grid"\nrows = 2', "[network] needs the key `columns`"),
    "grid size": ('"path"', '"grid"\nrows = 2\ncolumns = 3', "`network` has 6 agents but"),
    "neither": ('graph = "path"\n', "", "needs either `graph` or `edges`, and not both"),
    "both": (*EDGES[:1], f'graph = "path"\n{EDGES[1]}', "needs either `graph` or `edges`"),
    "unknown end": (EDGES[0], 'edges = [["a", "d"]]', "`edges` names 'd', but the sites are"),
    "three ends": (EDGES[0], 'edges = [["a", "b", "a"]]', "`edges` must be pairs of sites, got"),
    "edges of text": (EDGES[0], 'edges = "a-b"', "`edges` must be a list of pairs of names"),
    "isolated": (*EDGES, "`graph` has isolated nodes [c]"),
    "sampler": (
        '"dadmms"',
        '"dadmm"',
        "no sampler is called 'dadmm'; the names are ['dadmms', 'cadmm'",
    ),
    "sampler hint": ('"dadmms"', '"dadms"', "Did you mean 'dadmms'?"),
    "sampler key": ("rho = 5.0", "roh = 5.0", "[sampler] unknown key `roh`"),
    "no step": ('"dadmms"\nrho = 5.0', '"dsgld"', "[sampler] needs the key `step_size`"),
    "name of a number": ('"dadmms"', "5", "[sampler] `name` must be text in quotes, got 5"),
    "no sampler name": ('name = "dadmms"\n', "", "[sampler] needs the key `name`"),
    "no module": ('"dadmms"', '"none:Sampler"', "cannot be imported: No module named 'none'"),
    "no class": ('"dadmms"', '"json:Sampler"', "module 'json' has no attribute 'Sampler'"),
    "no subclass": ('"dadmms"', '"json:JSONDecoder"', "is not a subclass of `starlings.Sampler`"),
    "no rho": ("rho = 5.0", 'noise = "coherent"', "[sampler] needs the key `rho`"),
    "sampler value": (
        "rho = 5.0",
        'rho = "5"',
        "study.toml: [sampler] `rho` must be a number, got '5'",
    ),
    "schedule of rho": ("rho = 5.0", "rho = {scale = 1.0}", "`rho` must be a number, got Decay"),
    "schedule key": (
        'name = "dadmms"\nrho = 5.0',
        'name = "dula"\nconsensus_step = 0.1\nstep_size = {scal = 1.0}',
        "[sampler.step_size] unknown key `scal`; expected one of ['scale', 'offset', 'exponent']. "
        "Did you mean 'scale'?",
    ),
    "support kind": (
        'name = "dadmms"\nrho = 5.0',
        'name = "depsgld"\nstep_size = 0.1\nsmoothing = 1.0\npenalty = {kind = "bal"}',
        "[sampler.penalty] `kind` must be one of ['lasso', 'group-lasso', 'ridge', 'box', 'ball', "
        "'simplex'], got 'bal'. "
        "Did you mean 'ball'?",
    ),
    "support radius": (
        'name = "dadmms"\nrho = 5.0',
        'name = "depsgld"\nstep_size = 0.1\nsmoothing = 1.0\n'
        'penalty = {kind = "ball", radius = -1.0}',
        "[sampler.penalty] `radius` must be positive",
    ),
    "exactness": (
        "draws = 2",
        'exactness = "midpoint"',
        "study.toml: [run] `exactness` and `[sampler]` both say how draws are made; got 'midpoint'",
    ),
    "run key": ("draws = 2", "draw = 2", "[run] unknown key `draw`"),
    "run key hint": ("draws = 2", "burnin = 2", "Did you mean 'burn_in'?"),
    "run value": ("draws = 2", 'draws = "2"', "[run] `draws` must be a whole number, got '2'"),
    "supplied": ("draws = 2", "progress = true", "[run] unknown key `progress`"),
    "syntax": ("draws = 2", "draws = ", "study.toml is not valid TOML: Invalid value (at line"),
}


@pytest.mark.parametrize(("old", "new", "text"), STUDIES.values(), ids=STUDIES)
def test_studies(tmp_path, old, new, text):
    assert old in STUDY
    write(tmp_path, "rows.csv", CSV)
    path = write(tmp_path, "study.toml", STUDY.replace(old, new, 1))
    refuses((ValueError, TypeError, FileNotFoundError), text, lambda: build(path))


def test_errors_of_a_study_name_its_file(tmp_path):
    path = write(tmp_path, "study.toml", STUDY.replace("rho", "roh"))
    refuses(ValueError, f"{path}: [sampler]", lambda: Study.read(path))
    refuses(FileNotFoundError, "no TOML file at ", lambda: Study.read(tmp_path / "none.toml"))
    rows = write(tmp_path, "rows.csv", CSV)
    path = write(tmp_path, "study.toml", STUDY.replace('["x"]', '["xx"]'))
    refuses(ColumnError, f"{path}: {rows} has no column 'xx'", lambda: build(path))


def test_a_constant_column_cannot_be_standardised(tmp_path):
    write(tmp_path, "rows.csv", "site,x,y\na,1,2\nb,1,4\n")
    path = write(tmp_path, "study.toml", STUDY.replace('["x"]', '["x"]\nstandardise = true'))
    refuses(ValueError, "column 'x' of", lambda: build(path))


def test_output_paths(tmp_path):
    refuses(IsADirectoryError, "is a folder; name a file", lambda: check_writable(tmp_path))
    inside = tmp_path / "none" / "draws.nc"
    refuses(FileNotFoundError, "is not writable: no folder", lambda: check_writable(inside))


def test_an_output_path_without_permission(tmp_path, monkeypatch):
    def denied(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", denied)
    target = tmp_path / "draws.nc"
    refuses(PermissionError, "is not writable: Permission denied", lambda: check_writable(target))


def test_what_cannot_be_loaded(tmp_path):
    path = write(tmp_path, "draws.nc", "hello")
    refuses(ValueError, "draws.nc is not a netCDF file", lambda: st.load(path))
    refuses(FileNotFoundError, "no result file at ", lambda: st.load(tmp_path / "none.nc"))

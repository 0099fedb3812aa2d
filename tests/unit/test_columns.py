"""Rows given in Python: what is no finite number, no site, or in another order is refused."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.problem.shards import divide_by_site, in_order

X = pd.DataFrame({"age": [1.0, 2.0, 3.0], "dose": [4.0, 5.0, 7.0]})
Y = pd.Series([1.0, 0.0, 2.0])
SITES = pd.Series(["a", "b", "a"])
DAYS = pd.date_range("2020-01-01", periods=3)


def linear(x=X, y=Y, sites=SITES):
    return st.models.linear_regression(x, y, sites, noise_std=1.0, intercept=False)


def problem_of(shards):
    return st.Problem(lambda p, row: 0.0, lambda p: 0.0, {"m": ()}, shards)


DATES = {
    "datetime64": DAYS,
    "time zone": DAYS.tz_localize("UTC"),
    "period": DAYS.to_period("D"),
    "timedelta64": DAYS - DAYS[0],
    "days of NumPy": DAYS.to_numpy().astype("M8[D]"),
    "durations of NumPy": (DAYS - DAYS[0]).to_numpy().astype("m8[h]"),
    "date": np.array([datetime.date(2020, 1, day) for day in (1, 2, 3)]),
    "not all": np.array([1.0, None, pd.Timestamp(2020, 1, 1)]),
    "none": np.array(["NaT"] * 3, "M8[s]"),
}


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
@pytest.mark.parametrize(
    ("build", "column"),
    [
        (lambda dates: linear(X.assign(dose=dates)), "column 'dose'"),
        (lambda dates: linear(np.asarray(dates)[:, None]), "column 'X[:, 0]'"),
        (lambda dates: linear(y=dates), "column 'y'"),
        (lambda dates: problem_of({"a": {"y": dates}}), "column 'y' of site 'a'"),
    ],
    ids=["table", "matrix", "outcome", "shard"],
)
def test_dates_are_not_taken_for_numbers(build, column, dates):
    text = f"has dates or times, which are no numbers: {column} in 3 rows (first: row 0); convert"
    with pytest.raises(ValueError, match=re.escape(text)):
        build(dates)


INDEXES = {
    "another": [7, 8, 9],
    "another order": [0, 2, 1],
    "names": list("xyz"),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_rows_of_different_indexes_are_not_matched_by_position(index):
    text = "{} and {} have different pandas indexes: {!r} and {!r} in row {}, counted from 0"
    row = 1 if index == [0, 2, 1] else 0
    moved = index[row]
    cases = [
        (lambda: linear(y=Y.set_axis(index)), ("`X`", "`y`", row, moved)),
        (lambda: linear(x=X.set_axis(index)), ("`X`", "`y`", moved, row)),
        (lambda: linear(sites=SITES.set_axis(index)), ("`X`", "`sites`", row, moved)),
        (lambda: linear(X.to_numpy(), sites=SITES.set_axis(index)), ("`y`", "`sites`", row, moved)),
        (
            lambda: problem_of({"a": {"x": X, "y": Y.set_axis(index)}}),
            ("column 'x' of site 'a'", "column 'y' of site 'a'", row, moved),
        ),
    ]
    for action, parts in cases:
        with pytest.raises(ValueError, match=re.escape(text.format(*parts, row))):
            action()


def test_rows_of_one_index_or_none_are_matched():
    wanted = linear().shards
    like = pd.Index([0, 1, 2])  # of another class, with the same entries
    for problem in (
        linear(X.set_axis(like)),
        linear(X.set_axis(list("xyz")), Y.set_axis(list("xyz")), SITES.to_numpy()),
        linear(X, Y.to_numpy(), list(SITES)),
    ):
        for site, rows in wanted.items():
            for column in rows:
                np.testing.assert_array_equal(problem.shards[site][column], rows[column])


def test_all_faulty_columns_are_told_at_once():
    table = pd.DataFrame(
        {"age": [1.0, np.nan, np.inf], "sex": ["f", None, "m"], "dose": pd.array([1, None, 2])}
    )
    with pytest.raises(ValueError, match="`X` or `y` has missing or infinite values: ") as caught:
        linear(table, [0.0, "?", 1.0])
    assert str(caught.value).endswith(
        "column 'age' in 2 rows (first: row 1), column 'sex' in 1 row (row 1), column 'dose' in "
        "1 row (row 1); drop or impute those rows. It has entries that are not numbers: column "
        "'sex' in 2 rows (first: 'f' in row 0), column 'y' in 1 row ('?' in row 1); correct them, "
        "or code them as numbers. Rows are counted from 0."
    )


def test_all_faulty_columns_of_shards_are_told_at_once():
    shards = {
        "a": {"x": [[1.0, np.nan], [np.nan, np.inf]], "y": [1, 2]},
        "b": {"x": [[1.0, 1.0]], "y": [None]},
    }
    text = (
        "`shards` has missing or infinite values: column 'x[:, 0]' of site 'a' in 1 row (row 1), "
        "column 'x[:, 1]' of site 'a' in 2 rows (first: row 0), column 'y' of site 'b' in 1 row "
        "(row 0); drop or impute those rows. Rows are counted from 0."
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        problem_of(shards)


def test_of_very_many_faulty_columns_the_number_is_told():
    with pytest.raises(ValueError, match=r"'X\[:, 29\]' in 3 rows \(first: row 0\), 70 more colu"):
        linear(np.full((3, 100), np.nan))


@pytest.mark.parametrize("column", [[True, False, True], ["1", "0", "1"], pd.array([1, 0, 1])])
def test_what_reads_as_a_number_is_one(column):
    problem = linear(X.assign(dose=column))
    np.testing.assert_array_equal(problem.shards["a"]["x"][:, 1], [1.0, 1.0])


def test_numbers_written_as_text_keep_all_their_bits():
    numbers = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-20, 30).repeat(20)
    problem = linear(numbers.astype(str)[:, None], np.zeros(1000), np.zeros(1000))
    np.testing.assert_array_equal(problem.shards["0"]["x"][:, 0], numbers)


@pytest.mark.parametrize("number", [1j, "1_000", "0x10", "1,5", b"x", [1.0]])
def test_what_is_no_real_number_is_refused(number):
    column = pd.Series([1.0, number, 2.0], dtype=object)
    text = f"column 'dose' in 1 row ({number!r} in row 1)"
    if number == 1j:
        text = "entries that are not numbers: column 'dose' in "
    with pytest.raises(ValueError, match=re.escape(text)):
        linear(X.assign(dose=column))


def test_rows_of_different_lengths_are_refused():
    for x, y in (([[1.0], [1.0, 2.0]], [1.0, 2.0]), ([[1.0], [2.0]], [1.0, [2.0, 3.0]])):
        with pytest.raises(ValueError, match="`X` or `y` has rows of different lengths"):
            linear(x, y, ["a", "b"])


def test_columns_that_are_called_alike_are_refused():
    with pytest.raises(ValueError, match="`X` has more than one column '1'"):
        linear(X.set_axis([1, "1"], axis=1))


MIXED = {
    "list": [1, "a", 2],
    "alike": [1, "1", 2],
    "object column": pd.Series([1, "a", 2]),
    "object array": np.array(["a", 2.5, 1], object),
    "truth": [2, True, "a"],
}


@pytest.mark.parametrize("labels", MIXED.values(), ids=MIXED)
def test_sites_of_numbers_and_text_are_refused(labels):
    text = r"`sites` mixes labels of different kinds, such as .* make them all text, with `str"
    with pytest.raises(ValueError, match=text):
        linear(sites=labels)


@pytest.mark.parametrize("other", ["1", "a", True])
def test_shards_of_numbers_and_text_are_refused(other):
    rows = {"y": [1.0]}
    with pytest.raises(ValueError, match=f"`shards` mixes labels .*such as 2 and {other!r}; make"):
        problem_of({2: rows, other: rows})


def test_shards_that_differ_by_white_space_are_refused():
    rows = {"y": [1.0]}
    with pytest.raises(ValueError, match=r"have the same name as text: \['a', 'a '\]"):
        problem_of({"a": rows, "a ": rows})


LABELS = {
    "white space": (["b", "a ", " a", "b\t"], ["a", "b"]),
    "whole numbers": ([10, 2, 1, 2], ["1", "2", "10"]),
    "whole floats": (np.array([10.0, 2.0, 1.0, 2.0], np.float32), ["1", "2", "10"]),
    "floats": ([10.5, 2.0, 1.0, 2.0], ["1.0", "2.0", "10.5"]),
    "texts of numbers": (["10", "2", "01", "1"], ["01", "1", "2", "10"]),
    "texts": (["10", "2", "x", "2"], ["10", "2", "x"]),
    "categories": (pd.Categorical(["b", "a", "b", "a"]), ["a", "b"]),
    "nullable": (pd.array([10, 2, 1, 2]), ["1", "2", "10"]),
    "dates": (np.array(["2020-01-02", "2020-01-01"] * 2, "M8[D]"), ["2020-01-01", "2020-01-02"]),
}


@pytest.mark.parametrize(("labels", "sites"), LABELS.values(), ids=LABELS)
def test_names_of_sites(labels, sites):
    shards = divide_by_site({"y": np.arange(4)}, labels)
    assert list(shards) == sites
    rows = {site: shards[site]["y"].tolist() for site in sites}
    assert sorted(row for own in rows.values() for row in own) == [0, 1, 2, 3]
    for site, own in rows.items():
        for row in own:
            assert str(labels[row]).strip().removesuffix(".0") == site.removesuffix(".0")


UNLABELLED = {
    "None": ["a", None],
    "nan": ["a", np.nan],
    "NA": pd.array(["a", None]),
    "blank": ["a", " "],
    "infinite": [1.0, np.inf],
    "NaT": np.array(["2020-01-01", "NaT"], "M8[D]"),
}


@pytest.mark.parametrize("labels", UNLABELLED.values(), ids=UNLABELLED)
def test_a_row_without_a_site_is_refused(labels):
    with pytest.raises(ValueError, match="`sites` has no label in row 1; rows are counted from 0"):
        divide_by_site({"y": [1.0, 2.0]}, labels)


def test_labels_that_are_no_names_are_refused():
    for labels, text in (([b"a", b"b"], "labels of bytes"), ([[1], [1, 2]], "a text or a number")):
        with pytest.raises(ValueError, match=text):
            divide_by_site({"y": [1.0, 2.0]}, labels)


def test_numbers_are_in_order_of_size():
    assert in_order({"10", "9", "-1", "1e3", "2.5"}) == ["-1", "2.5", "9", "10", "1e3"]
    assert in_order({"10", "9", "b"}) == ["10", "9", "b"]

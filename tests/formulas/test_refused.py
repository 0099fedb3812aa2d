"""What cannot be meant is refused, with the name of the column and what to do; nothing is run."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from starlings.errors import CollinearColumnsWarning, ConstantColumnWarning, FormulaError
from starlings.formulas import Formula, Request, Sums, agree
from starlings.formulas.parsing import Terms
from starlings.formulas.rows import SiteRows
from tests.formulas.tables import agreed, by_site, rows

RUN = []
"""What would be here if a formula had run code."""

CODE = {
    "__import__('os').system('true')": "cannot be read",
    "{RUN.append(1)}": "formulas run no code",
    "I(RUN.append(1))": "formulas run no code",
    "I((lambda: RUN.append(1))())": "formulas run no code",
    "np.log(age)": "calls 'np.log",
    "I(age.__class__)": "an expression may have",
    "I(age if age else age)": "an expression may have",
    "I([RUN.append(1) for a in age])": "an expression may have",
    "bs(age, df=RUN.append(1))": "must be a number, a text or a list",
    "C(ward, RUN.append(1))": "a category is coded by",
    "C(ward, contr.sum)": "a category is coded by",
    "exec(age)": "calls exec",
    "hashed(age)": "calls hashed",
    "lag(age)": "Did you mean 'log'",
    "I(9**9**9**9)": "a power has a column below and a number up to 20",
    "I(age**1000)": "a power has a column below and a number up to 20",
    "(age + stay)**400": "a power of terms above 6",
    "log(bs(age, df=4))": "can only be a term",
    "log(age, 2, 3)": "takes no further arguments",
    "bs(age, dff=4)": r"bs\(column, \.\.\.\) takes df, knots",
    "poly(age, 10**9)": "must be a number, a text or a list",
    "poly(age, 1000)": "must be a whole number up to 50",
    "bs(age, df=4, degree='a')": "`degree` must be a whole number",
    "bs(age, knots='a')": "`knots` must be a list of numbers",
    "bs(age, df=4, lower_bound='a')": "`lower_bound` must be a number",
    "bs(age, df=4, extrapolation='a')": "`extrapolation` must be one of",
    "scale(age, ddof='a')": "`ddof` must be a number",
    "I(" + "-" * 5000 + "age)": "nested too deeply|cannot be read",
    "cr(age)": "needs either `df` or `knots`",
    "bs(age, df=2)": "`df` must be at least 3",
    "age | ward": r"`random = \"\(1 \+ age \| site\)\"`",
    "days in bed": "Missing operator between",
    "age ~ ward": "with one ~",
    ".": "name those that explain",
    "offset(age)": r'offset = "column"`\.$',
    "ns(age, 3)": r"Write bs\(\.\.\.\) or cr",
    "I(age^2)": r"written with \*\*",
    "0": "explains nothing",
    "agee": "no column 'agee'.*Did you mean 'age'",
    "log(ward)": "column 'ward' has 150 entries of text .* has to have numbers",
    "age + " * 3000 + "age": "characters",
}


@pytest.mark.parametrize("text", CODE)
def test_formulas_run_no_code_and_say_what_they_can_have(text):
    with pytest.raises(FormulaError, match=CODE[text]):
        agreed(f"y ~ {text}", rows())
    assert RUN == []


@pytest.mark.parametrize("text", ["RUN.append(1)", "open('x')", "log(y", "y[0]"])
def test_outcomes_run_no_code_either(text):
    with pytest.raises(FormulaError):
        Formula.of(f"{text} ~ 1")


def test_a_formula_that_was_refused_is_not_handed_on_to_formulaic():
    with pytest.raises(FormulaError):
        _ = Terms("I(RUN.append(1))").factors
    assert RUN == []


COLUMNS = {
    "numbers as text": (lambda n: [str(k) for k in range(n)], "150 numbers written as text"),
    "decimal commas": (lambda n: [f"{k},5" for k in range(n)], "150 numbers written as text"),
    "mixed": (lambda n: ["a", *range(n - 1)], r"149 numbers, 1 entries of text .* write C\(x\)"),
    "dates": (lambda n: [datetime.date(2020, 1, 1)] * n, "150 dates or times"),
    "dates as text": (lambda n: ["2020-01-31"] * n, "150 dates or times"),
    "stamps": (lambda n: [pd.Timestamp("2020-01-31")] * n, "150 dates or times"),
    "durations": (lambda n: [datetime.timedelta(days=1)] * n, "150 dates or times"),
    "lists": (lambda n: [[1]] * n, "neither numbers nor text"),
    "complex": (lambda n: np.arange(n) * 1j, "neither numbers nor text"),
    "infinite": (lambda n: [np.inf] * n, "column 'x' is infinite in row .* of site 'north'"),
    "empty": (lambda n: [None] * n, "column 'x' has no entry at any site"),
    "one level": (lambda n: ["a"] * n, r"has one level only, \['a'\]"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_are_no_numbers_are_named_with_a_remedy(name):
    make, words = COLUMNS[name]
    with pytest.raises(FormulaError, match=words):
        agreed("y ~ x", rows().assign(x=make(150)), missing="drop")


def test_values_that_a_function_cannot_have_are_named_by_row():
    table = rows().assign(x=149.0 - np.arange(150))
    site = table["hospital"][149]
    with pytest.raises(
        FormulaError, match=rf"`log\(x\)` is -inf in row 149 of site '{site}'; rows"
    ):
        agreed("y ~ log(x)", table)
    with pytest.raises(FormulaError, match="of its knots"):
        agreed("y ~ bs(x, df=6)", table.assign(x=(table["x"] > 140) * 1.0))
    with pytest.raises(FormulaError, match="is the same, 2, in all rows"):
        agreed("y ~ scale(x)", table.assign(x=2.0))
    with pytest.raises(FormulaError, match="has as few as 2 values"):
        agreed("y ~ poly(x, 3)", table.assign(x=(table["x"] > 70) * 1.0))


def test_levels_are_refused_where_they_do_not_fit():
    table = rows()
    for argument, said, words in [
        ("levels", {"ward": "AB"}, "must be a list of names"),
        ("levels", {"ward": ["A", "A"]}, "has a level twice"),
        ("levels", {"ward": ["A", "B"]}, r"column 'ward' has C, .* declare them too"),
        ("levels", {"wards": ["A", "B"]}, "names 'wards', .* Did you mean 'ward'"),
        ("reference", {"ward": "Z"}, "must be one of"),
    ]:
        with pytest.raises(FormulaError, match=words):
            agreed("y ~ ward", table, **{argument: said})
    request = replace(
        Request.of(Formula.of("ward ~ age"), None, {"ward": list("ABCD")}, {"ward": "C"}),
        levels_of_outcome=None,
    )
    with pytest.raises(FormulaError, match="would change the order of its levels"):
        agree(request, by_site(table), Sums())
    with pytest.raises(FormulaError, match="in two ways"):
        agreed("y ~ C(ward) + C(ward, Sum)", table)


def test_a_guard_rail_keeps_the_names_of_rare_levels_at_the_site():
    table = rows()
    table.loc[table.index[table["hospital"] == "west"][0], "ward"] = "Rare"
    request = replace(Request.of(Formula.of("y ~ ward")), fewest_in_level=3)
    sums = Sums()
    with pytest.raises(FormulaError, match=r"'west' the column 'ward' has the level 'Rare' in 1 r"):
        agree(request, by_site(table), sums)
    assert len(sums.account) == 1  # before any name was sent


def test_missing_entries_need_a_choice_and_are_counted_by_site_and_column():
    table = rows()
    table.loc[table["age"] > 65, "age"] = np.nan
    gaps = int(table["age"].isna().sum())
    with pytest.raises(FormulaError, match=rf"age {gaps} in all; by site: 'north' age \d+;.*drop"):
        agreed("y ~ age", table)
    with pytest.raises(FormulaError, match='`missing` is "error"'):
        agreed("y ~ age", table, missing="error")
    encoding = agreed("y ~ age + ward", table, missing="drop")
    assert (encoding.missing["age"], encoding.dropped) == (gaps, gaps)
    assert encoding.means[1] == pytest.approx(table["age"].mean())
    assert agreed("y ~ ward", table).rows == 150  # a column that is not used has no gaps
    with pytest.raises(FormulaError, match=r"site 'west' has no row without a missing entry, of"):
        agreed(
            "y ~ age",
            table.assign(age=table["age"].where(table["hospital"] != "west")),
            missing="drop",
        )
    with pytest.raises(FormulaError, match="'west' has no rows; leave it out"):
        SiteRows.of("west", table[:0]).complete(["age"])
    with pytest.raises(ValueError, match="`missing` must be one of"):
        agreed("y ~ age", table, missing="skip")


def test_columns_that_only_the_prior_determines_are_warned_of():
    table = rows()
    with pytest.warns(ConstantColumnWarning, match=r"no row of any site has anything in ward\[T.E"):
        encoding = agreed("y ~ ward", table, levels={"ward": list("ABCDE")})
    assert encoding.scales[-1] == 0
    with pytest.warns(ConstantColumnWarning, match="x is the same in all rows of all sites"):
        agreed("y ~ x", table.assign(x=3.0))
    with pytest.warns(
        CollinearColumnsWarning, match=r"sums of others \(and of the intercept\): x "
    ):
        agreed("y ~ age + x", table.assign(x=2 * table["age"] + 1))
    with pytest.warns(CollinearColumnsWarning, match=r"others: x of ward\[A\], ward\[B\], ward\[C"):
        agreed("y ~ 0 + ward + x", table.assign(x=1.0))

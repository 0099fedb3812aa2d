"""`starlings.regression` and a study with a formula make the problem that a user has in mind."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.errors import ConstantColumnWarning, FormulaError
from tests.formulas.tables import SITES, rows

TEXT = "y ~ age + ward + bs(stay, df=4)"


def test_a_table_with_a_column_labels_or_a_mapping_makes_the_same_problem():
    table = rows()
    problem = st.regression(TEXT, table, sites="hospital")
    others = [
        st.regression(TEXT, table.drop(columns="hospital"), sites=list(table["hospital"])),
        st.regression(TEXT, dict(list(table.groupby("hospital")))),
        st.regression(TEXT, table.to_dict("list"), "hospital"),
    ]
    labels = problem.parameters.blocks["beta"].labels
    assert labels == st.Encoding.of(problem).labels
    with pytest.raises(ValueError, match="no formula, and so no encoding"):
        st.Encoding.of(st.models.gaussian([[[1.0]]]))
    with pytest.raises(ValueError, match="`sites` must be the column that names the site"):
        st.regression(TEXT, table.to_dict("list"))
    for other in others:
        assert other.description["regression"] == problem.description["regression"]
        for site in SITES:
            for name, column in problem.shards[site].items():
                np.testing.assert_array_equal(column, other.shards[site][name])


def test_rows_have_offset_and_weight_and_only_what_is_used():
    table = rows()
    problem = st.regression("y ~ age", table, "hospital", offset="stay", weights="days in bed")
    north = table[table["hospital"] == "north"]
    shard = problem.shards["north"]
    assert set(shard) == {"x", "y", "offset", "weight"}
    np.testing.assert_array_equal(shard["offset"], north["stay"])
    np.testing.assert_array_equal(shard["weight"], north["days in bed"])


def test_what_was_agreed_and_what_was_missing_is_recorded():
    table = rows()
    table.loc[:9, "age"] = np.nan
    problem = st.regression(TEXT, table, "hospital", missing="drop")
    found = json.loads(json.dumps(problem.description))
    assert found["regression"]["missing"]["dropped"] == 10
    here = found["missing_by_site"]
    assert sum(site["dropped"] for site in here.values()) == 10
    assert sum(site["entries"].get("age", 0) for site in here.values()) == 10


def test_outcomes_of_two_levels_are_0_and_1_and_those_of_one_kind_are_refused():
    table = rows().assign(ill=lambda t: np.where(t["age"] > 60, "yes", "no"))
    shards = st.regression("ill ~ age", table, "hospital", family="logistic").shards
    north = table[table["hospital"] == "north"]
    np.testing.assert_array_equal(shards["north"]["y"], north["ill"] == "yes")
    with pytest.raises(FormulaError, match="this family needs 2 levels"):
        st.regression("ward ~ age", table, "hospital", family="logistic")
    with pytest.raises(FormulaError, match="this family needs numbers"):
        st.regression("ill ~ age", table, "hospital")
    with pytest.raises(FormulaError, match="nothing to explain"):
        st.regression("y ~ age", table.assign(y=1.0), "hospital")
    with pytest.warns(ConstantColumnWarning, match="only the prior keeps"):
        st.regression("y ~ age", table.assign(y=0), "hospital", family="logistic")
    with pytest.raises(
        FormulaError, match=r"`y` must be 0 or 1, got .* in row \d+ of site 'north'"
    ):
        st.regression("y ~ age", table, "hospital", family="logistic")


STUDY = """
[model]
formula = "ill ~ age + C(ward) + log(`days in bed` + 1)"
family = "logistic"
missing = "drop"
[model.reference]
ward = "03"
[model.priors]
age = "normal(0, 1)"
[data]
file = "rows.csv"
site = "hospital"
[network]
graph = "complete"
"""


def test_a_study_with_a_formula_is_the_regression_in_python(tmp_path):
    table = rows().assign(ill=lambda t: (t["age"] > 60) | (t["y"] > 6))
    table["ward"] = table["ward"].map({"A": "01", "B": "02", "C": "03", "D": "4"})
    table.loc[3, "age"] = np.nan
    table.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY)
    plan = st.Study.read(tmp_path / "study.toml")
    problem = plan.make_problem()
    said = {"missing": "drop", "reference": {"ward": "03"}, "priors": {"age": "normal(0, 1)"}}
    expected = st.regression(
        "ill ~ age + C(ward) + log(`days in bed` + 1)", table, "hospital", "logistic", **said
    )
    assert problem.description["regression"] == expected.description["regression"]
    levels = problem.description["regression"]["encoding"]["levels"]
    assert levels["ward"] == ["03", "01", "02", "4"]  # text, though CSV has no types
    np.testing.assert_allclose(
        problem.shards["west"]["x"], expected.shards["west"]["x"], rtol=1e-12
    )
    assert problem.potential(np.zeros(6)) == pytest.approx(expected.potential(np.zeros(6)))
    assert "logistic regression, ill ~ age" in plan.model.title


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('family = "logistic"', 'family = "logistc"', r"\[model\] `family` must be one of"),
        ("age + C", "agee + C", "has no column 'agee'"),
        ("age + C", "open(age) + C", r"\[model\] `formula` calls open"),
        ('missing = "drop"', "", "rows have missing entries: age 1 in all"),
        (
            'missing = "drop"',
            'missing = "drop"\nkind = "linear_regression"',
            "`kind` and `formula`",
        ),
        ('missing = "drop"', 'missing = "drop"\nnonsense = 1', "unknown key `nonsense`"),
        ("rows.csv", "infinite.csv", r"`log\(`days in bed` \+ 1\)` is .* in line 7 of .*infinite"),
    ],
)
def test_errors_of_a_study_name_the_file_and_what_to_do(tmp_path, old, new, words):
    table = rows().assign(ill=lambda t: t["age"] > 60)
    table.loc[3, "age"] = np.nan
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.loc[5, "days in bed"] = -1
    table.to_csv(tmp_path / "infinite.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY.replace('"03"', '"C"').replace(old, new))
    with pytest.raises(ValueError, match=words) as found:
        st.Study.read(tmp_path / "study.toml").make_problem()
    assert "study.toml" in str(found.value)


def test_a_pandas_categorical_has_its_own_order():
    table = rows()
    table["ward"] = pd.Categorical(table["ward"], categories=list("DCBA"))
    problem = st.regression("y ~ ward", table, "hospital")
    assert problem.description["regression"]["encoding"]["levels"]["ward"] == list("DCBA")

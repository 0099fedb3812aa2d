"""Sites have one order, whatever order the disk lists their files in."""

from __future__ import annotations

import pandas as pd
import pytest

from starlings.study.sources import SiteFolder


@pytest.mark.parametrize(
    ("names", "in_order"),
    [
        (["10", "2", "1", "33"], ["1", "2", "10", "33"]),
        (["ward 10", "ward 2", "Ash"], ["Ash", "ward 10", "ward 2"]),
        (["10", "9", "x"], ["10", "9", "x"]),
    ],
    ids=["numbers", "words", "both"],
)
def test_files_of_a_folder_are_in_the_order_of_their_numbers_or_names(tmp_path, names, in_order):
    for size, name in enumerate(names, start=1):
        pd.DataFrame({"y": range(size)}).to_csv(tmp_path / f"{name}.csv", index=False)
    source = SiteFolder(tmp_path)
    survey = source.survey()
    assert survey.sites == in_order
    assert survey.rows.tolist() == [1 + names.index(site) for site in in_order]
    found = source.read(["y"], None)
    assert list(found) == in_order
    assert [len(rows) for rows in found.values()] == survey.rows.tolist()
    assert list(source.read(["y"], in_order[1:])) == in_order[1:]

"""Sites agree by sums, masked ones as well as plain ones, and no sum has a number of one row."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.errors import FormulaError
from starlings.formulas import Sums, levels
from starlings.formulas.agreement import COUNTS
from starlings.formulas.levels import agreed_levels
from starlings.formulas.over_network import sums_over
from starlings.sampling.private import agreeing_network
from tests.formulas.tables import SITES, agreed, rows

TEXT = "y ~ ward * smoker + bs(stay, df=4) + poly(scale(age), 2)"


@pytest.mark.parametrize("graph", ["path", "complete"])
@pytest.mark.parametrize("privacy", ["none", "totals"])
def test_an_agreement_over_a_network_is_that_of_one_process_and_counts_its_rounds(graph, privacy):
    table = rows()
    alone = Sums()
    expected = agreed(TEXT, table, alone)
    network = getattr(st.Network, graph)(3).matched_to(list(SITES))
    network = agreeing_network(network, privacy)
    before = network.opening.rounds
    sums = sums_over(network)
    found = agreed(TEXT, table, sums)
    assert found.levels == expected.levels
    np.testing.assert_allclose(found.design(table), expected.design(table), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.scales, expected.scales, rtol=1e-9, atol=1e-12)
    assert sums.account == alone.account
    per_sum = 1 if graph == "complete" else 2  # radius 1; up to the centre, and down again
    assert network.opening.rounds - before == per_sum * len(sums.account)
    sent = sum(count for kinds in sums.account for count in kinds.values())
    noted = {k: n for k, n in network.opening.kinds.items() if k in sums.account[0] | _all(sums)}
    assert sum(noted.values()) == sent
    assert noted[COUNTS] == sums.account[0][COUNTS]


def _all(sums: Sums) -> dict[str, int]:
    return {kind: 0 for kinds in sums.account for kind in kinds}


def test_levels_that_meet_in_a_bucket_are_told_apart(monkeypatch):
    monkeypatch.setattr(levels, "BUCKETS_PER_KEY", 1)
    labels = [f"Ward {k}, été" for k in range(40)]
    sites = [{"ward": labels[:25]}, {"ward": labels[20:]}, {"ward": [*labels[5:15], "x" * 200]}]
    sums = Sums()
    (found,) = sums.together([agreed_levels(["ward"], sites)])
    assert set(found["ward"]) == {*labels, "x" * 200}
    assert len(sums.account) > 3  # at 51 keys in 51 buckets the first attempt cannot be enough


def test_numbers_as_levels_are_sorted_as_numbers_and_no_level_is_no_level():
    (found,) = Sums().together([agreed_levels(["a", "b"], [{"a": ["10", "2"], "b": []}])])
    assert found == {"a": ("2", "10"), "b": ()}


def test_agreements_at_the_same_time_share_sums():
    table = rows()
    one, both = Sums(), Sums()
    agreed("y ~ bs(stay, df=4)", table, one)
    agreed("y ~ bs(stay, df=4) + bs(age, df=5) + ward", table, both)
    assert len(both.account) == len(one.account)
    deep = Sums()
    agreed("y ~ bs(scale(stay), df=4)", table, deep)
    assert len(deep.account) == len(one.account) + 2  # scale has to be known first


def test_a_site_whose_columns_have_other_names_is_noticed():
    def altered(numbers, kinds):
        total = numbers.sum(axis=0)
        if len(sums.account) == 2:  # the names of columns are compared in the first sum of moments
            total[1] += 1
        return total

    sums = Sums(altered)
    with pytest.raises(FormulaError, match="install one version of formulaic"):
        agreed("y ~ age", rows(), sums)


def test_every_run_counts_the_rounds_of_the_agreement():
    table = rows()
    problem = st.regression("y ~ age + ward", table, sites="hospital")
    x = problem.shards["north"]["x"]
    assert x.shape == ((table["hospital"] == "north").sum(), 5)
    plain = problem.with_description(regression={})
    network = st.Network.path(3).matched_to(list(SITES))
    how = {"method": "weights", "draws": 20, "chains": 2, "check": False, "progress": False}
    for privacy in ("none", "totals"):
        runs = [st.sample(each, network, privacy=privacy, **how) for each in (problem, plain)]
        rounds = [int(run.attrs["network_rounds"]) for run in runs]
        sums = problem.description["regression"]["sums"]
        assert rounds[0] - rounds[1] == 2 * len(sums), (rounds, privacy)
        assert st.Encoding.of(runs[0]) == st.Encoding.of(problem)
        kinds = runs[0].disclosed()["kind"]
        assert {"names of categories", COUNTS} <= set(kinds)
        assert ("missing_by_site" in runs[0].attrs["model"]) == (privacy == "none")

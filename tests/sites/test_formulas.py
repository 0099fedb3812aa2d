"""Sites that join a trial with a formula agree on its columns when they are connected."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.errors import PosteriorWarning, PrivacyError, SiteError
from starlings.formulas import Encoding
from starlings.runtime.peers import values
from starlings.sites.encodings import encoding_bytes, encoding_of_all
from starlings.sites.rehearsal import Rehearsal
from starlings.sites.site import Site
from starlings.study.draft import Draft
from tests.peers.flock import Flock
from tests.sites.rehearsals import SITES

FORMULA = "ill ~ age + ward + bs(dose, df=4)"
TRIAL = f"""
[model]
formula = "{FORMULA}"
family = "logistic"
missing = "drop"
[model.reference]
ward = "B"
[network]
graph = "path"
[run]
draws = 2
chains = 4
method = "weights"
[relay]
urls = ["wss://relay.invalid"]
[sites.Ashby]
[sites.Brook]
[sites.Cliff]
"""


def rows_of(site: str) -> pd.DataFrame:
    """Rows whose wards are C and B at the first site, A and B at the others."""
    rng = np.random.default_rng(SITES.index(site))
    table = pd.DataFrame({"age": rng.normal(60, 10, 90), "dose": rng.gamma(2, 2, 90)})
    table["ward"] = rng.choice(["C", "B"] if site == "Ashby" else ["A", "B"], 90)
    table["ill"] = (rng.logistic(size=90) < 0.05 * (table["age"] - 60)).astype(int)
    table.loc[3, "age"] = np.nan
    return table


def in_one_process() -> st.Problem:
    return st.regression(
        *(FORMULA, {site: rows_of(site) for site in SITES}),
        family="logistic",
        missing="drop",
        reference={"ward": "B"},
    )


@pytest.mark.slow
def test_sites_of_a_trial_have_the_columns_and_the_draws_of_one_process(tmp_path):
    (tmp_path / "trial.toml").write_text(TRIAL)
    data = {site: tmp_path / f"{site}.csv" for site in SITES}
    for site, file in data.items():
        rows_of(site).to_csv(file, index=False)
    rehearsal = Rehearsal(tmp_path / "trial.toml", data, tmp_path, delay=0.0)
    rehearsal.provision()
    results = rehearsal.run(kills=1)
    problem = in_one_process()
    network = st.Network.path(3).matched_to(SITES)
    seed = int(results["Ashby"].attrs["seed"])
    how = {"draws": 2, "chains": 4, "method": "weights", "privacy": "totals", "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)  # the run is short
        alone = st.sample(problem, network, **how, progress=False)
    expected = problem.description["regression"]
    for number, site in enumerate(SITES):
        found = json.loads(results[site].attrs["model"])["regression"]
        encoding = Encoding.from_json(found["encoding"])
        assert encoding.levels == {"ward": ("B", "A", "C")}
        assert found["missing"] == expected["missing"]
        x = encoding.design(rows_of(site).dropna())
        np.testing.assert_allclose(x, problem.shards[site]["x"], rtol=1e-12)
        np.testing.assert_allclose(
            results[site].posterior.beta.values[:, :, 0],
            alone.posterior.beta.values[:, :, number],
            atol=1e-9,
        )
        rounds = results[site].attrs["network_rounds"] - alone.attrs["network_rounds"]
        assert rounds == 2 * 2 - (2 + 2)  # two statements; keys and a limit
        assert found["sums"] == expected["sums"]
    assert rehearsal.faults(kills=1) == []
    again = Site.prepare(rehearsal.kits["Ashby"], data["Ashby"], tmp_path / "Ashby-site")
    assert isinstance(again.problem, Draft)
    _, saved = values.decoded(again.saved_encoding.path.read_bytes())
    assert b"bs(dose, df=4)" in saved  # a run without Cliff does not agree anew
    rare = rows_of("Brook")
    rare.loc[0, "ward"] = "Rare"
    rare.to_csv(data["Brook"], index=False)
    with pytest.raises(PrivacyError, match=r"fewest_rows_in_category: at site 'Brook'.* ward "):
        Site.prepare(rehearsal.kits["Brook"], data["Brook"], tmp_path / "Brook-site")


def test_sites_that_go_on_without_one_have_the_encoding_of_all(tmp_path):
    own = encoding_bytes(in_one_process())
    network = st.Network.path(2)

    def found(name: str, *saved: bytes):
        def program(communicator):
            return encoding_of_all(network, saved[communicator.rank], communicator)

        (tmp_path / name).mkdir()
        return Flock(network, program, tmp_path / name).run()

    for encoding in found("one of them", b"", own):
        assert encoding.levels == {"ward": ("B", "A", "C")}
    assert found("nobody", b"", b"") == [None, None]
    with pytest.raises(SiteError, match="0, 1 do not have the same levels and knots"):
        found("differing", own, own.replace(b'"B"', b'"D"'))

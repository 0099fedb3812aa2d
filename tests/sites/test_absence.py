"""Sites that go on without another one: who may, who has to say so, whose data draws are about."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.errors import PosteriorWarning, SiteError
from starlings.privacy.guard_rails import GuardRails
from starlings.runtime.peers import values
from starlings.runtime.peers.relay import Relay
from starlings.sites import joining
from starlings.sites.absence import (
    Absence,
    Saved,
    run_bytes,
    run_folder,
    run_hash,
    with_stand_in,
)
from starlings.sites.limits import Limits
from starlings.sites.rehearsal import Rehearsal
from starlings.sites.site import Connection, Site
from starlings.sites.status_view import View
from starlings.sites.trial import Trial
from starlings.tuning.tuner import Coordinates
from tests.peers.flock import Flock
from tests.peers.relays import InThread
from tests.sites.statuses import status
from tests.sites.trials import starlings

SITES = ["Ashby", "Brook", "Cliff", "Downs"]
PRESENT = SITES[:3]
ROWS = 40
TRIAL = """
[model]
kind = "logistic_regression"
outcome = "ill"
covariates = ["age", "dose"]
[network]
graph = "{graph}"
[run]
draws = 100
method = "weights"
[relay]
urls = ["wss://relay.invalid"]
[limits]
absent = "{absent}"
[sites.Ashby]
[sites.Brook]
[sites.Cliff]
[sites.Downs]
"""


def rows_of(site: str) -> pd.DataFrame:
    random = np.random.default_rng(SITES.index(site))
    X = random.normal(size=(ROWS, 2))
    ill = (random.logistic(size=ROWS) < X @ [1.0, -0.5]).astype(float)
    return pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], "ill": ill})


def provisioned(folder: Path, absent: str, graph: str = "ring") -> Rehearsal:
    """A trial of four sites, which have kits and have approved them."""
    trial = folder / "trial.toml"
    trial.write_text(TRIAL.format(absent=absent, graph=graph))
    data = {site: folder / f"{site}.csv" for site in SITES}
    for site, file in data.items():
        rows_of(site).to_csv(file, index=False)
    rehearsal = Rehearsal(trial, data, folder, delay=0.0)
    rehearsal.provision()
    return rehearsal


def joined(rehearsal: Rehearsal, without: dict[str, Collection[str]], name: str = "draws") -> dict:
    """What each site has in the end, its result or its error; sites are threads here."""
    found: dict[str, object] = {}

    def join(site: str, port: int) -> None:
        folder = rehearsal.folder
        try:
            found[site] = joining.join(
                rehearsal.kits[site],
                rehearsal.data[site],
                folder / f"{site}-{name}.nc",
                folder=folder / f"{site}-site",
                connection=Connection([f"ws://127.0.0.1:{port}"]),
                progress=False,
                without=without[site],
            )
        except SiteError as error:
            found[site] = error

    with InThread(lambda: Relay("127.0.0.1", 0)) as relay, warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)  # the runs are short
        threads = [
            threading.Thread(target=join, args=(s, relay.port), daemon=True) for s in without
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    return found


def in_one_process(how: str, seed: int) -> st.Result:
    every = pd.concat([rows_of(site) for site in SITES])
    problem = st.models.logistic_regression(
        every[["age", "dose"]], every["ill"], [site for site in SITES for _ in range(ROWS)]
    )
    fewer = st.without(problem, st.Network.ring(4).matched_to(SITES), ["Downs"], how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        settings = {"draws": 100, "method": "weights", "privacy": "totals", "progress": False}
        return st.sample(*fewer, seed=seed, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["leave", "stand-in"])
def test_sites_go_on_without_one_and_their_draws_say_so(how, tmp_path):
    rehearsal = provisioned(tmp_path, how)
    if how == "stand-in":
        everybody = joined(rehearsal, dict.fromkeys(SITES, ()), "everybody")
        assert json.loads(everybody["Ashby"].attrs["data_of"]) == SITES
        assert "absent" not in everybody["Ashby"].attrs
    found = joined(rehearsal, dict.fromkeys(PRESENT, ("Downs",)))
    seed = int(found["Ashby"].attrs["seed"])
    alone = in_one_process(how, seed)
    for number, site in enumerate(PRESENT):
        attrs, draws = found[site].attrs, found[site].posterior.beta.values[:, :, 0]
        wanted = alone.posterior.beta.values[:, :, number]
        np.testing.assert_allclose(draws, wanted, atol=1e-10 * wanted.std())
        assert json.loads(attrs["data_of"]) == PRESENT
        assert json.loads(attrs["absent"]) == {"sites": ["Downs"], "how": how}
        assert ("log_evidence" in attrs) == (how == "leave")
    if how == "stand-in":
        assert seed != int(everybody["Ashby"].attrs["seed"])
        assert "derivatives" not in json.loads(found["Ashby"].attrs["disclosed"])
        again = joined(rehearsal, dict.fromkeys(PRESENT, ("Downs",)), "draws")
        np.testing.assert_array_equal(
            again["Brook"].posterior.beta.values, found["Brook"].posterior.beta.values
        )


@pytest.mark.slow
def test_sites_that_do_not_say_the_same_are_told_who_does_not(tmp_path):
    rehearsal = provisioned(tmp_path, "leave")
    found = joined(rehearsal, {"Ashby": ["Downs"], "Brook": []})
    assert (
        "Brook takes part in the run with all sites, and Ashby in the run without Downs. All "
        in (str(found["Ashby"]))
    )
    assert "start Brook with `--without Downs`, or Ashby without the option" in str(found["Ashby"])
    assert "Ashby takes part in the run without Downs, and Brook in the run with all" in (
        str(found["Brook"])
    )


def kit_of(absent: str = "leave", fewest_sites: int = 3, site: str = "Ashby"):
    """What of a kit says who is absent."""
    limits = Limits(absent=absent, fewest_sites=fewest_sites)
    manifest = SimpleNamespace(sites=SITES, hash="ab" * 32, number=1, limits=limits)
    return SimpleNamespace(site=site, manifest=manifest)


REFUSED = {
    "unknown": (["Downes"], {}, "'Downes' is not one of the sites .*'Downs'"),
    "itself": (["Ashby"], {}, "this is Ashby. Name only other sites"),
    "wait": (["Downs"], {"absent": "wait"}, r'allows no run without Downs: .* is "wait". Wait for'),
    "few": (["Brook", "Downs"], {}, "without Brook, Downs there are 2 sites, .* is 3 in the manif"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_manifest_does_not_allow_is_refused_with_a_remedy(name):
    names, how, words = REFUSED[name]
    with pytest.raises(SiteError, match=words):
        Absence.declared(kit_of(**how), names, GuardRails())


def test_a_removal_that_cuts_the_network_is_refused():
    problem = st.models.gaussian(np.ones((4, 1, 1))).renamed(SITES)
    absence = Absence.declared(kit_of(), ["Brook"], GuardRails())
    assert absence.present == ["Ashby", "Cliff", "Downs"]
    with pytest.raises(SiteError, match=r"falls into 2 parts .* Wait for the absent"):
        absence.without(st.Network.path(4).matched_to(SITES))
    fewer, ring = absence.without(problem), absence.without(st.Network.ring(4).matched_to(SITES))
    assert fewer.sites == ring.names == absence.present


def test_a_run_without_a_site_is_a_run_of_its_own():
    manifest = kit_of().manifest
    names = {run_hash(manifest, absent) for absent in ([], ["Cliff"], ["Downs"])}
    assert len(names) == 3
    assert run_hash(manifest) == manifest.hash  # that of all sites is named as ever
    assert run_hash(manifest, ["Downs", "Cliff"]) == run_hash(manifest, ["Cliff", "Downs"])
    folders = {run_folder(Path("home"), name) for name in names}
    assert len(folders) == 3
    explain = Absence(manifest, ("Downs",)).explain("Ashby", "Brook")
    assert "Brook takes part in the run without Cliff, and" in explain(
        run_bytes(manifest, ["Cliff"])
    )
    assert "start Brook with `--without Downs`, or Ashby with `--without Cliff`" in explain(
        run_bytes(manifest, ["Cliff"])
    )
    assert "Brook runs another study" in explain(bytes(16))


def test_a_site_without_the_mode_gets_it_of_the_others(tmp_path):
    """One was behind when the run of all sites stopped."""
    problem = st.models.gaussian(np.ones((4, 1, 1)), [[0.0], [3.0], [9.0], [0.0]]).renamed(SITES)
    network = st.Network.ring(4).matched_to(SITES).without(["Downs"])
    fewer, mode = problem.without(["Downs"]), Coordinates(np.array([3.0]), np.array([[0.5]]))
    saved = Saved(tmp_path / "mode")
    assert saved.load(b"rows") == b""
    saved.save(mode, b"rows")
    with pytest.raises(
        SiteError, match="the rows or a package have changed since the run with all sites"
    ):
        saved.load(b"other rows")

    def found(name: str, *own: bytes):
        def program(communicator):
            part = fewer.part_of(PRESENT)
            return with_stand_in(part, network, own[communicator.rank], communicator)

        (tmp_path / name).mkdir()
        return Flock(network, program, tmp_path / name).run()

    known = saved.load(b"rows")
    for each in found("behind", known, b"", known):
        np.testing.assert_allclose(each.exact_posterior()[0], [3.0])
    with pytest.raises(SiteError, match="nothing can stand in for Downs: no site has the mode"):
        found("nobody", b"", b"", b"")
    other = values.encoded((np.array([2.0]), np.array([[0.5]])))
    with pytest.raises(SiteError, match="Ashby, Brook do not have the same mode"):
        found("differing", known, other, b"")
    wrong = values.encoded((np.array([np.nan]), np.array([[0.5]])))
    with pytest.raises(SiteError, match="is not one of 1 parameters"):
        found("wrong", wrong, b"", b"")


@pytest.mark.slow
def test_the_manifest_and_the_trial_say_what_may_be_done(tmp_path):
    rehearsal = provisioned(tmp_path, "stand-in", "path")
    arguments = rehearsal.kits["Ashby"], rehearsal.data["Ashby"], tmp_path / "Ashby-site"
    site = Site.prepare(*arguments, ["Downs"])
    assert (site.network.names, site.neighbours, site.number) == (PRESENT, ["Brook"], 0)
    assert site.absence.has_stand_in
    assert site.problem.sites == PRESENT
    assert Site.prepare(*arguments).folder != site.folder
    kit, data, folder = arguments
    done = starlings(
        *("join", kit, "--data", data, "--folder", folder, "--output", tmp_path / "a.nc"),
        *("--without", "Brook"),
    )
    assert done.exit_code == 1
    assert "without [Brook] the network falls into 2 parts" in " ".join(done.output.split())
    (tmp_path / "trial.toml").write_text(TRIAL.format(absent="forget", graph="ring"))
    with pytest.raises(ValueError, match=r"`absent` must be one of .*'wait', 'leave'"):
        Trial.read(tmp_path / "trial.toml")


def test_views_say_whom_a_run_does_not_have():
    assert "without" not in View.of(status()).title
    assert View.of(status(absent=["Elm", "Dale"])).title.endswith(" (without Elm and Dale)")

"""A study of three sites, the rows of each in a file of its own, and their programs in threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from starlings.engines.identity import Identity
from starlings.engines.job import Job
from starlings.engines.program import SiteProgram
from starlings.engines.settings import SiteSettings
from starlings.privacy.guard_rails import GuardRails
from starlings.results.result import Result, open_result
from starlings.runtime.hub.hub import serve
from starlings.runtime.hub.mailbox import Mailbox, State, Visit
from starlings.study.run import run_locally
from starlings.study.study import Study

SITES = {"Ashby": 40, "Brook": 60, "Cliff": 55}
STUDY = """\
[model]
kind = "logistic_regression"
outcome = "readmitted"
covariates = ["age", "stay"]
prior_std = 2.5
[data]
file = "rows.csv"
site = "hospital"
[network]
graph = "complete"
[run]
draws = 60
chains = 2
"""


def rows() -> pd.DataFrame:
    """Rows of three sites."""
    random = np.random.default_rng(3)
    X = random.normal(size=(sum(SITES.values()), 2))
    is_readmitted = random.random(len(X)) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))
    columns = {"age": X[:, 0], "stay": X[:, 1], "readmitted": is_readmitted.astype(int)}
    return pd.DataFrame(columns).assign(hospital=np.repeat(list(SITES), list(SITES.values())))


def study(folder: Path, run: str = "", text: str = STUDY) -> Path:
    """The study with its rows in one file; `run` are further lines of [run]."""
    rows().to_csv(folder / "rows.csv", index=False)
    path = folder / "trial.toml"
    path.write_text(text + run)
    return path


def in_one_process(path: Path, **settings) -> np.ndarray:
    """The draws of the study, without masks unless said so, (chain, draw, site, parameter)."""
    plan = Study.read(path)
    return run_locally(plan, plan.run_settings(**settings), quiet=True).posterior["beta"].values


def check_draws(path: Path, results: Mapping[str, Result], **settings) -> None:
    """Every site has the draws of its agent in a run in one process, to 1e-10."""
    wanted = in_one_process(path, **settings)
    for number, site in enumerate(SITES):
        found = results[site].posterior["beta"].values
        np.testing.assert_allclose(
            found, wanted[:, :, [number]], rtol=0, atol=1e-10 * wanted.std(), err_msg=site
        )


@dataclass
class Programs:
    """The programs of all sites of a job, in threads, and what their hub sees."""

    job: Job
    rows: Mapping[str, Path]
    results: Path
    identities: Mapping[str, Identity] = field(default_factory=dict)
    rails: GuardRails = field(default_factory=GuardRails)
    seen: list[list[bytes]] = field(default_factory=list)
    """By call, the messages of all sites."""
    errors: dict[str, BaseException] = field(default_factory=dict)

    @classmethod
    def of_study(cls, path: Path, results: Path, **settings) -> Programs:
        """The programs of a study, each with a file of its own."""
        job, table = Job.of_study(path), pd.read_csv(path.parent / "rows.csv")
        files = {site: path.parent / f"{site}.csv" for site in job.sites}
        for site, file in files.items():
            table[table["hospital"] == site].drop(columns="hospital").to_csv(file, index=False)
        return cls(job, files, results, **settings)

    def prepared(self, site: str) -> SiteProgram:
        """The program of one site."""
        settings = SiteSettings(self.rows[site], self.results / site, self.rails)
        return SiteProgram.prepared(self.job, site, settings, self.identities.get(site))

    def run(self) -> dict[str, Result]:
        """Run until all are done; the results by site."""
        programs = {site: self.prepared(site) for site in self.job.sites}
        known = min(program.known for program in programs.values())
        boxes = {site: Mailbox() for site in programs}

        def work(site: str) -> None:
            try:
                programs[site].run(boxes[site].ask, known)
                boxes[site].end(State.DONE)
            except BaseException as error:
                self.errors[site] = error
                boxes[site].end(State.STOPPED)

        def visit(visits: Mapping[str, Visit]) -> dict[str, tuple[State, bytes]]:
            found = {site: boxes[site].visited(one, 0.01) for site, one in visits.items()}
            for site, (state, message) in found.items():
                if state == State.WAITS:
                    waiting.setdefault(site, message)
            if len(waiting) == len(boxes):
                self.seen.append([waiting[site] for site in boxes])
                waiting.clear()
            return found

        waiting: dict[str, bytes] = {}
        threads = [threading.Thread(target=work, args=(site,)) for site in boxes]
        for thread in threads:
            thread.start()
        try:
            serve(list(boxes), visit, patience=60.0)
        finally:
            for box in boxes.values():
                box.close("the hub has ended the run.")
            for thread in threads:
                thread.join()
            for program in programs.values():
                program.journal.close()
        return {site: open_result(programs[site].output) for site in programs}

"""What one site runs, whatever the engine: from its rows to its draws.

    prepare   everything that can be checked alone, before anything is sent
    run       keys for masks, the same program as at all other sites, the draws of this one

What a run keeps is in a folder of its own at the site: the journal, from which it goes on when the
job is submitted again, and the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlings.engines.identity import Identity, signed_keys
from starlings.engines.job import Job
from starlings.engines.settings import SiteSettings
from starlings.errors import SiteError
from starlings.network import Network
from starlings.network.budget import Budget
from starlings.network.opening import FLOAT_BYTES, KEY
from starlings.privacy.keys import KEY_BYTES
from starlings.privacy.secrecy import Secrecy
from starlings.problem import Problem
from starlings.results.disclosed import HUB
from starlings.runtime.hub.communicator import HubCommunicator, num_replies
from starlings.runtime.peers.frames import RUN_BYTES
from starlings.runtime.peers.journal import Journal
from starlings.sampling import sample
from starlings.sampling.private import check_rails
from starlings.sites.keys import private_folder
from starlings.sites.same_run import check_unchanged
from starlings.sites.site_data import SiteData, refused_moments
from starlings.study.draft import Draft
from starlings.study.study import Study


@dataclass
class SiteProgram:
    """The program of one site, which is ready: all was checked, and nothing was sent."""

    job: Job
    site: str
    study: Study
    problem: Problem | Draft
    """The problem; a draft where the sites have yet to agree on the columns of a formula."""
    settings: SiteSettings
    journal: Journal
    identity: Identity | None
    """Who the site is; None if the engine has no certificates."""

    @classmethod
    def prepared(
        cls,
        job: Job,
        site: str,
        settings: SiteSettings,
        identity: Identity | None = None,
        code_folder: Path | None = None,
    ) -> SiteProgram:
        """Read the rows of a site, and check all that it can check alone.

        Args:
            job: what all sites run.
            site: the name of this one.
            settings: what it decided for itself.
            identity: its certificate.
            code_folder: where the Python files of the job are.
        """
        if site not in job.sites:
            raise SiteError(f"{site!r} is not one of the sites of this job: {job.sites}.")
        job.check_versions()
        rows = SiteData.open(settings.data, site, job.columns)
        study = job.study((code_folder or Path()) / "job.toml", rows)
        if job.privacy == "none":
            settings.rails.check_masks()
        problem: Problem | Draft
        if study.has_formula:
            is_masked = job.privacy == "totals"
            problem = study.draft([site]).checked(settings.rails, len(job.sites), is_masked)
        else:
            problem = study.make_problem([site], refused_moments).part_of(job.sites)
            check_rails(problem, study.make_network(job.sites), settings.rails)
        folder = run_folder(settings.results, job)
        folder.parent.mkdir(parents=True, exist_ok=True)
        journal = Journal(private_folder(folder) / "journal", bytes.fromhex(job.hash)[:RUN_BYTES])
        return cls(job, site, study, problem, settings, journal, identity)

    @property
    def known(self) -> int:
        """How many replies of the hub this site has from before a restart."""
        return num_replies(self.journal)

    @property
    def output(self) -> Path:
        """The file with the draws of this site."""
        return run_folder(self.settings.results, self.job) / f"{self.site}.nc"

    def run(self, ask: Callable[[bytes], bytes], known: int) -> Path:
        """Run to the end, and return the file with the draws.

        Args:
            ask: sends a message to the hub, and returns its reply.
            known: how many replies of the hub all sites have from before a restart.
        """
        job, number = self.job, self.job.sites.index(self.site)
        network = self.study.make_network(job.sites)
        communicator = HubCommunicator(network, number, ask, self.journal, known)
        try:
            check_unchanged(self.problem, communicator)
            network = network.distributed([number], communicator)
            network = self._masked(network.limited(Budget(self.settings.rails.most_rounds)))
            settings = self.study.run_settings() | {"privacy": "none"}  # it is masked already
            sampler = self.study.make_sampler()
            result = sample(self._agreed(network), network, sampler, **settings, progress=False)
            result.set_attribute("data_of", job.sites)
            result.set_attribute("site", self.site)
            result.set_attribute("job", job.hash)
            result.set_attribute("through", HUB)
            result.save(self.output, overwrite=True)
            communicator.barrier()
        except BaseException as error:
            raise communicator.failure or error from None
        return self.output

    def _agreed(self, network: Network) -> Problem:
        """The problem, on which all sites agree now if it has a formula."""
        if not isinstance(self.problem, Draft):
            return self.problem
        problem = self.study.problem_of(self.problem, network)
        check_rails(problem, self.study.make_network(self.job.sites), self.settings.rails)
        return problem

    def _masked(self, network: Network) -> Network:
        """The network, with masks unless the job says in words that there are none."""
        if self.job.privacy == "none":
            return network
        communicator = network.communicator
        assert isinstance(communicator, HubCommunicator)
        keys = signed_keys(self.job.hash, self.job.sites, communicator, self.identity)
        network.opening.note(KEY, KEY_BYTES // FLOAT_BYTES)
        return network.masked(Secrecy(keys, self.settings.rails.fewest_neighbours))


def run_folder(results: Path, job: Job) -> Path:
    """Where a site keeps what belongs to one job."""
    return results / f"{job.name}-{job.hash[:16]}"

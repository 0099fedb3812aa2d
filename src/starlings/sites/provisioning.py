"""Requests of sites in, kits out: what the coordinator does, offline.

Every step changes only what it must:

    add a site       a new manifest, since another organisation takes part; all sites approve it
                     anew. A kit for the new site. All other kits stay as they are, in every byte.
    renew a site     a new kit for that site. Nothing else; the old certificate ends by itself.
    revoke a site    a new list of revoked certificates. No kit changes.
    edit the trial   a new manifest, and no kit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from starlings.errors import SiteError, nearest
from starlings.sites.authority import Authority
from starlings.sites.certificates import Request, check_dates
from starlings.sites.keys import key_hash, private_folder, write_private
from starlings.sites.kit import kit_bytes
from starlings.sites.manifest import ENDING, Manifest
from starlings.sites.revocations import FILE, Revocations
from starlings.sites.trial import Trial

KITS = "kits"
"""The folder beside the trial file into which everything goes that leaves the coordinator."""


@dataclass
class Provisioning:
    """The trial file and its authority; every method writes complete files, or none."""

    trial: Trial
    authority: Authority
    now: datetime | None = None
    """The time; by default that of the clock."""

    @classmethod
    def open(cls, trial: Path, passphrase: str, now: datetime | None = None) -> Provisioning:
        """Read a trial file and open its authority."""
        return cls(Trial.read(trial), Authority.open(trial, passphrase), now)

    @property
    def folder(self) -> Path:
        """The folder of kits."""
        return self.trial.path.parent / KITS

    def kit_path(self, site: str) -> Path:
        """The kit of a site."""
        return self.folder / f"{site}.zip"

    @property
    def manifest_path(self) -> Path:
        """The newest manifest, as it is published."""
        return self.folder / f"{self.trial.path.stem}{ENDING}"

    def read_requests(self, files: Iterable[Path]) -> list[Request]:
        """The requests in some files; all of them must be of sites of this trial."""
        found: dict[str, Request] = {}
        for file in files:
            request = Request.read(file)
            if request.site not in self.trial.sites:
                hint = nearest(request.site, self.trial.sites)
                raise SiteError(
                    f"{file} is of {request.site!r}, which is not one of the sites "
                    f"{self.trial.sites} of {self.trial.path}.{hint} Add [sites.{request.site}] "
                    "there, or leave the request out."
                )
            if request.site in found:
                raise SiteError(f"{file} is the second request of {request.site!r}; name one.")
            found[request.site] = request
        return list(found.values())

    def is_new(self, request: Request) -> bool:
        """Whether a site has no valid certificate; one with another key is refused."""
        entry = self.authority.register.latest(request.site)
        if entry is not None and entry["key"] != key_hash(request.public_key):
            raise SiteError(
                f"{request.site!r} has a certificate for another key. If it lost that key, run "
                f"--revoke {request.site!r} and then --renew with the new request."
            )
        return entry is None

    def issue(self, requests: Iterable[Request], renew: bool = False) -> list[Path]:
        """Publish the manifest, and make kits for sites without one; the kits that were made.

        Args:
            requests: of the sites.
            renew: whether to make a new certificate also for a site that has one.
        """
        wanted = [r for r in requests if self.is_new(r) or renew or self._lacks_kit(r)]
        manifest, revoked = self.publish()
        certificates = {r.site: self.authority.issue(r, self.now) for r in wanted}
        self.authority.save()
        made = []
        for site, certificate in certificates.items():
            check_dates(certificate, site, self.now)
            kit = kit_bytes(self.authority, certificate, manifest, revoked)
            write_private(self.kit_path(site), kit)
            made.append(self.kit_path(site))
        return made

    def _lacks_kit(self, request: Request) -> bool:
        return not self.kit_path(request.site).is_file()

    def publish(self) -> tuple[Manifest, Revocations]:
        """Write the manifest and the list of revoked certificates, where they have changed."""
        private_folder(self.folder)
        number = self.authority.register.manifest.get("number")
        manifest = Manifest.make(self.trial, self.authority, self.now)
        if manifest.number != number or not self.manifest_path.is_file():
            write_private(self.manifest_path, manifest.document)
        if not (self.folder / FILE).is_file():
            write_private(self.folder / FILE, Revocations.make(self.authority).document)
        self.authority.save()
        return manifest, Revocations.make(self.authority)

    def revoke(self, site: str) -> Revocations:
        """Put all certificates of a site on the list of revoked ones, and publish it."""
        self.check_issued(site)
        if not self.authority.revoke(site):
            raise SiteError(f"the certificates of {site!r} are revoked already; nothing to do.")
        self.authority.register.revocations += 1
        self.authority.save()
        made = Revocations.make(self.authority)
        private_folder(self.folder)
        write_private(self.folder / FILE, made.document)
        return made

    def check_issued(self, site: str) -> None:
        """Refuse the name of a site that never had a certificate."""
        known = list(self.authority.register.issued)
        if site not in known:
            raise SiteError(f"{site!r} has no certificate; {known} have.{nearest(site, known)}")

    def missing(self) -> list[str]:
        """The sites of the trial that have no valid certificate yet."""
        return [s for s in self.trial.sites if self.authority.register.latest(s) is None]

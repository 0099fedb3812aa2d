"""One site that is ready to take part in a run, and how it reaches the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlings.errors import SiteError
from starlings.network import Network
from starlings.privacy.guard_rails import GuardRails
from starlings.problem import Problem
from starlings.runtime.peers.tls import Identity
from starlings.runtime.peers.ways import DirectWay, RelayWay, Way
from starlings.sampling.private import check_rails
from starlings.sites.absence import Absence, Saved, run_folder
from starlings.sites.approvals import verify_approval
from starlings.sites.encodings import ENCODING_FILE
from starlings.sites.keys import key_hash, private_folder
from starlings.sites.kit import Kit
from starlings.sites.site_data import SiteData, refused_moments
from starlings.study.draft import Draft
from starlings.study.study import Study


@dataclass(frozen=True)
class Connection:
    """How this site reaches relays; most need none of this."""

    relays: Sequence[str] = ()
    """Other addresses of relays than those of the trial; empty for those."""
    proxy: str | None = None
    """An HTTP proxy; None takes that of the environment."""
    relay_authority: Path | None = None
    """Who may have signed the relay's certificate; by default whom this machine trusts."""
    allow_plain: bool = False
    """Whether a relay may be reached without TLS; the links between sites always have it."""
    listens: tuple[str, int] | None = None
    """Where this site listens for neighbours, if they talk directly; by default as in the trial."""
    delay: float = 0.0
    """Seconds by which everything is sent too late, for rehearsals."""


@dataclass
class Site:
    """A site that is ready to take part: everything has been checked, and nothing was sent."""

    kit: Kit
    approval: bytes
    study: Study
    problem: Problem | Draft
    """The problem; a draft where the sites have yet to agree on the columns of a formula."""
    network: Network
    rails: GuardRails
    absence: Absence
    """Who is absent, as this site says."""
    folder: Path = field(init=False)
    """Where the journal, the transcript and the status of the run are."""

    def __post_init__(self) -> None:
        self.folder = private_folder(run_folder(self.kit.home.path, self.absence.hash))

    @classmethod
    def prepare(
        cls,
        kit_path: Path,
        data: Path,
        folder: Path | None = None,
        without: Collection[str] = (),
    ) -> Site:
        """Open a kit and the rows of its site, and check everything that can be checked alone."""
        kit = Kit.open(kit_path, folder)
        kit.check_usable()
        approval = _approval(kit)
        kit.install()
        manifest = kit.manifest
        rails = manifest.limits.with_those_of(GuardRails.of_this_machine())
        absence = Absence.declared(kit, without, rails)
        rows = SiteData.open(data, kit.site, list(manifest.content["columns"]))
        study = kit.study(rows)
        network = absence.without(study.make_network(manifest.sites))
        if manifest.content["privacy"] == "none":
            rails.check_masks()
        problem: Problem | Draft
        if study.has_formula:
            is_masked = manifest.content["privacy"] == "totals"
            problem = study.draft([kit.site]).checked(rails, network.size, is_masked)
        else:
            everybody = study.make_problem([kit.site], refused_moments)
            problem = absence.without(everybody.part_of(manifest.sites))
            check_rails(problem, network, rails)
        return cls(kit, approval, study, problem, network, rails, absence)

    @property
    def number(self) -> int:
        """The number of this site, among those that take part."""
        return self.network.names.index(self.kit.site)

    @property
    def run(self) -> bytes:
        """The name of the run in every frame."""
        return self.absence.run

    @property
    def neighbours(self) -> list[str]:
        """The sites with which this one exchanges messages."""
        return [name for name in self.kit.roster.neighbours if name in self.absence.present]

    @property
    def saved_mode(self) -> Saved:
        """The mode of the run of all sites, if this site has saved it."""
        return Saved.of(self.kit.home.path, self.kit.manifest)

    @property
    def saved_encoding(self) -> Saved:
        """The encoding of the formula in the run of all sites, if this site has saved it."""
        return Saved.of(self.kit.home.path, self.kit.manifest, ENCODING_FILE)

    @property
    def identity(self) -> Identity:
        """Who this site is, as files."""
        home = self.kit.home
        files = (home.certificate_path, home.key_path, home.authority_path)
        return Identity(self.kit.site, *files, self.kit.revoked)

    def way(self, neighbour: str, connection: Connection) -> Way | Sequence[Way]:
        """How a neighbour is reached: of two sites that talk directly the first one listens."""
        roster = self.kit.roster
        if relays := connection.relays or roster.relays:
            how = (connection.proxy, connection.relay_authority, connection.allow_plain)
            return [RelayWay(url, roster.relay_secret, *how) for url in relays]
        if self.kit.site < neighbour:
            own = connection.listens or address(roster.direct[self.kit.site])
            return DirectWay(listens=own)
        return DirectWay(connects=address(roster.direct[neighbour]))


def _approval(kit: Kit) -> bytes:
    """The approval that this site has signed, of the newest manifest."""
    path = kit.home.approval_path(kit.site)
    if not path.is_file():
        raise SiteError(
            f"this site has not approved manifest {kit.manifest.number}: run `starlings approve "
            f"{kit.path}` first."
        )
    approval = path.read_bytes()
    found = verify_approval(approval, kit.manifest, kit.authority, kit.site, kit.revoked)
    if found.key_hash != key_hash(kit.certificate.public_key()):
        raise SiteError(
            f"this site has another key now than when it approved manifest {kit.manifest.number}: "
            f"run `starlings approve {kit.path}` again."
        )
    return approval


def address(text: str) -> tuple[str, int]:
    """The host and the port of host:port."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ValueError(f"an address must be host:port, such as 0.0.0.0:8443, got {text!r}.")
    return host.strip("[]"), int(port)

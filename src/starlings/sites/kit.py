"""A kit: what a site needs to take part, beside its own private key.

    authority.pem      the certificate of the authority
    certificate.pem    the certificate of the site
    roster.signed      for which site and trial the kit is, and the secret of the relay
    manifest.signed    the manifest that was valid when the kit was made
    revoked.list       the list of revoked certificates at that time

A kit names no other site's certificate, so it changes only when the site's own certificate does. A
newer manifest and a newer list are two files that the coordinator publishes. They are looked for
beside the kit and in the folder of the site, and the one with the highest number counts. There is
no private key in a kit; but the secret of the relay is, so a kit is sent to its site only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites import archive
from starlings.sites.authority import Authority
from starlings.sites.certificates import (
    as_pem,
    check_authority,
    check_certificate,
    check_chain,
    from_pem,
    same_key,
    site_of,
)
from starlings.sites.documents import FORMAT, MOST_BYTES, damaged, verified_by_authority
from starlings.sites.documents import field as read
from starlings.sites.identity import SiteHome
from starlings.sites.keys import fingerprint, private_folder, read_limited, write_private
from starlings.sites.manifest import ENDING, Manifest
from starlings.sites.revocations import FILE, Revocations
from starlings.sites.site_names import check_name
from starlings.study.sources import Source
from starlings.study.study import Study

MEMBERS = ("authority.pem", "certificate.pem", "roster.signed", "manifest.signed", FILE)
"""The names of the members."""


@dataclass(frozen=True)
class Roster:
    """Who takes part, and how they reach each other."""

    sites: list[str]
    """The names of all sites, sorted."""
    neighbours: list[str]
    """Those with which this site exchanges messages."""
    relays: list[str]
    """Addresses of relays, in the order in which they are tried; empty if sites talk directly."""
    direct: dict[str, str]
    """By site, host:port where it listens; empty if sites talk through a relay."""
    relay_secret: bytes = field(repr=False)
    """By which the sites show a relay that they belong together."""


def kit_bytes(
    authority: Authority, certificate: Any, manifest: Manifest, revoked: Revocations
) -> bytes:
    """The kit of the site that a certificate is for."""
    roster = {
        "kind": "roster",
        "format": FORMAT,
        "site": site_of(certificate, "the new certificate"),
        "trial": manifest.trial,
        "serial": f"{certificate.serial_number:x}",
        "key": fingerprint(certificate.public_key()),
        "relay_secret": authority.register.relay_secret,
    }
    contents = (
        as_pem(authority.certificate),
        as_pem(certificate),
        authority.sign(roster),
        manifest.document,
        revoked.document,
    )
    return archive.packed(dict(zip(MEMBERS, contents, strict=True)))


@dataclass(frozen=True)
class Kit:
    """A kit whose signatures are right, with the newest manifest and list that are at hand."""

    path: Path
    home: SiteHome
    """The folder of the site."""
    site: str
    authority: Any
    """The certificate of the authority."""
    certificate: Any
    """The certificate of this site."""
    manifest: Manifest
    revocations: Revocations
    relay_secret: bytes = field(repr=False)

    @classmethod
    def open(cls, path: str | Path, folder: str | Path | None = None) -> Kit:
        """Open a kit; one that is damaged, or signed by another authority than before, is refused.

        Dates, revocation and the private key are not checked here; see `check_usable`.

        Args:
            path: the zip file.
            folder: the folder of the site; by default NAME-site, near the kit.
        """
        file = Path(path)
        members = archive.unpacked(file, MEMBERS)
        authority = from_pem(members["authority.pem"], f"{file}, authority.pem")
        certificate = from_pem(members["certificate.pem"], f"{file}, certificate.pem")
        where = f"{file}, roster.signed"
        roster = verified_by_authority(members["roster.signed"], "roster", authority, where)
        check_authority(authority, f"{file}, authority.pem")
        site = read(roster, "site", str, where)
        check_chain(certificate, authority, str(file))
        if site_of(certificate, str(file)) != site:
            raise damaged(str(file), "its certificate is that of another site")
        home = SiteHome.find(file, site) if folder is None else SiteHome(Path(folder))
        _check_trust(home, authority, file)
        places = [file.parent, home.path]
        manifest = Manifest.parse(members["manifest.signed"], authority, f"{file}, manifest.signed")
        name = check_name(read(roster, "trial", str, where), where, "a trial")
        return cls(
            file,
            home,
            site,
            authority,
            certificate,
            _newest_manifest(manifest, [place / f"{name}{ENDING}" for place in places], authority),
            _newest_list(
                Revocations.parse(members[FILE], authority, f"{file}, {FILE}"),
                [place / FILE for place in places],
                authority,
            ),
            _secret(roster, where),
        )

    @property
    def roster(self) -> Roster:
        """Who takes part, and how they reach each other, by the newest manifest."""
        content = self.manifest.content
        return Roster(
            self.manifest.sites,
            self.manifest.neighbours(self.site),
            list(content["relay"]),
            dict(content["direct"]),
            self.relay_secret,
        )

    @property
    def revoked(self) -> frozenset[int]:
        """Serial numbers of certificates that are no longer valid."""
        return self.revocations.serials

    @cached_property
    def key(self) -> Any:
        """The private key of the site; one that does not fit the certificate is an error."""
        key = self.home.key()
        if not same_key(self.certificate, key.public_key()):
            raise SiteError(
                f"{self.home.key_path} is not the key for which the certificate in {self.path} was "
                "made. Send the coordinator a new request, or name the right folder with "
                "`--folder`."
            )
        return key

    def check_usable(self, now: datetime | None = None) -> None:
        """Refuse a kit with which the site cannot take part now.

        Args:
            now: the time; by default that of the clock.
        """
        where = str(self.path)
        if self.site not in self.manifest.sites:
            raise SiteError(
                f"{where}: {self.site!r} is not among the sites {self.manifest.sites} of manifest "
                f"{self.manifest.number}. Ask the coordinator."
            )
        check_certificate(self.certificate, self.authority, self.site, self.revoked, where, now)
        assert self.key is not None

    def install(self) -> None:
        """Keep in the folder of the site what the kit has, and trust its authority from now on."""
        private_folder(self.home.path)
        write_private(self.home.authority_path, as_pem(self.authority))
        write_private(self.home.certificate_path, as_pem(self.certificate))
        write_private(self.home.path / f"{self.manifest.trial}{ENDING}", self.manifest.document)
        write_private(self.home.path / FILE, self.revocations.document)

    def study(self, own_rows: Source) -> Study:
        """The study, with the rows of this site; its Python files come from the manifest.

        Args:
            own_rows: the rows, see `site_data.SiteData`.
        """
        folder = private_folder(self.home.path / f"code-{self.manifest.hash[:16]}")
        for name, text in self.manifest.content["code"].items():
            write_private(folder / name, text.encode())
        return self.manifest.study(folder / f"{self.manifest.trial}.toml", own_rows)


def _check_trust(home: SiteHome, authority: Any, kit: Path) -> None:
    """Refuse an authority that is not the one of the first approval."""
    path = home.authority_path
    if not path.exists():
        return
    known = from_pem(read_limited(path, MOST_BYTES), str(path))
    if not same_key(known, authority.public_key()):
        raise SiteError(
            f"{kit} comes from another authority ({fingerprint(authority.public_key())}) than the "
            f"one that this site trusts ({fingerprint(known.public_key())}). Ask the coordinator, "
            f"by telephone. If the trial really began anew, remove {path} first."
        )


def _newest_manifest(own: Manifest, files: list[Path], authority: Any) -> Manifest:
    newest = own
    for file in (file for file in files if file.is_file()):
        found = Manifest.parse(read_limited(file, MOST_BYTES), authority, str(file))
        if found.number == newest.number and found.hash != newest.hash:
            raise SiteError(
                f"{file} and another manifest of this trial have both the number {found.number}, "
                "and differ. Do not sign either of them; ask the coordinator."
            )
        newest = max(newest, found, key=lambda manifest: manifest.number)
    return newest


def _newest_list(own: Revocations, files: list[Path], authority: Any) -> Revocations:
    found = [
        Revocations.parse(read_limited(file, MOST_BYTES), authority, str(file))
        for file in files
        if file.is_file()
    ]
    return max([own, *found], key=lambda each: each.number)


def _secret(roster: dict[str, Any], where: str) -> bytes:
    try:
        return bytes.fromhex(read(roster, "relay_secret", str, where))
    except ValueError:
        raise damaged(where, "the secret of the relay is not hexadecimal") from None

"""The folder of the coordinator, TRIAL-authority, with the key that signs everything of a trial.

    authority.key    the private key (P-256), encrypted by a passphrase, readable by its owner only
    authority.pem    its certificate, valid for ten years, which all kits have
    register.json    every certificate that was issued, the numbers of what was published, and the
                     secret by which the sites show the relay that they belong together

Keep this folder off the network, and a copy of it. Who has the key and the passphrase can make
certificates for anybody.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.certificates import (
    Request,
    as_pem,
    authority_certificate,
    from_pem,
    site_certificate,
)
from starlings.sites.documents import (
    FORMAT,
    MOST_BYTES,
    Table,
    as_text,
    canonical,
    check_kind,
    now_utc,
    parsed,
    sign,
)
from starlings.sites.documents import field as read
from starlings.sites.keys import (
    key_hash,
    load_key,
    new_key,
    private_folder,
    read_limited,
    save_key,
    write_private,
)

SECRET_BYTES = 32
"""Bytes of the secret of the relay."""


@dataclass
class Register:
    """What an authority remembers."""

    relay_secret: str
    """In hexadecimal digits."""
    manifest: Table = field(default_factory=dict)
    """The contents of the last manifest; empty if there is none."""
    revocations: int = 0
    """The number of the last list of revoked certificates."""
    issued: dict[str, list[Table]] = field(default_factory=dict)
    """By site, every certificate: `serial`, `key` (a hash), `ends`, and whether it is `revoked`."""

    @classmethod
    def read(cls, path: Path) -> Register:
        """The register in a file."""
        table = parsed(read_limited(path, MOST_BYTES), str(path))
        check_kind(table, "register", str(path))
        kinds = {"relay_secret": str, "manifest": dict, "revocations": int, "issued": dict}
        return cls(**{name: read(table, name, kind, str(path)) for name, kind in kinds.items()})

    def write(self, path: Path) -> None:
        """Replace the file."""
        write_private(path, canonical({"kind": "register", "format": FORMAT, **vars(self)}))

    def latest(self, site: str) -> Table | None:
        """The last certificate of a site that is not revoked."""
        valid = [entry for entry in self.issued.get(site, []) if not entry["revoked"]]
        return valid[-1] if valid else None

    @property
    def revoked(self) -> list[int]:
        """The serial numbers of all revoked certificates."""
        entries = [entry for site in self.issued.values() for entry in site]
        return sorted(int(entry["serial"], 16) for entry in entries if entry["revoked"])


@dataclass
class Authority:
    """The authority of a trial, with its private key at hand."""

    folder: Path
    certificate: Any
    key: Any = field(repr=False)
    register: Register = field(repr=False)

    @staticmethod
    def beside(trial: Path) -> Path:
        """The folder of the authority of a trial file."""
        return trial.with_name(f"{trial.stem}-authority")

    @classmethod
    def make(cls, trial: Path, passphrase: str, now: datetime | None = None) -> Authority:
        """Make the folder of a new authority beside a trial file.

        Args:
            trial: the trial file.
            passphrase: encrypts the private key; must not be empty.
            now: the time; by default that of the clock.
        """
        secret, folder = encoded(passphrase), cls.beside(trial)
        if (folder / "authority.key").exists():
            raise SiteError(f"{folder} has the key of an authority already, which is kept.")
        key = new_key()
        made = cls(
            private_folder(folder),
            authority_certificate(key, trial.stem, now),
            key,
            Register(secrets.token_hex(SECRET_BYTES)),
        )
        save_key(folder / "authority.key", key, secret)
        write_private(folder / "authority.pem", as_pem(made.certificate))
        made.save()
        return made

    @classmethod
    def open(cls, trial: Path, passphrase: str) -> Authority:
        """Open the authority of a trial file; a wrong passphrase is an error."""
        folder = cls.beside(trial)
        if not (folder / "authority.key").is_file():
            raise SiteError(
                f"there is no authority at {folder}. `starlings study init {trial}` makes one, on "
                "the machine of the coordinator."
            )
        path = folder / "authority.pem"
        certificate = from_pem(read_limited(path, MOST_BYTES), str(path))
        key = load_key(folder / "authority.key", encoded(passphrase))
        if key_hash(key.public_key()) != key_hash(certificate.public_key()):
            raise SiteError(f"{path} does not belong to the key beside it; put back a copy of it.")
        return cls(folder, certificate, key, Register.read(folder / "register.json"))

    def save(self) -> None:
        """Write the register."""
        self.register.write(self.folder / "register.json")

    def issue(self, request: Request, now: datetime | None = None) -> Any:
        """A new certificate for a site, which is entered in the register."""
        made = site_certificate(request, self.key, self.certificate, now or now_utc())
        entry = {
            "serial": f"{made.serial_number:x}",
            "key": key_hash(request.public_key),
            "ends": as_text(made.not_valid_after_utc),
            "revoked": False,
        }
        self.register.issued.setdefault(request.site, []).append(entry)
        return made

    def revoke(self, site: str) -> int:
        """Mark all certificates of a site as revoked; how many are newly so."""
        entries = [e for e in self.register.issued.get(site, []) if not e["revoked"]]
        for entry in entries:
            entry["revoked"] = True
        return len(entries)

    def sign(self, content: Table) -> bytes:
        """A document that the authority signs."""
        return sign(content, self.key)


def encoded(passphrase: str) -> bytes:
    """A passphrase as bytes; an empty one is refused."""
    if not passphrase.strip():
        raise SiteError("the passphrase is empty; choose several words that nobody else knows.")
    return passphrase.encode("utf-8")

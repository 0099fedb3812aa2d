"""An approval: the signature of a site under a manifest.

Nothing runs before every site has approved the same manifest. An approval is a signed document with
the hash of the manifest, the name of the site, the time, and the certificate of the site, so that
whoever trusts the authority can check it. Sites show each other their approvals first of all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlings.errors import SiteError
from starlings.sites.certificates import as_pem, check_certificate, from_pem
from starlings.sites.documents import (
    FORMAT,
    as_text,
    as_time,
    check_signature,
    damaged,
    field,
    now_utc,
    sign,
    split,
)
from starlings.sites.keys import key_hash
from starlings.sites.kit import Kit
from starlings.sites.manifest import Manifest

KIND = "approval"
"""What the document calls itself."""
CLOCKS = timedelta(days=1)
"""How far the clocks of two sites may be apart."""


@dataclass(frozen=True)
class Approval:
    """An approval that was checked."""

    site: str
    time: datetime
    key_hash: str
    """The SHA-256 of the public key of the site, with which it signs what it says in a run."""


def make_approval(kit: Kit, now: datetime | None = None) -> bytes:
    """The approval of the manifest of a kit, signed with the private key of its site.

    Args:
        kit: the kit, which must be usable now.
        now: the time; by default that of the clock.
    """
    kit.check_usable(now)
    content = {
        "kind": KIND,
        "format": FORMAT,
        "manifest": kit.manifest.hash,
        "site": kit.site,
        "time": as_text(now or now_utc()),
        "certificate": as_pem(kit.certificate).decode("ascii"),
    }
    return sign(content, kit.key)


def verify_approval(
    approval: bytes,
    manifest: Manifest,
    authority: Any,
    site: str,
    revoked: Collection[int] = (),
    now: datetime | None = None,
) -> Approval:
    """Refuse what is not the approval of this manifest by this site.

    Args:
        approval: the bytes of the document.
        manifest: the manifest that must be approved.
        authority: the certificate of the authority.
        site: the name of the site.
        revoked: serial numbers of certificates that are no longer valid.
        now: the time; by default that of the clock.
    """
    where = f"the approval of {site!r}"
    content, signature = split(approval, KIND, where)
    pem = field(content, "certificate", str, where).encode("utf-8")
    certificate = from_pem(pem, where)
    check_certificate(certificate, authority, site, revoked, where, now)
    check_signature(content, signature, certificate.public_key(), f"{site!r}", where)
    if field(content, "site", str, where) != site:
        raise damaged(where, f"it names the site {content['site'][:80]!r}")
    found = field(content, "manifest", str, where)
    if found != manifest.hash:
        raise SiteError(
            f"{where} is of the manifest {found[:16]} and not of {manifest.hash[:16]} (number "
            f"{manifest.number}). {site!r} has to approve the newest manifest, or this site has an "
            "old one; ask the coordinator for the file TRIAL.manifest."
        )
    time = as_time(content, "time", where)
    if time > (now or now_utc()) + CLOCKS:
        raise SiteError(f"{where} is from {time:%Y-%m-%d %H:%M} UTC, the future. Set the clocks.")
    return Approval(site, time, key_hash(certificate.public_key()))

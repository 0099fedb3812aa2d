"""Keys for masks, signed with the certificates that sites have of their engine.

Masks hide numbers from the hub, and the keys of sites for each other travel through it. So every
site signs its own:

    statement_i = mask key_i, random number_i, certificate_i, signature with its key          (1)
    session     = SHA-256(random number_1, ..., random number_N)                              (2)

and all check that the certificate is one of the engine's authority, for that site. A hub that puts
in keys of its own is found out, unless it has the key of that authority. Without certificates, as
where an engine is tried on one machine, nothing is signed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from starlings.errors import SiteError
from starlings.privacy.keys import KEY_BYTES, SiteKeys
from starlings.runtime.hub.communicator import HubCommunicator
from starlings.runtime.peers import values
from starlings.sites.agreement import check_mask_keys, remembered_time
from starlings.sites.certificates import unreadable, x509
from starlings.sites.keys import primitives

COMMON_NAME = "2.5.4.3"
"""The number of the field of a certificate that has the name."""


class Statement(NamedTuple):
    """What a site says, eq. (1)."""

    site: str
    public: bytes
    number: bytes
    certificate: bytes
    signature: bytes

    @classmethod
    def read(cls, site: str, document: bytes) -> Statement:
        """The statement of a site."""
        found = values.decoded(document)
        is_right = isinstance(found, tuple) and [type(part) for part in found] == 4 * [bytes]
        if not is_right or {len(part) for part in found[:2]} != {KEY_BYTES}:
            raise SiteError(f"the statement of {site} is damaged: its key cannot be read.")
        return cls(site, *found)


@dataclass(frozen=True)
class Identity:
    """Who this site is, as an engine's certificates have it."""

    site: str
    key: Any
    """Its private key, RSA or on an elliptic curve."""
    certificate: bytes
    authority: Any
    """The certificate of who signed all of them."""

    @classmethod
    def of_files(cls, site: str, certificate: Path, key: Path, authority: Path) -> Identity | None:
        """The identity in PEM files; None where there are none."""
        if not certificate.is_file():
            return None
        own = primitives("serialization").load_pem_private_key(key.read_bytes(), None)
        root = x509().load_pem_x509_certificate(authority.read_bytes())
        return cls(site, own, certificate.read_bytes(), root)

    def signature(self, content: bytes) -> bytes:
        """Signed bytes."""
        return self.key.sign(content, *_how(self.key))

    def check(self, statement: Statement, content: bytes, now: datetime) -> None:
        """Refuse what another site did not sign, or with a certificate that does not count."""
        site = statement.site
        try:
            found = x509().load_pem_x509_certificate(statement.certificate)
            found.verify_directly_issued_by(self.authority)
            names = [each.value for each in found.subject if each.oid.dotted_string == COMMON_NAME]
            is_valid = found.not_valid_before_utc <= now <= found.not_valid_after_utc
            if names != [site] or not is_valid:
                raise ValueError(f"its certificate is for {names}, or has ended")
            key = found.public_key()
            key.verify(statement.signature, content, *_how(key))
        except unreadable() as error:
            raise SiteError(
                f"the key for masks of {site} was not signed by {site} ({error or 'wrong'}). "
                "Somebody may have exchanged it on the way: ask who runs the hub."
            ) from None


def _how(key: Any) -> tuple[Any, ...]:
    """Padding and hash of a signature, by the kind of the key."""
    sha = primitives("hashes").SHA256()
    if hasattr(key, "curve"):
        return (primitives("asymmetric.ec").ECDSA(sha),)
    return primitives("asymmetric.padding").PKCS1v15(), sha


def signed_keys(
    job: str, sites: Sequence[str], communicator: HubCommunicator, identity: Identity | None
) -> dict[str, SiteKeys]:
    """The keys of this site, and the public keys of all, by one call.

    Args:
        job: the hash of the job.
        sites: the names of all sites, in order.
        communicator: how this site talks to the others.
        identity: who this site is; None if sites have no certificates.
    """
    own, number = (
        communicator.remembered(lambda: secrets.token_bytes(KEY_BYTES)) for _ in range(2)
    )
    site = sites[communicator.rank]
    private = primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(own)
    public = private.public_key().public_bytes_raw()
    content = _content(job, site, public, number)
    signed = (b"", b"") if identity is None else (identity.certificate, identity.signature(content))
    statement = communicator.remembered(lambda: values.encoded((public, number, *signed)))  # (1)
    documents = communicator.everybody(statement)
    now = remembered_time(communicator)
    found = [Statement.read(name, data) for name, data in zip(sites, documents, strict=True)]
    if identity is not None:
        for each in found:
            identity.check(each, _content(job, each.site, each.public, each.number), now)
    keys = {each.site: each.public for each in found}
    check_mask_keys(private, keys)
    session = hashlib.sha256(b"".join(each.number for each in found)).digest()  # (2)
    return {site: SiteKeys(site, private, keys, session)}


def _content(job: str, site: str, public: bytes, number: bytes) -> bytes:
    """What a site signs."""
    return values.encoded(("starlings keys for masks", job, site, public, number))

"""Requests for certificates and certificates, by X.509, and why one is refused.

The authority is valid for ten years, a site for 90 days. A site has its name in the certificate as
a URN (`site_names`), and may be the client and the server of a link. Certificates begin a day
before they are made, for sites whose clock is slow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.documents import now_utc
from starlings.sites.keys import MOST_BYTES, is_p256, key_hash, primitives, read_limited
from starlings.sites.site_names import name_of_urn, urn_of
from starlings.system.extras import import_extra

AUTHORITY_DAYS, SITE_DAYS = 3653, 90
"""Days for which certificates of authorities and of sites are valid."""
EARLIER = timedelta(days=1)
"""How long before it is made a certificate begins."""


def unreadable() -> tuple[type[Exception], ...]:
    """What reading or checking a damaged certificate raises; a warning, where these are errors."""
    exceptions = import_extra("cryptography.exceptions", "checking certificates", extra="peers")
    of_files = (x509().InvalidVersion, x509().DuplicateExtension, x509().UnsupportedGeneralNameType)
    of_signatures = (exceptions.UnsupportedAlgorithm, exceptions.InvalidSignature)
    return ValueError, TypeError, Warning, *of_files, *of_signatures


def x509() -> Any:
    """The module for certificates."""
    return import_extra("cryptography.x509", "certificates of sites", extra="peers")


def _common_name(text: str) -> Any:
    oid = import_extra("cryptography.x509.oid", "certificates of sites", extra="peers")
    return x509().Name([x509().NameAttribute(oid.NameOID.COMMON_NAME, text[:64])])


def _usage(**wanted: bool) -> Any:
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
        "key_cert_sign crl_sign encipher_only decipher_only"
    )
    return x509().KeyUsage(**{name: wanted.get(name, False) for name in names.split()})


def _draft(subject: str, issuer: Any, public_key: Any, days: int, now: datetime) -> Any:
    """What certificates of authorities and of sites have in common."""
    return (
        x509()
        .CertificateBuilder()
        .subject_name(_common_name(subject))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509().random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509().SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def authority_certificate(key: Any, trial: str, now: datetime | None = None) -> Any:
    """The certificate of a new authority, signed by itself."""
    name = f"starlings {trial}"
    draft = _draft(name, _common_name(name), key.public_key(), AUTHORITY_DAYS, now or now_utc())
    usage = _usage(digital_signature=True, key_cert_sign=True, crl_sign=True)
    draft = draft.add_extension(x509().BasicConstraints(ca=True, path_length=0), critical=True)
    draft = draft.add_extension(usage, critical=True)
    return draft.sign(key, primitives("hashes").SHA256())


def certificate_request(key: Any, site: str) -> bytes:
    """A request for the certificate of a site, in PEM, signed by its own key."""
    draft = x509().CertificateSigningRequestBuilder().subject_name(_common_name(site))
    names = x509().SubjectAlternativeName([x509().UniformResourceIdentifier(urn_of(site))])
    request = draft.add_extension(names, critical=False).sign(key, primitives("hashes").SHA256())
    return request.public_bytes(primitives("serialization").Encoding.PEM)


@dataclass(frozen=True)
class Request:
    """A request whose signature is right: the site, and its public key."""

    site: str
    public_key: Any

    @classmethod
    def read(cls, path: Path) -> Request:
        """Read the file of a request."""
        return cls.parse(read_limited(path, MOST_BYTES), str(path))

    @classmethod
    def parse(cls, data: bytes, where: str) -> Request:
        """A request in PEM; `where` is the file that errors name."""
        try:
            request = x509().load_pem_x509_csr(data)
            site = _site_of(request, where)
            is_right = request.is_signature_valid and is_p256(request.public_key())
        except unreadable():
            is_right = False
        if not is_right:
            raise SiteError(
                f"{where} is not a request for the certificate of a site, or is damaged. The site "
                "makes one with `starlings site request`."
            )
        return cls(site, request.public_key())


def site_certificate(
    request: Request, key: Any, authority: Any, now: datetime | None = None, days: int = SITE_DAYS
) -> Any:
    """The certificate of a site.

    Args:
        request: the request of the site.
        key: the private key of the authority.
        authority: the certificate of the authority.
        now: the time; by default that of the clock.
        days: for how many days it is valid.
    """
    oid = import_extra("cryptography.x509.oid", "certificates of sites", extra="peers")
    draft = _draft(request.site, authority.subject, request.public_key, days, now or now_utc())
    either = [oid.ExtendedKeyUsageOID.CLIENT_AUTH, oid.ExtendedKeyUsageOID.SERVER_AUTH]
    names = [x509().UniformResourceIdentifier(urn_of(request.site))]
    issuer = x509().AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    extensions = [
        (x509().BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509().ExtendedKeyUsage(either), False),
        (x509().SubjectAlternativeName(names), False),
        (issuer, False),
    ]
    for extension, is_critical in extensions:
        draft = draft.add_extension(extension, critical=is_critical)
    return draft.sign(key, primitives("hashes").SHA256())


def as_pem(certificate: Any) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(primitives("serialization").Encoding.PEM)


def from_pem(data: bytes, where: str) -> Any:
    """The one certificate in a text, in the one way in which it can be written."""
    try:
        found = x509().load_pem_x509_certificate(data)
        is_right = is_p256(found.public_key()) and as_pem(found) == data and _is_whole(found)
    except unreadable():
        is_right = False
    if not is_right:
        raise SiteError(f"{where} is not one certificate on P-256, or is damaged; get it again.")
    return found


def _is_whole(certificate: Any) -> bool:
    """Whether the signature, a string of bits, says that it leaves none of its last bits out.

    The signature does not cover this number, and zero bits can be left out unnoticed.
    """
    whole = certificate.public_bytes(primitives("serialization").Encoding.DER)
    return whole.endswith(b"\0" + certificate.signature)


def _site_of(certificate: Any, where: str) -> str:
    """The site that a certificate or a request names."""
    try:
        kind = x509().SubjectAlternativeName
        names = certificate.extensions.get_extension_for_class(kind).value
        uris = names.get_values_for_type(x509().UniformResourceIdentifier)
    except (*unreadable(), x509().ExtensionNotFound):
        names, uris = [], []
    if len(uris) != 1 or len(list(names)) != 1:
        raise SiteError(f"{where} does not name exactly one site; ask for a new one.")
    return name_of_urn(uris[0], where)


def site_of(certificate: Any, where: str) -> str:
    """The site whose certificate this is."""
    return _site_of(certificate, where)


def check_chain(certificate: Any, authority: Any, where: str) -> None:
    """Refuse a certificate of a site that the authority has not issued."""
    of_site = _is_authority(authority) and not _is_authority(certificate)
    if not of_site or not _is_issued_by(certificate, authority):
        raise SiteError(
            f"{where}: the certificate was not issued to a site by the authority of this trial. "
            "Ask the coordinator which kit is the right one."
        )


def check_authority(authority: Any, where: str) -> None:
    """Refuse what is not the certificate of an authority, signed by itself."""
    if not _is_issued_by(authority, authority) or not _is_authority(authority):
        raise SiteError(
            f"{where} is not the certificate of an authority, or was changed. Ask the coordinator "
            "for it."
        )


def _is_issued_by(certificate: Any, authority: Any) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except unreadable():
        return False
    return True


def _is_authority(certificate: Any) -> bool:
    try:
        kind = x509().BasicConstraints
        return bool(certificate.extensions.get_extension_for_class(kind).value.ca)
    except (*unreadable(), x509().ExtensionNotFound):
        return False


def check_dates(certificate: Any, where: str, now: datetime | None = None) -> None:
    """Refuse a certificate that is not yet or no longer valid."""
    time = now or now_utc()
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if time < begins:
        raise SiteError(
            f"{where}: the certificate is valid from {begins:%Y-%m-%d %H:%M} UTC, and the clock of "
            f"this machine says {time:%Y-%m-%d %H:%M}. Set the clock."
        )
    if time > ends:
        raise SiteError(
            f"{where}: the certificate was valid until {ends:%Y-%m-%d %H:%M} UTC. Send the request "
            "file again to the coordinator, who makes a new kit with `--renew`."
        )


def check_not_revoked(certificate: Any, revoked: Collection[int], where: str) -> None:
    """Refuse a certificate whose serial number is on the list."""
    if certificate.serial_number in revoked:
        raise SiteError(
            f"{where}: the certificate was revoked. Ask the coordinator why, and for a new one."
        )


def check_certificate(
    certificate: Any,
    authority: Any,
    site: str,
    revoked: Collection[int],
    where: str,
    now: datetime | None = None,
) -> None:
    """Refuse a certificate that is not a valid one of this site.

    Args:
        certificate: the certificate of a site.
        authority: the certificate of the authority.
        site: the name that it must have.
        revoked: serial numbers that are no longer valid.
        where: the file or message that it comes from, for errors.
        now: the time; by default that of the clock.
    """
    check_chain(certificate, authority, where)
    found = site_of(certificate, where)
    if found != site:
        raise SiteError(f"{where}: the certificate is that of {found!r} and not of {site!r}.")
    check_not_revoked(certificate, revoked, where)
    check_dates(certificate, where, now)


def same_key(certificate: Any, public_key: Any) -> bool:
    """Whether a certificate is for this public key."""
    return key_hash(certificate.public_key()) == key_hash(public_key)

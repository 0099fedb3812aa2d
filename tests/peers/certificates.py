"""Certificates for tests: an authority, and sites with every fault that a certificate can have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from starlings.runtime.peers.tls import Identity, site_uri

DAY = timedelta(days=1)
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""What the key of an authority is for; Python 3.13 refuses one that does not say so."""


class Authority:
    """An authority of a study, with the files of its sites in a folder of its own."""

    def __init__(self, folder: Path, name: str = "study") -> None:
        self.folder, self.name = folder / name, name
        self.folder.mkdir(parents=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.path = self.folder / "authority.pem"
        subject = self._subject(name)
        draft = self._draft(subject, self.key, (-DAY, 365 * DAY))
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        draft = draft.add_extension(SIGNS_CERTIFICATES, critical=True)
        self._write(self.path, draft.sign(self.key, hashes.SHA256()))

    def site(
        self,
        name: str,
        *,
        valid: tuple[timedelta, timedelta] = (-DAY, 90 * DAY),
        names: list[x509.GeneralName] | None = None,
        purposes: tuple[Any, ...] = BOTH,
        revoked: frozenset[int] = frozenset(),
        authority: Path | None = None,
    ) -> Identity:
        """A site with a new key; without faults, unless asked for."""
        key = ec.generate_private_key(ec.SECP256R1())
        if names is None:
            names = [x509.UniformResourceIdentifier(site_uri(name))]
        draft = self._draft(self._subject(name), key, valid)
        draft = draft.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if names:
            draft = draft.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate, secret = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        self._write(certificate, draft.sign(self.key, hashes.SHA256()))
        form = serialization.PrivateFormat.PKCS8
        encoding, without = serialization.Encoding.PEM, serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(encoding, form, without))
        return Identity(name, certificate, secret, authority or self.path, revoked)

    def _draft(self, subject: x509.Name, key: Any, valid: tuple[timedelta, timedelta]) -> Any:
        now = datetime.now(UTC)
        draft = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(self._subject(self.name))
        )
        draft = draft.public_key(key.public_key()).serial_number(x509.random_serial_number())
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        draft = draft.add_extension(own, critical=False).add_extension(above, critical=False)
        return draft.not_valid_before(now + valid[0]).not_valid_after(now + valid[1])

    @staticmethod
    def _subject(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    @staticmethod
    def _write(path: Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def serial_number(identity: Identity) -> int:
    """The serial number of the certificate of a site."""
    return x509.load_pem_x509_certificate(identity.certificate.read_bytes()).serial_number

"""Certificates as an engine makes them, for sites of tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from starlings.engines.identity import Identity

NOW = datetime.now(UTC)


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(subject, public, issuer, key, days=30, is_authority=False):
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=60))
        .not_valid_after(NOW + timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .sign(key, hashes.SHA256())
    )


ROOT_KEY = ec.generate_private_key(ec.SECP256R1())
ROOT = certificate("root", ROOT_KEY.public_key(), "root", ROOT_KEY, is_authority=True)


def identity(site: str, subject: str | None = None, days: int = 30, root_key=ROOT_KEY) -> Identity:
    """Who a site is: Ashby with an RSA key, as FLARE makes them, and the others on a curve."""
    key = (
        rsa.generate_private_key(65537, 2048)
        if site == "Ashby"
        else ec.generate_private_key(ec.SECP256R1())
    )
    made = certificate(subject or site, key.public_key(), "root", root_key, days)
    return Identity(site, key, made.public_bytes(serialization.Encoding.PEM), ROOT)

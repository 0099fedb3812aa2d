"""Private keys in files that only their owner can read, and fingerprints of public keys.

Keys are on the curve P-256. A fingerprint is the first 128 bits of the SHA-256 of a public key, as
eight groups of four hexadecimal digits, so that two people can compare it by telephone.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.system.extras import import_extra

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Permissions of what only its owner may read."""
DIGITS, GROUP = 32, 4
"""Hexadecimal digits of a fingerprint, and of each of its groups."""
MOST_BYTES = 100_000
"""Bytes of a file with a key, a request or a certificate, at most."""


def primitives(name: str) -> Any:
    """A module of `cryptography.hazmat.primitives`."""
    module = f"cryptography.hazmat.primitives.{name}"
    return import_extra(module, "keys and certificates of sites", extra="peers")


def new_key() -> Any:
    """A new private key on P-256."""
    ec = primitives("asymmetric.ec")
    return ec.generate_private_key(ec.SECP256R1())


def public_bytes(public_key: Any) -> bytes:
    """A public key as the bytes (DER, SubjectPublicKeyInfo) that its fingerprint is of."""
    serialization = primitives("serialization")
    return public_key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def key_hash(public_key: Any) -> str:
    """The SHA-256 of a public key, in hexadecimal digits."""
    hashes = primitives("hashes")
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public_bytes(public_key))
    return digest.finalize().hex()


def fingerprint(public_key: Any) -> str:
    """The fingerprint of a public key, such as 3f2a 91bc 07de 5a10 66f1 0b9c e2d4 8a57."""
    return grouped(key_hash(public_key))


def grouped(digits: str) -> str:
    """The first digits of a hash, in groups.

    >>> grouped("0123456789abcdef" * 4)
    '0123 4567 89ab cdef 0123 4567 89ab cdef'
    """
    return " ".join(digits[start : start + GROUP] for start in range(0, DIGITS, GROUP))


def is_p256(public_key: Any) -> bool:
    """Whether a public key is on the curve P-256."""
    ec = primitives("asymmetric.ec")
    is_curve = isinstance(public_key, ec.EllipticCurvePublicKey)
    return is_curve and public_key.curve.name == "secp256r1"


def save_key(path: Path, key: Any, passphrase: bytes | None = None) -> None:
    """Write a private key to a new file that only its owner can read.

    Args:
        path: the file, which must not exist.
        key: the private key.
        passphrase: encrypts it; None leaves it in the clear.
    """
    serialization = primitives("serialization")
    encryption = (
        serialization.NoEncryption()
        if passphrase is None
        else serialization.BestAvailableEncryption(passphrase)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    write_private(path, private, replace=False)


def load_key(path: Path, passphrase: bytes | None = None) -> Any:
    """Read a private key; a wrong passphrase is an error."""
    serialization = primitives("serialization")
    data = read_limited(path, MOST_BYTES)
    try:
        key = serialization.load_pem_private_key(data, passphrase)
    except TypeError:
        raise SiteError(
            f"{path} is encrypted, or is not and should be. Give the passphrase that it was made "
            "with, or put back the file that starlings wrote."
        ) from None
    except ValueError:
        remedy = "it is damaged; put back a copy of it"
        if passphrase is not None:
            remedy = "the passphrase is wrong, or the file is damaged; type the passphrase again"
        raise SiteError(f"{path} cannot be opened: {remedy}.") from None
    if not is_p256(key.public_key()):
        raise SiteError(f"{path} has no key on the curve P-256; put back the one it had.")
    return key


def write_private(path: Path, data: bytes, replace: bool = True) -> None:
    """Write a file that only its owner can read, completely or not at all.

    Args:
        path: the file.
        data: its contents.
        replace: whether a file that exists may be replaced.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(partial, flags, PRIVATE_FILE), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not replace and path.exists():
            raise SiteError(f"{path} exists and is not replaced. Move it away if it is not needed.")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can read, if it does not exist."""
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return path


def read_limited(path: Path, most: int) -> bytes:
    """The contents of a plain file; one that is missing or too long is an error."""
    if not path.is_file():
        raise SiteError(f"there is no file {path}; check the name and the folder.")
    with path.open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise SiteError(f"{path} is longer than {most:,} bytes, so it is not what it should be.")
    return data


def is_private(path: Path) -> bool:
    """Whether nobody but its owner can read a file; true on systems without such permissions."""
    return os.name != "posix" or not stat.S_IMODE(path.stat().st_mode) & 0o077

"""A secret key for every pair of sites, which no third one can compute.

Every site has a private key of its own (X25519), which never leaves it, and a public key that all
others know. Two sites i and j compute the same secret from their own private and the other's public
key, and derive from it, by HKDF with SHA-256, the key of this pair in this session:

    key_ij = HKDF(X25519(private_i, public_j), info = session, purpose, names of i and j)     (1)

with the names in order, and a purpose for each kind of sum, so that no two of them share a key. A
session is one start of a run, for which every site makes a new key:

    session = SHA-256(public_1, ..., public_N)                                                (2)

so that no key, and with it no mask, is used again after a restart.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from starlings.network.communicator import Communicator
from starlings.system.extras import import_extra

KEY_BYTES = 32
"""Bytes of a public key, of a pair's key, and of the random number of a session."""


@dataclass(frozen=True)
class SiteKeys:
    """What one site knows: its own private key, and the public keys of all sites."""

    site: str
    private: Any
    """An X25519 private key of the package `cryptography`."""
    public: Mapping[str, bytes]
    """The public keys by site."""
    session: bytes

    def pair_key(self, other: str, purpose: str) -> bytes:
        """The key of the pair of this site and another one for one purpose, eq. (1)."""
        x25519, hkdf, hashes = _modules()
        shared = self.private.exchange(x25519.X25519PublicKey.from_public_bytes(self.public[other]))
        first, second = sorted((self.site.encode(), other.encode()))
        parts = (b"starlings", self.session, purpose.encode(), first, second)
        info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hkdf.HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=info).derive(shared)  # (1)


def agreed_keys(
    sites: Sequence[str], local: Sequence[str], communicator: Communicator
) -> dict[str, SiteKeys]:
    """New keys of the local sites, and the public keys of all, by one sum over the processes.

    Args:
        sites: the names of all sites.
        local: the names of the sites of this process.
        communicator: how this process talks to the others.
    """
    x25519, _, _ = _modules()
    made = (communicator.remembered(lambda: secrets.token_bytes(KEY_BYTES)) for _ in local)
    private = {
        site: x25519.X25519PrivateKey.from_private_bytes(own)
        for site, own in zip(local, made, strict=True)
    }
    announced = np.zeros((len(sites), KEY_BYTES))
    for site, key in private.items():
        announced[sites.index(site)] = list(key.public_key().public_bytes_raw())
    table = communicator.sum(announced).astype(np.uint8)
    public = {site: bytes(row) for site, row in zip(sites, table, strict=True)}
    session = hashlib.sha256(table.tobytes()).digest()  # (2)
    return {site: SiteKeys(site, key, public, session) for site, key in private.items()}


def _modules() -> tuple[Any, Any, Any]:
    """The modules for X25519, HKDF and hashes of the package `cryptography`."""
    place = "cryptography.hazmat.primitives"
    names = ("asymmetric.x25519", "kdf.hkdf", "hashes")
    found = [import_extra(f"{place}.{name}", "a masked sum", extra="privacy") for name in names]
    return found[0], found[1], found[2]

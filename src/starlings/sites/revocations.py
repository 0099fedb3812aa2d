"""The list of certificates that are no longer valid: small, signed, with a number that only rises.

It is published beside the kits as revoked.list and may be sent around freely. A site that has seen
a list takes no older one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlings.sites.authority import Authority
from starlings.sites.documents import (
    FORMAT,
    as_text,
    damaged,
    field,
    now_utc,
    texts,
    verified_by_authority,
)

FILE = "revoked.list"
"""The name of the file."""
KIND = "revocations"
"""What the document calls itself."""


@dataclass(frozen=True)
class Revocations:
    """The list with the number `number`."""

    number: int
    serials: frozenset[int]
    """Serial numbers of certificates."""
    document: bytes
    """The list as the authority signed it."""

    @classmethod
    def make(cls, authority: Authority) -> Revocations:
        """The list of what is revoked in the register of an authority."""
        register = authority.register
        content = {
            "kind": KIND,
            "format": FORMAT,
            "number": register.revocations,
            "serials": [f"{serial:x}" for serial in register.revoked],
            "time": as_text(now_utc()),
        }
        return cls.parse(authority.sign(content), authority.certificate, FILE)

    @classmethod
    def parse(cls, document: bytes, authority: Any, where: str) -> Revocations:
        """A list that an authority signed.

        Args:
            document: the bytes of the file.
            authority: the certificate of the authority.
            where: the file, for errors.
        """
        content = verified_by_authority(document, KIND, authority, where)
        try:
            serials = frozenset(int(text, 16) for text in texts(content, "serials", where))
        except ValueError:
            raise damaged(where, "a serial number is not hexadecimal") from None
        return cls(field(content, "number", int, where), serials, document)

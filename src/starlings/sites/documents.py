"""JSON with one spelling only, and signed documents.

Everything that sites sign or store is JSON in UTF-8 with sorted keys and no white space. A text
that Python would write differently is refused: then equal contents are equal bytes, and a key
cannot stand in it twice. Nothing in it is turned into an object of a class by name.

A signed document is two lines. The first is JSON; the second is the signature in base64. Signed are

    "starlings", a space, the kind of the document, a line break, the first line            (1)

by ECDSA on P-256 with SHA-256, so that a document of one kind cannot stand for one of another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlings.errors import SiteError
from starlings.system.extras import import_extra

MOST_BYTES = 1_000_000
"""Bytes of a document, at most."""
DEEPEST = 12
"""Levels of lists and tables inside each other, at most."""
FORMAT = 1
"""The number of the layout of all documents; a newer one is refused."""
TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How times are written, in UTC."""
TYPES = {
    dict: "a table",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
"""What errors call the types of JSON."""

Table = dict[str, Any]
"""A JSON object."""


def canonical(content: Any) -> bytes:
    """The only spelling of a JSON value.

    >>> canonical({"b": 1, "a": [0.1, "é"]}).decode()
    '{"a":[0.1,"é"],"b":1}'
    """
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def parsed(data: bytes, where: str) -> Table:
    """The table that some bytes spell, in the only spelling.

    Args:
        data: the bytes.
        where: the file or the message that they come from, for errors.
    """
    if len(data) > MOST_BYTES:
        raise damaged(where, f"it has {len(data):,} bytes, and {MOST_BYTES:,} are allowed")
    if _depth(data) > DEEPEST:
        raise damaged(where, f"it has more than {DEEPEST} levels")
    try:
        content = json.loads(data.decode("utf-8"))
        is_canonical = isinstance(content, dict) and canonical(content) == data
    except (ValueError, RecursionError):
        is_canonical = False
    if not is_canonical:
        raise damaged(where, "it is not JSON as starlings writes it")
    return content


def _depth(data: bytes) -> int:
    """An upper bound of the levels of a JSON text, without parsing it."""
    depth = deepest = 0
    for byte in data:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def damaged(where: str, fault: str) -> SiteError:
    """The error for a file that cannot be used."""
    return SiteError(f"{where} cannot be used: {fault}. Ask who sent it to send it again.")


def field(table: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """The value of a key, of the right type."""
    value = table.get(name)
    allowed = (int, float) if kind is float else (kind,)
    if type(value) not in allowed:
        raise damaged(where, f"`{name}` must be {TYPES[kind]}")
    return value


def texts(table: Mapping[str, Any], name: str, where: str) -> list[str]:
    """The value of a key that is a list of texts."""
    values = field(table, name, list, where)
    if not all(type(value) is str for value in values):
        raise damaged(where, f"`{name}` must be a list of texts")
    return values


def check_kind(table: Mapping[str, Any], kind: str, where: str) -> None:
    """Refuse a document of another kind, or of a newer version of starlings."""
    if table.get("kind") != kind:
        raise damaged(where, f"it is not a document of the kind {kind!r}")
    number = field(table, "format", int, where)
    if number != FORMAT:
        raise SiteError(
            f"{where} has the format {number}, and this version of starlings reads {FORMAT}. "
            "Install the version that the coordinator has."
        )


def sha256(data: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sign(content: Mapping[str, Any], key: Any) -> bytes:
    """A signed document.

    Args:
        content: a table with `kind` and `format`.
        key: a private key on P-256.
    """
    ec, hashes = _modules()
    body = canonical(dict(content))
    signature = key.sign(_signed_bytes(content["kind"], body), ec.ECDSA(hashes.SHA256()))
    return body + b"\n" + base64.b64encode(signature) + b"\n"


def split(document: bytes, kind: str, where: str) -> tuple[Table, bytes]:
    """The table of a signed document and its signature, which is not checked yet."""
    lines = document[: MOST_BYTES + 1].split(b"\n")
    if len(document) > MOST_BYTES or len(lines) != 3 or lines[2] != b"":
        raise damaged(where, "it is not a table and a signature")
    content = parsed(lines[0], where)
    check_kind(content, kind, where)
    try:
        signature = base64.b64decode(lines[1], validate=True)
    except binascii.Error:
        signature = b""
    if base64.b64encode(signature) != lines[1]:
        raise damaged(where, "its signature is not base64")
    return content, signature


def verified(document: bytes, kind: str, public_key: Any, signer: str, where: str) -> Table:
    """The table of a signed document; a wrong signature is an error.

    Args:
        document: the bytes of the document.
        kind: the kind that it must have.
        public_key: a public key on P-256.
        signer: whose key that is, for the error.
        where: the file or message that the document comes from.
    """
    content, signature = split(document, kind, where)
    check_signature(content, signature, public_key, signer, where)
    return content


def verified_by_authority(document: bytes, kind: str, authority: Any, where: str) -> Table:
    """The same for a document that an authority signed, given by its certificate."""
    return verified(document, kind, authority.public_key(), "the authority of this trial", where)


def check_signature(
    content: Table, signature: bytes, public_key: Any, signer: str, where: str
) -> None:
    """Refuse a signature that is not that of this table by this key."""
    ec, hashes = _modules()
    exceptions = import_extra("cryptography.exceptions", "checking a signature", extra="peers")
    data = _signed_bytes(content["kind"], canonical(content))
    try:
        public_key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except exceptions.InvalidSignature:
        raise SiteError(
            f"{where} is not signed by {signer}, or was changed afterwards. Do not use it; ask who "
            "sent it, by telephone."
        ) from None


def _signed_bytes(kind: str, body: bytes) -> bytes:
    return b"starlings " + kind.encode() + b"\n" + body  # (1)


def _modules() -> tuple[Any, Any]:
    place, purpose = "cryptography.hazmat.primitives", "signing and checking documents"
    found = [
        import_extra(f"{place}.{name}", purpose, extra="peers")
        for name in ("asymmetric.ec", "hashes")
    ]
    return found[0], found[1]


def now_utc() -> datetime:
    """The time by the clock of this machine, in UTC."""
    return datetime.now(UTC)


def as_text(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.astimezone(UTC).strftime(TIME)


def as_time(table: Mapping[str, Any], name: str, where: str) -> datetime:
    """The value of a key that is a time."""
    text = field(table, name, str, where)
    try:
        return datetime.strptime(text, TIME).replace(tzinfo=UTC)
    except ValueError:
        raise damaged(where, f"`{name}` must be a time such as 2026-01-31T12:00:00Z") from None

"""How a neighbour can be reached: through a relay, or directly.

Two sites meet at a relay under a name that only they (and the other sites of the study) can know:

    HMAC-SHA256(secret of the study, the two names in order)                                  (1)

and each says which of the two it is: 0 for the name that sorts first, 1 for the other.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

SECRET_BYTES = 16
"""Bytes of the secret of a study, at least."""


@dataclass(frozen=True)
class RelayWay:
    """Through a relay, to which both sites connect."""

    url: str
    """The address of the relay, such as "wss://relay.example.org"."""
    secret: bytes = field(repr=False)
    """The secret of the study, from which sites derive where they meet."""
    proxy: str | None = None
    """The address of an HTTP proxy, such as "http://proxy:3128"; None takes that of the
    environment (HTTPS_PROXY), and "" none."""
    authority: Path | None = None
    """Authorities that may have signed the relay's own certificate (PEM); by default those that the
    machine trusts."""
    allow_plain: bool = False
    """Whether the way to the relay may be without TLS; what sites tell each other never is."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise ValueError(f"`url` must be wss:// and the name of a relay, got {self.url!r}.")
        if parts.scheme == "ws" and not (self.allow_plain or _is_loopback(parts.hostname)):
            raise ValueError(
                f"`url` must begin with wss://, got {self.url!r}. With `allow_plain` anybody on "
                "the way can see which sites meet, though not what they say."
            )
        if len(self.secret) < SECRET_BYTES:
            raise ValueError(
                f"`secret` must have at least {SECRET_BYTES} bytes, got {len(self.secret)}."
            )

    @property
    def is_local(self) -> bool:
        """Whether the relay is on this machine."""
        return _is_loopback(urlsplit(self.url).hostname or "")

    def __str__(self) -> str:
        return f"the relay {urlsplit(self.url).netloc}"


@dataclass(frozen=True)
class DirectWay:
    """Over TCP, without anybody between the two sites."""

    listens: tuple[str, int] | None = None
    """The address and port where this site waits for the neighbour; None if it does not."""
    connects: tuple[str, int] | None = None
    """The address and port of the neighbour; None if it connects to this site."""

    def __post_init__(self) -> None:
        if self.listens is None and self.connects is None:
            raise ValueError("`listens` or `connects` must be given; both are None.")

    def __str__(self) -> str:
        host, port = self.connects or self.listens or ("", 0)
        return f"{host}:{port} directly"


Way = RelayWay | DirectWay


def rendezvous(secret: bytes, me: str, neighbour: str) -> str:
    """Where two sites meet at a relay, as the path of its address, eq. (1).

    >>> rendezvous(bytes(32), "Ashby", "Brook")[:9], rendezvous(bytes(32), "Brook", "Ashby")[-2:]
    ('/63ee4568', '/1')
    """
    first, second = sorted((me.encode(), neighbour.encode()))
    text = b"".join(len(part).to_bytes(4, "big") + part for part in (b"meet", first, second))
    token = hmac.new(secret, text, hashlib.sha256).hexdigest()  # (1)
    return f"/{token}/{int(me.encode() != first)}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

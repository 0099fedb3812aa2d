"""Who is at the other end, and secrecy: mutual TLS 1.3 between two sites, without sockets.

Bytes from the network go in by `feed`, bytes for the network come out by `outgoing`, so it does not
matter what is between the sites: a relay that alters a bit only ends the connection. Both ends show
a certificate of the study's own authority, the only one that is trusted. The name of the site is in
it as a URI, urn:starlings:site:NAME, percent-encoded.

TLS lets the end that opened the connection send before the other end has looked at its certificate.
So both ends say in one byte, inside TLS, whether they accept the other, and nothing else is
sent or read before both have.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from starlings.errors import PeerRefusedError, ProtocolError, SiteError
from starlings.runtime.peers import refusals

URN = "urn:starlings:site:"
"""What stands before the percent-encoded name of a site in its certificate."""
RECORD_BYTES = 16_384
"""Plain bytes of a record of TLS, at most."""
HANDSHAKE_BYTES = 65_536
"""Bytes that are taken before the other end is verified, at most."""
ACCEPTED, OTHER_NAME, REVOKED = b"\1", b"\2", b"\3"
"""What an end says when it has looked at the certificate of the other."""

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class Identity:
    """Who a site is, as files of its kit."""

    name: str
    """The name of the site."""
    certificate: Path
    """Its certificate, signed by the authority of the study (PEM)."""
    key: Path
    """The private key of this certificate (PEM)."""
    authority: Path
    """The certificate of the authority (PEM)."""
    revoked: frozenset[int] = frozenset()
    """Serial numbers of certificates that are accepted no longer."""


def site_uri(name: str) -> str:
    """The name of a site as it stands in its certificate.

    >>> site_uri("St Mary")
    'urn:starlings:site:St%20Mary'
    """
    return URN + quote(name, safe="")


class SecureChannel:
    """One end of a connection between two sites. An error ends it."""

    def __init__(self, me: Identity, neighbours: Collection[str], *, is_server: bool) -> None:
        """Make one end.

        Args:
            me: this site.
            neighbours: the sites of which one is expected at the other end.
            is_server: whether this end is the server of TLS; the other is the client.
        """
        self.me, self.neighbours = me, frozenset(neighbours)
        self.neighbour: str | None = None
        """The site at the other end, when it is known for certain."""
        self.is_open = False
        """Whether both ends have accepted each other."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = _context(me, is_server)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._fed = 0

    @property
    def expected(self) -> str:
        """Who is at the other end, as far as it is known, for messages to people."""
        return self.neighbour or " or ".join(sorted(self.neighbours)) or "a neighbour"

    def feed(self, data: bytes) -> None:
        """Take bytes that came from the network."""
        self._fed += len(data)
        if not self.is_open and self._fed > HANDSHAKE_BYTES:
            raise ProtocolError(f"{self.expected} sent too much before it said who it is.")
        self._incoming.write(data)

    def outgoing(self) -> bytes:
        """The bytes that are to be sent to the network now; also after an error, which they say."""
        return self._outgoing.read()

    def go_on(self) -> bool:
        """Go on with the handshake, and return whether it is over.

        Raises:
            PeerRefusedError: one end does not accept the other.
            ProtocolError: what came does not belong here.
        """
        if self.neighbour is None:
            if self._calling(self._handshake) is None:
                return False
            self._check_peer()
        if not self.is_open:
            verdict = self._calling(lambda: self._tls.read(1))
            if verdict is None:
                return False
            self._check_verdict(verdict)
            self.is_open = True
        return True

    def encrypted(self, data: bytes | bytearray | memoryview) -> bytes:
        """Plain bytes as bytes for the network."""
        self._check_open()
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view[:RECORD_BYTES]) :]
        return self._outgoing.read()

    def decrypted(self) -> bytes | None:
        """Some plain bytes of what was fed, b"" at the end of the connection, None if none yet."""
        self._check_open()
        return self._calling(lambda: self._tls.read(RECORD_BYTES))

    def _check_open(self) -> None:
        if not self.is_open:
            raise RuntimeError("nothing is sent or read before both ends have accepted each other.")

    def _handshake(self) -> bool:
        self._tls.do_handshake()
        return True

    def _calling(self, function: Callable[[], Returned]) -> Returned | None:
        """Call a function of TLS; None if it needs more bytes from the network."""
        try:
            return function()
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            raise ConnectionError(f"{self.expected} closed the connection.") from None
        except ssl.SSLCertVerificationError as error:
            text = refusals.of_certificate(error, self.me.name, self.expected)
            raise PeerRefusedError(text) from None
        except ssl.SSLError as error:
            raise self._fault(error.reason or str(error)) from None

    def _fault(self, reason: str) -> Exception:
        """The error for a fault of TLS with the name that OpenSSL has for it."""
        if "DID_NOT_RETURN_A_CERTIFICATE" in reason:
            return PeerRefusedError(refusals.no_certificate(self.me.name, self.expected))
        refused = refusals.of_alert(reason, self.me.name, self.expected)
        if refused is not None:
            return PeerRefusedError(refused)
        return ProtocolError(
            f"what came from {self.expected} was altered on the way, or is no TLS 1.3 ({reason})."
        )

    def _check_peer(self) -> None:
        """Check who is at the other end, and tell it."""
        certificate: Any = self._tls.getpeercert() or {}
        found, serial = _names(certificate), int(certificate.get("serialNumber", "0"), 16)
        known = self.neighbours.intersection(found)
        if len(found) != 1 or not known:
            self._tls.write(OTHER_NAME)
            other = " and ".join(found) or "a certificate without the name of a site"
            raise PeerRefusedError(refusals.of_name(self.me.name, self.expected, other))
        if serial in self.me.revoked:
            self._tls.write(REVOKED)
            raise PeerRefusedError(refusals.of_revoked(self.me.name, found[0], serial))
        self._tls.write(ACCEPTED)
        self.neighbour = found[0]

    def _check_verdict(self, verdict: bytes) -> None:
        """Check what the other end said of our certificate."""
        if verdict == ACCEPTED:
            return
        faults = {
            OTHER_NAME: f"is of another site than {self.expected} expected",
            REVOKED: "was revoked",
        }
        if verdict in faults:
            text = refusals.by_other(self.me.name, self.expected, faults[verdict])
            raise PeerRefusedError(text)
        if verdict:
            raise ProtocolError(f"{self.expected} did not say whether it accepts {self.me.name}.")
        raise ConnectionError(f"{self.expected} closed the connection.")


def _context(me: Identity, is_server: bool) -> ssl.SSLContext:
    """Settings of TLS. Files are read again for each connection: a kit may have been renewed."""
    protocol = ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(protocol)
    context.check_hostname = False  # names of sites are checked by `_check_peer`
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if is_server:
        context.num_tickets = 0  # every connection shows certificates
    try:
        context.load_verify_locations(me.authority)
        context.load_cert_chain(me.certificate, me.key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SiteError(
            f"the kit of {me.name} cannot be used: {me.certificate}, its key {me.key} and the "
            f"authority {me.authority} must be there and belong together ({error})."
        ) from None
    return context


def _no_password() -> str:
    """Do not ask at the terminal for the password of a key that has one."""
    raise ValueError("the key is protected by a password")


def _names(certificate: dict[str, Any]) -> list[str]:
    """The names of sites in a certificate that was verified, each written in its one way."""
    texts = [text for kind, text in certificate.get("subjectAltName", ()) if kind == "URI"]
    names = [unquote(text.removeprefix(URN)) for text in texts if text.startswith(URN)]
    return [name for name in names if site_uri(name) in texts]

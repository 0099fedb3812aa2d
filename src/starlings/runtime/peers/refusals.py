"""What an administrator reads where one site does not accept another: who, what, and what to do."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

EXPIRED, NOT_YET_VALID, PURPOSE = 10, 9, 26
FOREIGN = (2, 7, 18, 19, 20, 21)
"""What OpenSSL calls the faults of a certificate (X509_V_ERR_...); the last: of no known issuer."""

ALERTS = {
    "CERTIFICATE_EXPIRED": "has expired",
    "UNKNOWN_CA": "is not of the authority of the study that {other} takes part in",
    "BAD_CERTIFICATE": "is not valid yet, or is damaged",
    "UNSUPPORTED_CERTIFICATE": "is not for connections between sites",
    "CERTIFICATE_REVOKED": "was revoked",
    "CERTIFICATE_REQUIRED": "is missing",
    "CERTIFICATE_UNKNOWN": "cannot be used",
    "DECRYPT_ERROR": "does not fit its key",
}
"""Faults of our certificate by the part of TLS's alert that names them."""


def of_certificate(error: ssl.SSLCertVerificationError, me: str, other: str) -> str:
    """Say why the certificate that the other end showed is not accepted."""
    code, now = error.verify_code, datetime.now(UTC)
    clock = f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC"
    if code == EXPIRED:
        fault, remedy = "has expired", f"{other} needs a new one from the coordinator; {clock}"
    elif code == NOT_YET_VALID:
        fault, remedy = "is not valid yet", f"{clock}: if that is wrong, set it right"
    elif code in FOREIGN:
        fault = "is not of the authority of this study"
        remedy = f"either {other} uses the kit of another study, or somebody else answers there"
    elif code == PURPOSE:
        fault, remedy = "is not for connections between sites", f"{other} needs a new kit"
    else:
        fault, remedy = f"cannot be used ({error.verify_message})", f"{other} needs a new kit"
    return f"{me} does not accept {other}: the certificate {fault}. To do: {remedy}."


def of_alert(reason: str, me: str, other: str) -> str | None:
    """Say why the other end does not accept our certificate, or None if that is not the matter."""
    if "ALERT" not in reason:
        return None
    fault = next((text for part, text in ALERTS.items() if part in reason), None)
    return None if fault is None else by_other(me, other, fault.format(other=other))


def by_other(me: str, other: str, fault: str) -> str:
    """Say that the other end does not accept our certificate."""
    return (
        f"{other} does not accept {me}: the certificate of {me} {fault}. To do: ask the "
        f"coordinator for a new kit, and look at the clocks of both machines."
    )


def no_certificate(me: str, other: str) -> str:
    """Say that the other end showed no certificate."""
    return f"{me} does not accept {other}: it showed no certificate. To do: {other} needs its kit."


def of_name(me: str, wanted: str, found: str) -> str:
    """Say that the other end is another site than the expected one."""
    return (
        f"{me} expected {wanted} and reached {found}, so it closed the connection. To do: look at "
        f"the address of {wanted} at {me}, and at the relay."
    )


def of_revoked(me: str, other: str, serial: int) -> str:
    """Say that the certificate of the other end was revoked."""
    return (
        f"{me} does not accept {other}: its certificate {serial:x} was revoked. To do: {other} "
        "needs a new kit from the coordinator, or has left the study."
    )

"""Whether a relay, or a site with an open port, answers: one connection, closed at once."""

from __future__ import annotations

import os
import socket
import ssl
from urllib.parse import urlsplit

SECONDS = 5.0
"""How long a connection may take."""
PORTS = {"wss": 443, "ws": 80}
"""The ports of addresses that name none."""
PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
"""Environment variables that name a proxy."""


def try_relay(url: str) -> str:
    """Open a connection to a relay, with TLS if its address begins with wss; "" or what is wrong.

    Args:
        url: the address, such as "wss://relay.example.org".
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 443)
    try:
        with socket.create_connection((host, port), SECONDS) as plain:
            if parts.scheme == "wss":
                with ssl.create_default_context().wrap_socket(plain, server_hostname=host):
                    pass
    except ssl.SSLCertVerificationError as error:
        return f"{url} has a certificate that this machine does not trust ({error.verify_message})"
    except OSError as error:
        return f"{url} does not answer ({error.strerror or error})"
    return ""


def try_address(address: str) -> str:
    """Open a connection to a site that listens at host:port; "" or what is wrong."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except (OSError, OverflowError) as error:
        return f"{address} does not answer ({error})"
    return ""


def proxy_of_environment() -> str | None:
    """The environment variable that names a proxy, if there is one."""
    return next((name for name in PROXIES if os.environ.get(name)), None)

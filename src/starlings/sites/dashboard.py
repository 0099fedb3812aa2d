"""A page on this machine that shows how a site is doing, and can do nothing to it.

It is served on 127.0.0.1 only, for a browser on the same machine. Every user of the machine can
open it. The page has no part from elsewhere, and runs no script but its own. A page of somebody
else, open in the same browser, must not read it:

    Host     a name that was made to point to 127.0.0.1 is refused, only its own names count    (1)
    Origin   requests that another page makes are refused                                       (2)
"""

from __future__ import annotations

import json
import signal
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path

from starlings.errors import SiteError
from starlings.sites.status_reader import check_folder
from starlings.sites.status_view import snapshot

ADDRESS = "127.0.0.1"
"""The only address at which the page is served."""
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
"""Paths, each with its file in the folder `page` and its type."""
STATUS = "/status.json"
"""The path of the status, as in the file, with what to show of it under `view`."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser lets the page do: ask its own server, and nothing else."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Allow": "GET, HEAD",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer, errors included."""
PATIENCE = 10.0
"""Seconds within which a browser has to send its request."""


class Dashboard(ThreadingHTTPServer):
    """The server of the page, from which `serve_forever` answers in threads of their own."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Begin to listen.

        Args:
            folder: the folder of the site, or that of a run in it.
            port: a number from 1 to 65535; 0 takes one that is free.
        """
        self.folder = folder
        check_folder(folder)
        page = resources.files("starlings.sites") / "page"
        self.files = {path: (page / name).read_bytes() for path, (name, _) in FILES.items()}
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SiteError(
                f"port {port} of this machine cannot be used ({error}). Choose another one with "
                "--port, or leave it out for one that is free."
            ) from None

    def server_bind(self) -> None:
        """Take the port, without a search for the name of this machine."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> list[str]:
        """What may be in the header `Host`: browsers leave out port 80."""
        ports = [f":{self.server_port}", *([""] if self.server_port == 80 else [])]
        return [f"{name}{port}" for name in (ADDRESS, "localhost") for port in ports]


class _Handler(BaseHTTPRequestHandler):
    server: Dashboard
    server_version, sys_version = "starlings", ""
    timeout = PATIENCE
    error_message_format, error_content_type = "%(code)d %(message)s\n", "text/plain"

    def do_GET(self) -> None:
        """Answer with a file of the page, or with the status."""
        if not self._is_own():
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path in FILES:
            self._answer(HTTPStatus.OK, self.server.files[self.path], FILES[self.path][1])
        elif self.path == STATUS:
            self._answer_status()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_HEAD(self) -> None:
        """Answer as to GET, without the content."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with an error; all methods but GET and HEAD end here, with the code 501."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            code = HTTPStatus.METHOD_NOT_ALLOWED if self._is_own() else HTTPStatus.FORBIDDEN
            message = None
        super().send_error(code, message, explain)

    def end_headers(self) -> None:
        """End the headers with those of every answer."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""

    def _is_own(self) -> bool:
        """Whether the page itself asks, or somebody who has typed its address."""
        hosts = self.server.hosts
        origins = [f"http://{host}" for host in hosts]
        named = self.headers.get_all("Host", [])
        return (
            len(named) == 1
            and named[0].lower() in hosts  # (1)
            and all(one in origins for one in self.headers.get_all("Origin", []))  # (2)
        )

    def _answer_status(self) -> None:
        code, content = HTTPStatus.OK, {}
        try:
            content = snapshot(self.server.folder)
        except SiteError as error:
            code, content = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
        self._answer(code, json.dumps(content).encode(), "application/json")

    def _answer(self, code: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve(folder: str | Path, port: int = 0, announce: Callable[[str], None] = print) -> None:
    """Serve the page of a site on 127.0.0.1 until Ctrl-C or SIGTERM.

    Args:
        folder: the folder of the site, NAME-site, or that of a run in it.
        port: a number from 1 to 65535; 0 takes one that is free.
        announce: called with the address of the page, once it is there.
    """
    with _ended_by_signals(), Dashboard(Path(folder), port) as server:
        announce(server.url)
        server.serve_forever()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A context that SIGINT and SIGTERM end without an error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)

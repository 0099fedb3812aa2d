"""The page of a site: what it answers to its own browser, and that nobody else can read it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from starlings.errors import SiteError
from starlings.sites.dashboard import FILES, HEADERS, POLICY, STATUS, Dashboard
from tests.sites.statuses import neighbour, serving, status, write


@pytest.fixture
def folder(tmp_path) -> Path:
    return write(tmp_path)


@pytest.fixture
def server(folder):
    with serving(folder) as server:
        yield server


def ask(server, path="/", method="GET", host=None, **headers):
    """The answer, with its content, to a request with these headers only."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host is not False:
        connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def raw(server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize("path", [*FILES, STATUS])
def test_every_file_of_the_page_is_there(server, path):
    answer, content = ask(server, path)
    assert answer.status == 200
    assert content
    assert int(answer.headers["Content-Length"]) == len(content)


def test_types_of_the_files(server):
    kinds = [ask(server, path)[0].headers["Content-Type"] for path in [*FILES, STATUS]]
    assert [kind.split(";")[0] for kind in kinds] == [
        "text/html",
        "text/javascript",
        "text/css",
        "application/json",
    ]


REQUESTS = {
    "page": {},
    "status": {"path": STATUS},
    "head": {"method": "HEAD"},
    "missing": {"path": "/secret"},
    "wrong method": {"method": "POST"},
    "wrong host": {"host": "evil.example"},
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_every_answer_has_all_headers(server, request_):
    answer, _ = ask(server, **request_)
    for name, value in HEADERS.items():
        assert answer.headers.get_all(name) == [value]
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Python" not in answer.headers["Server"]


def test_policy_and_headers_word_for_word():
    assert POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert HEADERS["Cache-Control"] == "no-store"


def test_head_has_no_content(server):
    answer, content = ask(server, STATUS, "HEAD")
    assert (answer.status, content) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 0


PATHS = ["/x", "/index.html", "/status.json?x", "/page.js/", "/../status.json", "/%2e%2e/x"]


@pytest.mark.parametrize("path", [*PATHS, "/page/page.js", "http://127.0.0.1/", "*"])
def test_other_paths_are_not_found(server, path):
    assert ask(server, path)[0].status == 404


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]
)
def test_other_methods_are_refused(server, method):
    answer, _ = ask(server, STATUS, method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert ask(server, STATUS, method, host="evil.example")[0].status == 403


@pytest.mark.parametrize("path", ["/", STATUS, "/x"])
@pytest.mark.parametrize(
    "host",
    [False, "", "evil.example", "evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1",
     "127.0.0.1:{port}.evil.example", "127.0.0.1.evil.example:{port}", "[::1]:{port}",
     "0.0.0.0:{port}", "127.0.0.1:{port}@evil.example", "127.0.0.1:{port}, evil.example"],
)  # fmt: skip
def test_requests_for_another_host_are_refused(server, path, host):
    named = host.format(port=server.server_port) if isinstance(host, str) else host
    answer, content = ask(server, path, host=" " if named == "" else named)
    assert answer.status == 403
    assert b"Ashby" not in content


def test_two_hosts_are_refused(server):
    own = b"Host: 127.0.0.1:%d\r\n" % server.server_port
    both = raw(server, b"GET / HTTP/1.1\r\n" + own + b"Host: evil.example\r\n\r\n")
    assert b" 403 " in both.splitlines()[0]


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1",
     "http://127.0.0.1", "http://127.0.0.1:{port}/", "http://evil.example:{port}"],
)  # fmt: skip
def test_requests_of_other_pages_are_refused(server, origin):
    assert ask(server, STATUS, Origin=origin.format(port=server.server_port))[0].status == 403


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_own_names_are_allowed(server, name):
    own = f"{name}:{server.server_port}"
    assert ask(server, STATUS, host=own)[0].status == 200
    assert ask(server, STATUS, host=own, Origin=f"http://{own.lower()}")[0].status == 200


@pytest.mark.parametrize(
    "request_", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET /\r\n\r\n", b"\x16\x03\x01"]
)
def test_what_is_no_request_has_no_status(server, request_):
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(request_)
        connection.shutdown(socket.SHUT_WR)
        assert b"Ashby" not in b"".join(iter(lambda: connection.recv(4096), b""))
    assert ask(server)[0].status == 200


def test_the_page_is_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"
    with socket.socket() as other:  # the port is free at every other address of the machine
        other.bind(("127.0.0.2", server.server_port))


def test_a_port_that_is_taken(server, folder):
    with pytest.raises(SiteError, match="Choose another one with --port"):
        Dashboard(folder, server.server_port)


def test_the_status_is_read_at_each_request(server, folder):
    write(folder, rounds=4210)
    assert json.loads(ask(server, STATUS)[1])["view"]["rounds"] == "4,210"
    write(folder, rounds=4299)
    assert json.loads(ask(server, STATUS)[1])["view"]["rounds"] == "4,299"


def test_the_page_of_a_site_that_has_not_begun(tmp_path):
    with pytest.raises(SiteError, match="no folder"):
        Dashboard(tmp_path / "none")
    with Dashboard(tmp_path) as server:
        threading.Thread(target=server.handle_request).start()
        answer, content = ask(server, STATUS)
    assert answer.status == 503
    assert "no run has been started" in json.loads(content)["error"]


def text_of(**changes) -> bytes:
    """The file of a site that has just written it, with changes."""
    return json.dumps(status(**changes)).encode()


BROKEN = {
    "empty": lambda: b"",
    "half": lambda: text_of()[:200],
    "no object": lambda: b"[1, 2]",
    "not text": lambda: b"\xff\xfe\x00",
    "deep": lambda: b"[" * 100_000,
    "no field": lambda: b'{"site": "Ashby"}',
    "field of another type": lambda: text_of(rounds="many"),
    "neighbours without names": lambda: text_of(neighbours=[{}]),
    "numbers that are text": lambda: text_of(neighbours=[neighbour("Brook", round_trip="slow")]),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_broken_is_an_error_and_then_it_is_not(server, folder, content):
    (folder / "run-3f3f" / "status.json").write_bytes(content())
    answer, body = ask(server, STATUS)
    assert answer.status == 503
    assert re.search("cannot be read|is damaged", json.loads(body)["error"])
    write(folder)
    assert ask(server, STATUS)[0].status == 200


def test_numbers_that_are_not_finite_do_not_break_the_page(server, folder):
    write(folder, disagreement=float("nan"), rounds_per_second=float("inf"))
    content = ask(server, STATUS)[1]
    assert b"NaN" not in content
    assert json.loads(content)["view"]["disagreement"] == "not known"


DASHBOARD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent may have ignored
sys.argv = ["starlings", "dashboard", *sys.argv[1:]]
from starlings.cli import run
run()
"""
"""The command as a process that heeds SIGINT."""


@contextlib.contextmanager
def dashboard_of(folder):
    command = [sys.executable, "-c", DASHBOARD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()  # if it has not ended, nothing waits for it


@pytest.mark.quick(1)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_command_dashboard_ends_without_an_error(folder, sent):
    with dashboard_of(folder) as process:
        line = process.stdout.readline().decode()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", STATUS)
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(sent)
        assert process.wait(60) == 0
        assert process.stderr.read() == b""

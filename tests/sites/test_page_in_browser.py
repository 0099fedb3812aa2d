"""The page of a site in a real browser, and its files."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from importlib import resources
from pathlib import Path

import pytest

from starlings.results.palette import PALETTE
from tests.sites.statuses import neighbour, serving, status, write

HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>'
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --enable-logging=stderr
--window-size=1200,1040"""


@pytest.fixture
def folder(tmp_path) -> Path:
    return write(tmp_path)


@pytest.fixture
def server(folder):
    with serving(folder) as server:
        yield server


def test_nothing_is_inline_and_nothing_comes_from_elsewhere():
    page = resources.files("starlings.sites") / "page"
    html, script, style = (
        (page / name).read_text("utf-8") for name in ("index.html", "page.js", "page.css")
    )
    assert re.findall(r"<script(.*?)</script>", html) == [' src="/page.js" defer>']
    assert not re.search(r"<style|\sstyle=|\son\w+=|https?:|javascript:", html)
    assert re.findall(r"https?://[^\"]*", script) == ["http://www.w3.org/2000/svg"]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function", script
    )
    assert not re.search(r"@import|url\(", style)


def test_the_colours_of_states_are_those_of_all_figures():
    style = (resources.files("starlings.sites") / "page" / "page.css").read_text("utf-8")
    states = re.findall(r"--(?:good|wait|bad|calm|own): (#\w+);", style)
    assert len(states) == 7
    assert {*states} <= {*PALETTE.values()}


def browse(server, folder, *flags: str) -> str:
    """What a browser has made of the page, as HTML."""
    profile = folder / f"profile-{time.monotonic_ns()}"
    command = [BROWSER, *FLAGS.split(), f"--user-data-dir={profile}", *flags, server.url]
    result = subprocess.run(command, capture_output=True, timeout=120, check=True)
    said = result.stderr.decode()
    assert not re.search(r"Content Security Policy|Uncaught|SyntaxError", said), said
    return result.stdout.decode()


def text_of(html: str, name: str) -> str:
    return re.search(rf'id="{name}"[^>]*>([^<]*)<', html)[1]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
class TestInABrowser:
    def test_names_and_numbers(self, server, folder):
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=1500")
        assert (text_of(html, "site"), text_of(html, "rounds")) == ("Ashby", "4,210")
        assert text_of(html, "title") == "The run is advancing"
        assert html.count('class="link up"') == 4  # three links, and the legend
        assert html.count('class="link other"') == 5
        assert text_of(html, "progress") == "4,210 of 19,000 rounds"
        assert re.findall(r"<figcaption[^>]*><span>(.*?)</span>", html) == ["beta[0]", "log sigma"]
        assert [len(path.split("L")) for path in re.findall(r'class="trace" d="(.*?)"', html)] == [
            120,
            120,
        ]
        for name in status()["sites"]:
            assert f">{name}" in html

    def test_a_second_status(self, server, folder):
        """The status changes between the first request of the page and its second one."""
        asked = []

        def counted(handler, answer=server.RequestHandlerClass._answer_status):
            asked.append(handler)
            write(folder, rounds=4210 + len(asked))
            answer(handler)

        handler = type("Counting", (server.RequestHandlerClass,), {"_answer_status": counted})
        server.RequestHandlerClass = handler
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=3500")
        assert len(asked) >= 2
        assert text_of(html, "rounds") in [f"4,{210 + n}" for n in range(2, len(asked) + 1)]

    def test_a_page_whose_server_has_ended(self, server, folder):
        asked = []

        def once(handler, answer=server.RequestHandlerClass._answer_status):
            asked.append(handler)
            if len(asked) == 1:
                answer(handler)

        handler = type("Once", (server.RequestHandlerClass,), {"_answer_status": once})
        server.RequestHandlerClass = handler
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=3500")
        assert len(asked) >= 2
        assert text_of(html, "title") == "This page is no longer up to date"
        assert text_of(html, "rounds") == "4,210"

    def test_a_name_that_is_a_script(self, server, folder):
        sites = [HOSTILE, "Brook"]
        row = neighbour("Brook", last_error=HOSTILE)
        write(
            folder,
            site=HOSTILE,
            sites=sites,
            edges=[sites],
            trial=HOSTILE,
            neighbours=[row],
            traced=[HOSTILE],
            task={"name": HOSTILE},
        )
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=1500")
        assert html.count("&lt;script&gt;document.title") >= 6
        assert html.count("<script") == 1
        assert "<img" not in html
        assert "<title>owned" not in html

    def test_what_is_awaited_and_what_is_down(self, server, folder):
        rows = [
            neighbour("Brook"),
            neighbour("Dale", waiting_seconds=33.0),
            neighbour("Fenwick", is_connected=False, doing="tries Fenwick again soon"),
        ]
        write(folder, neighbours=rows, advanced=time.time() - 34, certificate_days=12.0)
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=500")
        assert text_of(html, "title") == "Waiting for Dale"
        assert text_of(html, "certificate_name") == "Renew certificate"
        for state in ("up", "waited", "down"):
            assert html.count(f'class="link {state}"') == 2  # a link, and the legend
            assert f'<tr data-link="{state}">' in html

    def test_a_site_that_has_stopped(self, server, folder):
        write(folder, time=time.time() - 60)
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=1500")
        assert text_of(html, "title") == "This site is not running any more"
        assert 'data-level="stopped"' in html
        shutil.rmtree(folder / "run-3f3f")
        html = browse(server, folder, "--dump-dom", "--virtual-time-budget=1500")
        assert text_of(html, "title") == "No status to show"

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_a_picture(self, server, folder, scheme):
        plt = pytest.importorskip("matplotlib.pyplot")
        picture = folder / f"{scheme}.png"
        dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        browse(server, folder, f"--screenshot={picture}", "--virtual-time-budget=1500", *dark)
        pixels = plt.imread(picture)[..., :3]
        assert pixels.shape[:2] == (1040, 1200)
        assert (pixels[5, 5].mean() < 0.2) == (scheme == "dark")
        green = [int(PALETTE["green"][place : place + 2], 16) / 255 for place in (1, 3, 5)]
        assert (abs(pixels - green).max(axis=-1) < 0.02).sum() > 500  # the banner and the links

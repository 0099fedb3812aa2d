"""The page of a result in a real browser: on a desktop, on a telephone, and on paper."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.answers.reports import HOSTILE, LONG, result_of, with_sites

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --enable-logging=stderr
--hide-scrollbars --no-pdf-header-footer"""
NARROWEST = 500
"""Pixels below which headless Chromium makes no window narrower."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A page with long and hostile names."""
    folder = tmp_path_factory.mktemp("report")
    sites = [f"Hospital {k} of the Northern Regional Health Authority" for k in range(5)]
    result = result_of([*sites, HOSTILE], ["intercept", "age", LONG, HOSTILE])
    with_sites(result).report(folder / "page.html")
    return folder


def browse(folder: Path, *flags: str) -> str:
    """What the browser prints, which complains of nothing."""
    own = [f"--user-data-dir={folder / 'profile'}", *flags, (folder / "page.html").as_uri()]
    done = subprocess.run([BROWSER, *FLAGS.split(), *own], capture_output=True, timeout=120)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert not re.search(r"Content Security Policy|Uncaught|SyntaxError", said), said
    return done.stdout.decode()


@pytest.mark.parametrize("width", [1200, NARROWEST])
def test_a_picture_in_which_nothing_is_cut_off(folder, width):
    plt = pytest.importorskip("matplotlib.pyplot")
    picture = folder / f"{width}.png"
    browse(folder, f"--window-size={width},5000", f"--screenshot={picture}")
    pixels = plt.imread(picture)[..., :3]
    assert pixels.shape[:2] == (5000, width)
    is_blank = (pixels > 0.99).all(axis=(0, 2))
    assert is_blank[:8].all()
    assert is_blank[-8:].all(), "something is wider than the page"
    blue = np.array([0x00, 0x55, 0x8B]) / 255
    assert (abs(pixels - blue).max(axis=-1) < 0.02).sum() > 2000  # the lines of the network


def test_names_are_text_after_the_browser_has_read_them(folder):
    html = browse(folder, "--dump-dom")
    assert html.count("&lt;script&gt;document.title") >= 6
    assert "<script" not in html
    assert "<img" not in html
    assert "<title>owned" not in html


def test_paper(folder):
    """Everything is on a few pages of A4."""
    browse(folder, f"--print-to-pdf={folder / 'page.pdf'}")
    pdf = (folder / "page.pdf").read_bytes()
    boxes = re.findall(rb"/MediaBox \[([^\]]*)\]", pdf)
    assert 3 <= len(boxes) <= 12
    assert {tuple(round(float(x)) for x in box.split()) for box in boxes} == {(0, 0, 595, 842)}

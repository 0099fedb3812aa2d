"""Measure the parts of the benchmark of speed, and show them: `python -m benchmarks speed`."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import jax

from starlings.errors import check_choice, check_count
from starlings.system.files import check_writable
from starlings.system.progress import print_status

from ..choosing import chosen
from ..tables import wide_console
from .report import ON_DEVICE, PARTS, console_tables, page_text
from .results import SpeedFile
from .timing import Settings

FILES = {"cpu": "speed.json", "gpu": "speed-gpu.json"}
"""The results file of each kind of device."""
NOTHING = "none"
"""The value of `parts` for which nothing is measured, and earlier results are shown."""


def run(
    output: Path,
    *,
    parts: str | None = None,
    device: str = "cpu",
    repeats: int = 7,
    quick: bool = False,
    page: Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Measure, print the tables, and draw the figure.

    Args:
        output: the folder of results and figure, made if it does not exist.
        parts: names separated by commas; all of the device if None, and no new ones if "none".
        device: "cpu", or "gpu" for the part that needs one; each has its own results file, and
            the page shows both.
        repeats: how often every measurement is repeated.
        quick: small sizes, to try the benchmark itself.
        page: a Markdown file to write; the figure goes to the folder images beside it.
        progress: whether to print lines on stderr; None for only on a terminal.
    """
    check_choice(tuple(ON_DEVICE), device=device)
    check_count(1, repeats=repeats)
    names = [] if parts == NOTHING else chosen("parts", parts, ON_DEVICE[device])
    output.mkdir(parents=True, exist_ok=True)
    if page is not None:
        check_writable(page)
    console, settings = wide_console(), Settings(repeats, quick)
    results = SpeedFile(output / FILES[device])
    with jax.default_device(first_device(device)):
        for name in names:
            began = time.perf_counter()
            results.put(name, PARTS[name].measure(settings), settings)
            print_status(f"{name}: measured in {time.perf_counter() - began:.0f} s", progress)
    console_tables(results.parts, console)
    if device == "cpu":
        illustrate(output, page)
    return results.path


def first_device(kind: str) -> jax.Device:
    """The first device of a kind, such as "gpu"."""
    try:
        return jax.devices(kind)[0]
    except RuntimeError:
        raise ValueError(
            f"`device` is {kind!r}, but JAX finds none on this machine; use 'cpu'."
        ) from None


def illustrate(output: Path, page: Path | None) -> None:
    """Draw the figure, and write the page, of everything that was measured into this folder."""
    from starlings.results.plots import save_figure

    from .figure import overview

    stored = [SpeedFile(output / file).parts for file in FILES.values()]
    parts = {name: part for each in stored for name, part in each.items()}
    if not parts:
        return
    save_figure(overview(parts), output / "speed")
    if page is not None:
        page.write_text(page_text(parts), encoding="utf-8")
        images = page.parent / "images"
        images.mkdir(exist_ok=True)
        shutil.copy(output / "speed.png", images / "speed.png")

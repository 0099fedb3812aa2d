"""Measure draws of many rows, and show what was measured: `python -m benchmarks rows`."""

from __future__ import annotations

import time
from pathlib import Path

import jax

from starlings.errors import check_choice, check_count
from starlings.system.files import check_writable
from starlings.system.progress import print_status

from ..choosing import chosen
from ..speed.results import SpeedFile
from ..speed.run import NOTHING, first_device
from ..speed.timing import Settings
from ..tables import wide_console
from .report import PARTS, console_tables, page_text

FILES = {"cpu": "rows.json", "gpu": "rows-gpu.json"}
"""The results file of each kind of device."""


def run(
    output: Path,
    *,
    parts: str | None = None,
    device: str = "cpu",
    repeats: int = 3,
    quick: bool = False,
    page: Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Measure, print the tables, and write the page if one is asked for.

    Args:
        output: the folder of the results files, made if it does not exist.
        parts: names separated by commas; all if None, and no new ones if "none".
        device: "cpu" or "gpu"; each has its own results file, and the page shows both.
        repeats: how often every measurement is repeated.
        quick: small sizes, to try the benchmark itself.
        page: a Markdown file to write.
        progress: whether to print lines on stderr; None for only on a terminal.
    """
    check_choice(tuple(FILES), device=device)
    check_count(1, repeats=repeats)
    names = [] if parts == NOTHING else chosen("parts", parts, tuple(PARTS))
    output.mkdir(parents=True, exist_ok=True)
    if page is not None:
        check_writable(page)
    settings, results = Settings(repeats, quick), SpeedFile(output / FILES[device])
    with jax.default_device(first_device(device)):
        for name in names:
            began = time.perf_counter()
            results.put(name, PARTS[name].measure(settings, device), settings)
            print_status(f"{name}: measured in {time.perf_counter() - began:.0f} s", progress)
    console_tables(results.parts, wide_console())
    if page is not None:
        measured = {kind: SpeedFile(output / file).parts for kind, file in FILES.items()}
        page.write_text(page_text(measured), encoding="utf-8")
    return results.path

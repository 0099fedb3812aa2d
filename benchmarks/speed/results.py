"""The results file: for every part its rows, how they were made and on which machine.

It is complete after every part, so that a stopped run keeps what it has; the next run replaces the
parts that it measures and leaves the remaining ones as they are.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from ..results import JsonFile
from .timing import Settings

Part = dict[str, Any]
"""What one part measured: `rows`, `machine`, `repeats` and `quick`."""


class SpeedFile:
    """The parts of a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, JsonFile(path, _check)

    @property
    def parts(self) -> dict[str, Part]:
        """All parts so far."""
        return self.file.read(default={})

    def put(self, name: str, rows: list[dict[str, Any]], settings: Settings) -> None:
        """Add a part, or replace it."""
        part = {"machine": machine(), **asdict(settings), "rows": rows}
        self.file.write(self.parts | {name: part})


def _check(parts: Any) -> None:
    if not all(isinstance(part["rows"], list) for part in parts.values()):
        raise ValueError("a part has no rows")


def machine() -> str:
    """The name of the processor and the number of its cores, and of the GPU if that is used."""
    names = [f"{processor()}, {os.cpu_count()} cores"]
    device = jax.config.jax_default_device or jax.devices()[0]
    if device.platform != "cpu":
        names.insert(0, device.device_kind)
    return "; ".join(names)


def processor() -> str:
    """The model of the CPU, where the operating system reports it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())

"""Tables that come inside other Python packages, read without importing them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd

from starlings.system import extras


def check_installed(*packages: str, extra: str) -> None:
    """Refuse to start the command named like `extra` without the packages that only it needs."""
    extras.check_installed(*packages, purpose=f"`starlings {extra}`", extra=extra)


def read_packaged(package: str, file: str, *, extra: str) -> pd.DataFrame:
    """The CSV file at a path inside an installed package."""
    check_installed(package, extra=extra)
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    path = Path(folders[0]) / file
    if not path.is_file():
        raise FileNotFoundError(
            f"this {package} has no {path.name}; {extras.install_command(extra)} again."
        )
    return pd.read_csv(path, float_precision="round_trip")

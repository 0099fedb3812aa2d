"""Tables that come inside other Python packages, read without importing them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd


def check_installed(*packages: str, extra: str) -> None:
    """Refuse to start the command named like `extra` without the packages that only it needs."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"`starlings {extra}` needs {' and '.join(missing)}; "
            f"install with `pip install 'starlings[{extra}]'`."
        )


def read_packaged(package: str, file: str, *, extra: str) -> pd.DataFrame:
    """The CSV file at a path inside an installed package."""
    check_installed(package, extra=extra)
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    path = Path(folders[0]) / file
    if not path.is_file():
        raise FileNotFoundError(
            f"this {package} has no {path.name}; reinstall with `pip install 'starlings[{extra}]'`."
        )
    return pd.read_csv(path, float_precision="round_trip")

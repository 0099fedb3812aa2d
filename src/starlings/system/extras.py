"""Optional packages: imported where they are needed, with one message where they are missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def import_extra(module: str, purpose: str, extra: str) -> Any:
    """Import a module that only an extra of starlings installs.

    Args:
        module: the full name of the module, such as "pyarrow.parquet".
        purpose: what needs it, as the subject of a sentence.
        extra: the extra that installs its package.

    Raises:
        ModuleNotFoundError: the package is not installed; the message says how to install it.
    """
    package = module.partition(".")[0]
    check_installed(package, purpose=purpose, extra=extra)
    return importlib.import_module(module)


def check_installed(*packages: str, purpose: str, extra: str) -> None:
    """Raise `ModuleNotFoundError` with the command that installs the packages that are missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"{purpose} needs {' and '.join(missing)}; {install_command(extra)}."
        )


def install_command(extra: str) -> str:
    """Say how to install an extra, as part of a sentence."""
    return f"install with `pip install 'starlings[{extra}]'`"

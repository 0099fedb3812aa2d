"""Compiled programs are kept in a folder of the user's, so that a second start does not compile.

JAX has the mechanism; this module turns it on unless the user has set JAX's own option already.
`STARLINGS_CACHE` names another folder, or is "off". Programs are for one kind of processor and one
version of JAX, which a home shared by unlike machines must not mix up: each has its own folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
from pathlib import Path

VARIABLE = "STARLINGS_CACHE"
OFF = "off"
CPU_INFO = Path("/proc/cpuinfo")


@functools.cache
def turn_on() -> Path | None:
    """Set JAX up to use the folder, and return it; None where the user wants no such thing.

    Decided once in a process: what a user sets afterwards stays.
    """
    import jax

    wanted, options = os.environ.get(VARIABLE, ""), jax.config.values
    if wanted.lower() == OFF or options["jax_compilation_cache_dir"] is not None:
        return None
    try:
        folder = Path(wanted or user_cache()) / "compiled" / machine()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or none to write to, is no reason to stop
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


def user_cache() -> Path:
    """Where programs of this user keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "starlings"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "starlings"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "starlings"


def machine() -> str:
    """The version of JAX and a digest of what the processor can do."""
    import jax

    features = platform.processor()
    if CPU_INFO.exists():
        lines = CPU_INFO.read_text(errors="replace").splitlines()
        features = next(
            (line for line in lines if line.startswith(("flags", "Features"))), features
        )
    digest = hashlib.sha256(features.encode()).hexdigest()[:12]
    return f"jax-{jax.__version__}-{platform.machine()}-{digest}"

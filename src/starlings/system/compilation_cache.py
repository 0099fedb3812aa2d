"""The folder in which compiled programs are kept, so that a second start does not compile again.

JAX can keep compiled programs on disk. Whether it does is a setting of the whole process, which a
library has no right to change: only the command line calls `turn_on`. In Python, set JAX's own
option `jax_compilation_cache_dir`, or call `starlings.system.compilation_cache.turn_on()`.

The environment variable STARLINGS_CACHE names another folder, or turns the cache off ("off"). A
user who has set JAX's own option keeps that setting. A compiled program fits one kind of processor
and one version of JAX, and a home folder may be shared by different machines: each kind of machine
therefore has a subfolder of its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax
import platformdirs

VARIABLE = "STARLINGS_CACHE"
"""The environment variable that names the folder."""
OFF = "off"
"""The value of that variable, in small or capital letters, that turns the cache off."""
CPU_INFO = Path("/proc/cpuinfo")
"""The file in which Linux lists what the processor can do."""


def turn_on() -> Path | None:
    """Let JAX keep all compiled programs on disk, and return the folder.

    Returns None, and changes nothing, where the user has turned the cache off, has set JAX's own
    option, or has no folder that can be written to: a cache is never a reason to stop.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted.lower() == OFF or jax.config.values["jax_compilation_cache_dir"] is not None:
        return None
    try:
        folder = Path(wanted or user_cache()) / "compiled" / machine()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)  # -1: whatever the size
    return folder


def user_cache() -> Path:
    """Where starlings keeps files of this user that it can make again, by custom of the system."""
    return platformdirs.user_cache_path("starlings", appauthor=False)


def machine() -> str:
    """The name of the subfolder: the version of JAX and a digest of the processor's features."""
    features = platform.processor()
    if CPU_INFO.exists():
        lines = CPU_INFO.read_text(errors="replace").splitlines()
        features = next(
            (line for line in lines if line.startswith(("flags", "Features"))), features
        )
    digest = hashlib.sha256(features.encode()).hexdigest()[:12]
    return f"jax-{jax.__version__}-{platform.machine()}-{digest}"

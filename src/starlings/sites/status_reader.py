"""The file status.json of a site, read: what all views of a run are made of.

The file is written every second by a site that takes part in a run, see `status`. It is complete
at any moment, since it is replaced as a whole. One that cannot be read is read again a few times,
for a folder may be on a drive that is slow.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from starlings.errors import SiteError

FILE = "status.json"
"""The name of the file."""
LARGEST_FILE = 64 * 2**20
"""Bytes of the file, at most; a complete graph of 1,000 sites has about 20 MB."""
TRIES = 4
"""How often a file that cannot be read is read."""
PAUSE = 0.05
"""Seconds from one try to the next."""
FIELDS: dict[str, type | tuple[type, ...]] = {
    "site": str,
    "trial": str,
    "state": str,
    "sites": list,
    "edges": list,
    "neighbours": list,
    "rounds": int,
    "time": (int, float),
}
"""What every status has, and of which type it is."""


def check_folder(folder: Path) -> None:
    """Raise an error if there is no such folder."""
    if not folder.is_dir():
        raise SiteError(f"there is no folder {folder}. Name the folder of a site, like Ashby-site.")


def newest_file(folder: Path) -> Path:
    """The status of the newest run of a site.

    Args:
        folder: the folder of the site, NAME-site, or that of a run in it.
    """
    check_folder(folder)
    times = {}
    for file in (folder / FILE, *folder.glob(f"run-*/{FILE}")):
        try:
            times[file] = file.stat().st_mtime
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error)) from None
    if not times:
        raise SiteError(
            f"no run has been started in {folder}. `starlings join` starts one; if there is one, "
            "name the folder of its site, like Ashby-site."
        )
    return max(times, key=times.__getitem__)


def read_status(folder: Path) -> dict[str, Any]:
    """The status of the newest run of a site, as it is in the file.

    Args:
        folder: the folder of the site, NAME-site, or that of a run in it.
    """
    for _ in range(TRIES - 1):
        file = newest_file(folder)
        try:
            return _read(file)
        except SiteError:
            time.sleep(PAUSE)
    return _read(newest_file(folder))


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise _unreadable(file, f"it has more than {LARGEST_FILE:,} bytes")
        # Numbers that are not finite are no JSON, and browsers refuse them.
        content = json.loads(file.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from None
    except (ValueError, RecursionError):
        raise _unreadable(file, "it is damaged, or half-written") from None
    if not _is_status(content):
        raise _unreadable(file, "it is damaged, or of another version of starlings")
    return dict(content)


def _is_status(content: Any) -> bool:
    """Whether something is a status, as far as the views rely on it."""
    if not isinstance(content, dict):
        return False
    if not all(isinstance(content.get(name), kind) for name, kind in FIELDS.items()):
        return False
    edges, sites, neighbours = content["edges"], content["sites"], content["neighbours"]
    return (
        all(isinstance(site, str) for site in sites)
        and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in neighbours)
        and all(isinstance(pair, list) and len(pair) == 2 for pair in edges)
    )


def _unreadable(file: Path, why: str) -> SiteError:
    return SiteError(
        f"{file} cannot be read: {why}. A site that runs writes it again every second; only the "
        "user who runs the site can read it."
    )

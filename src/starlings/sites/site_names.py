"""Names of sites: in certificates as urn:starlings:site:NAME, and as names of files.

A name is the text that a study has for the site. It is also the name of a file on whatever system
a site has, so a few characters are refused.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from urllib.parse import quote, unquote

from starlings.errors import SiteError

URN = "urn:starlings:site:"
"""What stands before the name, percent-encoded, in the certificate of a site."""
LONGEST_NAME = 64
"""Characters of a name, at most: the longest common name of a certificate."""
REFUSED = '/\\:*?"<>|'
"""Characters that some system does not allow in the name of a file."""


def check_site_name(name: str, where: str) -> str:
    """The name, if a site may have it.

    Args:
        name: the name of a site.
        where: the file in which it stands, for the error.
    """
    return check_name(name, where, "a site")


def check_name(name: str, where: str, what: str) -> str:
    """The name, if it can be that of a file too.

    Args:
        name: the name.
        where: the file in which it stands, for the error.
        what: of what it is the name.
    """
    fault = _fault(name)
    if fault:
        raise SiteError(f"{where}: {name[:80]!r} cannot be the name of {what}: {fault}.")
    return name


def _fault(name: str) -> str:
    if not name or name != name.strip() or name.startswith(".") or name.endswith("."):
        return "it must not be empty, nor begin or end with a space or a full stop"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, and {LONGEST_NAME} are allowed"
    if any(letter in REFUSED or not letter.isprintable() for letter in name):
        return f"letters, digits, spaces, - and _ are allowed; leave out {' '.join(REFUSED)}"
    if unicodedata.normalize("NFC", name) != name:
        return "its accents are separate characters; type it again"
    return ""


def check_site_names(names: Iterable[str], where: str) -> list[str]:
    """All names, sorted; two that differ only in capital letters are refused."""
    found = sorted(check_site_name(name, where) for name in names)
    seen: dict[str, str] = {}
    for name in found:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise SiteError(
                f"{where}: the sites {other!r} and {name!r} differ only in capital letters, and "
                "their files could not be told apart. Rename one of them."
            )
    return found


def urn_of(name: str) -> str:
    """The name of a site as a URN.

    >>> urn_of("St Mary")
    'urn:starlings:site:St%20Mary'
    """
    return URN + quote(name, safe="")


def name_of_urn(urn: str, where: str) -> str:
    """The name of the site that a URN stands for; other spellings of a URN are refused.

    >>> name_of_urn("urn:starlings:site:St%20Mary", "Mary.request")
    'St Mary'
    """
    name = unquote(urn.removeprefix(URN))
    if not urn.startswith(URN) or urn_of(name) != urn:
        raise SiteError(f"{where}: {urn[:200]!r} is not the name of a site; ask for a new file.")
    return check_site_name(name, where)

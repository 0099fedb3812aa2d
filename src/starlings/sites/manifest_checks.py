"""Whether the contents of a manifest are what they must be, beside the signature of the authority.

What a site is shown before it signs, such as the model, stands in the manifest beside the text of
the study, which is what runs. Both must say the same; a coordinator cannot show one thing and run
another.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.documents import Table, as_time, canonical, damaged, field, sha256
from starlings.sites.keys import key_hash
from starlings.sites.limits import ABSENT, Limits
from starlings.sites.site_names import check_name, check_site_names
from starlings.sites.trial import edges_of, study_from_text
from starlings.sites.trial_code import code_files
from starlings.study.sections import keys_of
from starlings.study.study import Study

TYPES = {
    **dict.fromkeys(("number",), int),
    **dict.fromkeys(("trial", "authority", "created", "study", "study_sha256"), str),
    **dict.fromkeys(("privacy", "seed", "numerics"), str),
    **dict.fromkeys(("model", "code", "columns", "sites", "sampler", "run", "limits"), dict),
    **dict.fromkeys(("direct", "versions"), dict),
    **dict.fromkeys(("edges", "relay"), list),
}
"""The types of all keys but `kind` and `format`."""
OF_TEXT = ("code", "columns", "sites", "direct", "versions")
"""Tables whose values are texts."""


def described(study: Study, text: str, sites: list[str]) -> Table:
    """What a study says about model, sampler, run and network, in types that JSON has.

    Args:
        study: the study, without [sampler] if that must not be imported.
        text: its text, from which [sampler] is taken.
        sites: the names of all sites.
    """
    sampler = tomllib.loads(text).get("sampler", {})
    return {
        "model": asdict(study.model),
        "sampler": {"name": sampler.pop("name", None), "options": sampler},
        "run": study.run.options,
        "edges": edges_of(study, sites),
    }


def check_manifest(content: Table, authority: Any, where: str) -> None:
    """Refuse a manifest with keys of a wrong type, of another authority, or at odds with itself."""
    if set(content) != {*TYPES, "kind", "format"}:
        raise damaged(where, "it has not the keys of a manifest")
    for name, kind in TYPES.items():
        field(content, name, kind, where)
    as_time(content, "created", where)
    check_name(content["trial"], where, "a trial")
    for name in OF_TEXT:
        for key in content[name]:
            field(content[name], key, str, where)
    if content["authority"] != key_hash(authority.public_key()):
        raise damaged(where, "it is of another trial")
    if content["study_sha256"] != sha256(content["study"].encode()):
        raise damaged(where, "the hash of its study is wrong")
    sites = check_site_names(content["sites"], where)
    pairs = [pair for pair in content["edges"] if type(pair) is list and len(pair) == 2]
    is_known = all(type(end) is str and end in sites for pair in pairs for end in pair)
    if len(pairs) != len(content["edges"]) or not is_known:
        raise damaged(where, "`edges` must be pairs of sites")
    _check_more(content, where)
    _check_study(content, where)


def _check_more(content: Table, where: str) -> None:
    """Limits, relays and names of code files."""
    known = keys_of(Limits)
    if set(content["limits"]) != set(known):
        raise damaged(where, "`limits` has not the keys of this version of starlings")
    for name, key in known.items():
        field(content["limits"], name, Limits.type_of(key.default), where)
    if content["limits"]["absent"] not in ABSENT:
        raise damaged(where, f"`absent` in `limits` must be one of {ABSENT}")
    if not all(type(url) is str for url in content["relay"]):
        raise damaged(where, "`relay` must be a list of texts")
    for name in content["code"]:
        stem, _, ending = name.partition(".")
        if not (stem.isidentifier() and stem.isascii() and ending == "py"):
            raise damaged(where, f"{name[:80]!r} is not the name of a Python file")


def _check_study(content: Table, where: str) -> None:
    """Refuse what is said of the study if its text says something else."""
    try:
        study = study_from_text(content["study"], Path(where), has_sampler=False)
        found = described(study, content["study"], sorted(content["sites"]))
        found["privacy"] = study.run.options.get("privacy", "none")
        columns = set(study.model.columns)
        is_same = all(canonical(value) == canonical(content[n]) for n, value in found.items())
        needed = code_files(None, study.model).values()
    except (ValueError, TypeError) as error:
        raise SiteError(f"{where}: its study cannot be read: {error}") from None
    if missing := sorted(set(needed) - set(content["code"])):
        raise damaged(where, f"the text of {missing} is missing")
    if not is_same or columns != set(content["columns"]):
        raise damaged(where, "what it says of the study is not what the text of the study says")

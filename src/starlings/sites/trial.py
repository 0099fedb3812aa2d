"""A trial file: a study of several organisations, without any path to rows.

It has the sections [model], [network], [sampler] and [run] of a study (`starlings.study.study`),
and these:

[sites.NAME]    One section for each site, which may be empty.
    contact         text. Whom to ask about this site.

[relay]         How the sites reach each other: through a relay, ...
    urls            list of text. Addresses such as "wss://relay.example.org"; a site tries them in
                    this order.

[direct]        ... or directly, where ports are open.
    NAME            text. Where that site listens, such as "ashby.example.org:7443".

[columns]       What the columns mean, for those who prepare the rows. May be left out.
    NAME            text. Such as age = "years at admission".

[limits]        What a run may use and disclose at most; the keys and defaults of `limits.Limits`.

There is no section [data]. The rows of a site, and what its own file calls the columns, are known
to that site alone, which names them when it joins. [run] has no `output` (each site chooses its
own) and no `seed` (the sites agree on one when a run starts). `privacy` is "totals" unless the file
says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlings.errors import SiteError, check_choice, nearest
from starlings.samplers import Sampler
from starlings.sampling.choice import choice_of
from starlings.sampling.private import PRIVACY
from starlings.sites.limits import ABSENT, Limits
from starlings.sites.site_names import check_name, check_site_names
from starlings.sites.trial_code import code_of
from starlings.sites.trial_text import as_toml
from starlings.study.schema import NAMES, OPTIONAL, checked_sections
from starlings.study.sections import Section, keys_of, read_sections
from starlings.study.sources import Source
from starlings.study.study import Study

OF_TRIALS = ("sites", "relay", "direct", "columns", "limits")
"""The sections that only a trial has."""
UNMASKED = ("metropolis", "metropolis-vote", "nonparametric", "semiparametric")
"""Methods whose messages cannot be masked."""


@dataclass(frozen=True)
class Trial:
    """A trial file whose keys and types have been checked."""

    path: Path
    study: Study
    text: str
    """The sections of the study, in the only spelling; see `as_toml`."""
    contacts: dict[str, str]
    """By site, sorted: whom to ask. May be empty."""
    relays: list[str]
    direct: dict[str, str]
    columns: dict[str, str]
    """What the columns mean; every column of the model, in its order."""
    limits: Limits
    code: dict[str, str]
    """The text of Python files that the study names, by file name."""

    @classmethod
    def read(cls, path: Path) -> Trial:
        """Read a trial file; what cannot work between organisations is refused."""
        if not path.is_file():
            raise SiteError(
                f"no trial file at {path}; `starlings study init {path}` writes a draft."
            )
        check_name(path.stem, str(path), "a trial")
        sections = read_sections(path, (*NAMES, *OF_TRIALS), (*OPTIONAL, "data", *OF_TRIALS))
        tables = {name: dict(sections[name].table) for name in NAMES}
        _check_run(sections)
        tables["run"].setdefault("privacy", "totals")
        sections["run"] = Section(path, "run", tables["run"])
        study = Study(path, *checked_sections(sections, has_data=False))
        contacts = _contacts(sections["sites"])
        trial = cls(
            path,
            study,
            as_toml({name: table for name, table in tables.items() if table}),
            contacts,
            _relays(sections["relay"]),
            _direct(sections["direct"], contacts),
            _columns(sections["columns"], study.model.columns),
            _limits(sections["limits"]),
            code_of(study),
        )
        trial._check()
        return trial

    @property
    def sites(self) -> list[str]:
        """The names of all sites, sorted."""
        return list(self.contacts)

    @property
    def privacy(self) -> str:
        """ "totals" or "none"."""
        return str(self.study.run.options["privacy"])

    def _check(self) -> None:
        if len(self.sites) < self.limits.fewest_sites:
            raise SiteError(
                f"{self.path}: `fewest_sites` is {self.limits.fewest_sites}, and [sites] has "
                f"{len(self.sites)}. Find more sites."
            )
        if bool(self.relays) == bool(self.direct):
            raise SiteError(
                f"{self.path} needs either [relay] with `urls`, or [direct] with the address of "
                "every site, and not both."
            )
        check_method(self.study, self.privacy)
        edges_of(self.study, self.sites)


def check_method(study: Study, privacy: str) -> None:
    """Refuse a method that does not exist, or whose messages cannot be masked although they are to.

    Args:
        study: the study; its rows are not read.
        privacy: what its [run] says, or what holds where it says nothing.
    """
    run, sampler = study.run.options, study.make_sampler()
    method = str(run.get("method", "auto"))
    try:
        check_choice(PRIVACY, privacy=privacy)
        choice_of(sampler, method, str(run.get("exactness", "auto")), False)
    except ValueError as error:
        raise SiteError(f"{study.path}: [run] {error}") from None
    if privacy == "totals":
        _check_masks(study, sampler, method)


def _check_masks(study: Study, sampler: Sampler | type[Sampler] | None, method: str) -> None:
    if study.model.standardise:
        raise SiteError(
            f"{study.path}: `standardise` tells all sites the sums of each covariate at every "
            'site, which privacy = "totals" does not allow. Agree on means and standard '
            "deviations, and let every site standardise its columns beforehand."
        )
    if method in UNMASKED or (sampler is not None and sampler.card.masked_as is None):
        raise SiteError(
            f'{study.path}: this method reads more than totals, which privacy = "totals" does '
            'not allow. Choose another one, such as method = "hmc".'
        )


def study_from_text(
    text: str,
    place: Path,
    own_rows: Source | None = None,
    has_sampler: bool = True,
    approved: Mapping[str, str] | None = None,
) -> Study:
    """The study of a manifest, with the rows of one site.

    Args:
        text: the sections as TOML.
        place: the file that errors name; Python files of the study are beside it.
        own_rows: the rows of this site.
        has_sampler: whether to read [sampler], which imports the Python file that it names.
        approved: the hashes of the Python files that may run, by name; see `Study`.
    """
    sections = read_sections(place, NAMES, (*OPTIONAL, "data"), text=text)
    if not has_sampler:
        sections["sampler"] = Section(place, "sampler", {})
    parts = checked_sections(sections, has_data=False)
    return Study(place, *parts, own_source=own_rows, approved=approved)


def edges_of(study: Study, sites: list[str]) -> list[list[str]]:
    """Which sites exchange messages, as sorted pairs of names."""
    network = study.make_network(sites)
    names, ends = network.names, zip(*network.adjacency.nonzero(), strict=True)
    return [list(pair) for pair in sorted({tuple(sorted((names[i], names[j]))) for i, j in ends})]


def _check_run(sections: dict[str, Section]) -> None:
    remedies = {
        "output": "each site names its own with `starlings join --output`",
        "seed": "the sites agree on one when a run starts, so that nobody can choose it",
    }
    for name, remedy in remedies.items():
        if name in sections["run"].table:
            raise sections["run"].error(f"`{name}` cannot be set in a trial: {remedy}.")
    if sections["data"].table:
        raise sections["data"].error(
            "does not belong in a trial: every site names its own rows, with `--data`. Remove it."
        )


def _contacts(section: Section) -> dict[str, str]:
    found = {}
    for name in check_site_names(section.table, str(section.source)):
        table = section.table[name]
        if not isinstance(table, dict):
            raise section.error(f"`{name}` must be a section [sites.{name}], got {table!r}.")
        if set(table) - {"contact"} or not isinstance(table.get("contact", ""), str):
            raise section.error(f"[sites.{name}] may have the key `contact`, text, and no other.")
        found[name] = table.get("contact", "")
    return found


def _relays(section: Section) -> list[str]:
    if not section.table:
        return []
    section.check(keys_of(_Relay))
    for url in section.table["urls"]:
        parts = urlsplit(url)
        if parts.scheme not in ("wss", "ws") or not parts.hostname:
            raise section.error(f'`urls` must be like "wss://relay.example.org", got {url!r}.')
    return list(section.table["urls"])


@dataclass(frozen=True)
class _Relay:
    """The keys of [relay]."""

    urls: list[str]


def _direct(section: Section, sites: dict[str, str]) -> dict[str, str]:
    for name, address in section.table.items():
        if name not in sites:
            raise section.error(
                f"{name!r} is not one of the sites {list(sites)}.{nearest(name, sites)}"
            )
        if not isinstance(address, str) or not re.fullmatch(r"\S+:[0-9]{1,5}", address):
            raise section.error(f'`{name}` must be like "ashby.example.org:7443", got {address!r}.')
    missing = [name for name in sites if section.table and name not in section.table]
    if missing:
        raise section.error(f"has no address of {missing}; every site needs one.")
    return dict(section.table)


def _columns(section: Section, names: list[str]) -> dict[str, str]:
    for name, meaning in section.table.items():
        if name not in names:
            raise section.error(
                f"{name!r} is not a column of [model]: {names}.{nearest(name, names)}"
            )
        if not isinstance(meaning, str):
            raise section.error(f"`{name}` must be text in quotes, got {meaning!r}.")
    return {name: section.table.get(name, "") for name in names}


def _limits(section: Section) -> Limits:
    section.check(keys_of(Limits))
    for name, value in section.table.items():
        if not isinstance(value, str) and value <= 0:
            raise section.error(f"`{name}` must be above 0, got {value}.")
    found = Limits(**section.table)
    if found.absent not in ABSENT:
        raise section.error(f"`absent` must be one of {ABSENT}, got {found.absent!r}.")
    return found

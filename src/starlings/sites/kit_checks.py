"""Whether a site can take part: one line for each thing that can be wrong, with what to do.

Each check is a function of a `Situation`; it returns what is right in words, or raises an error
whose text says what is wrong and what to do. `DoubtError` is for what is no reason to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from starlings.errors import SiteError
from starlings.privacy.guard_rails import GuardRails
from starlings.sampling.private import measured_columns
from starlings.sites.certificates import (
    check_chain,
    check_dates,
    check_not_revoked,
    site_of,
)
from starlings.sites.documents import as_time, now_utc
from starlings.sites.keys import fingerprint, is_private
from starlings.sites.kit import Kit
from starlings.sites.manifest import versions
from starlings.sites.numerics import numeric_fingerprint
from starlings.sites.reachability import proxy_of_environment, try_address, try_relay
from starlings.sites.site_data import SiteData
from starlings.study.study import Study
from starlings.system.progress import number_of

PASS, WARN, FAIL, SKIP = "PASS", "WARN", "FAIL", "SKIP"
"""How a check can end. Only FAIL keeps a site from taking part."""
CLOCKS = timedelta(days=1)
"""How far the clock of the coordinator may be ahead of that of a site."""


class DoubtError(Exception):
    """Something that a site should know, and that does not keep it from taking part."""


class SkippedError(Exception):
    """A check that was not made, and why."""


@dataclass(frozen=True)
class Situation:
    """What is checked."""

    kit: Kit
    data: Path | None = None
    """What `--data` names."""
    is_offline: bool = False
    """Whether nothing is connected to."""
    now: datetime | None = None
    """The time; by default that of the clock."""

    @property
    def time(self) -> datetime:
        """The time of the checks."""
        return self.now or now_utc()


@dataclass(frozen=True)
class Line:
    """The outcome of one check."""

    outcome: str
    """PASS, WARN, FAIL or SKIP."""
    name: str
    text: str


def check_kit(
    path: Path,
    data: Path | None = None,
    folder: Path | None = None,
    is_offline: bool = False,
    now: datetime | None = None,
) -> list[Line]:
    """Check a kit and what it needs on this machine; a line with FAIL says what to do.

    Args:
        path: the kit.
        data: the rows of the site, as `--data` names them; None skips what is about rows.
        folder: the folder of the site; by default NAME-site, near the kit.
        is_offline: whether to connect to nothing.
        now: the time; by default that of the clock.
    """
    try:
        kit = Kit.open(path, folder)
    except (SiteError, OSError) as error:
        return [Line(FAIL, "kit", str(error))]
    situation = Situation(kit, data, is_offline, now)
    return [_outcome(name, check, situation) for name, check in CHECKS.items()]


def _outcome(name: str, check: Callable[[Situation], str], situation: Situation) -> Line:
    try:
        return Line(PASS, name, check(situation))
    except DoubtError as doubt:
        return Line(WARN, name, str(doubt))
    except SkippedError as reason:
        return Line(SKIP, name, str(reason))
    except (SiteError, ValueError, TypeError, OSError, ImportError) as error:
        return Line(FAIL, name, " ".join(str(error).split()))


def _kit(situation: Situation) -> str:
    return f"{situation.kit.path} is whole"


def _manifest(situation: Situation) -> str:
    kit = situation.kit
    if kit.site not in kit.manifest.sites:
        raise SiteError(
            f"{kit.site!r} is not among the sites of manifest {kit.manifest.number}: "
            f"{kit.manifest.sites}. Ask the coordinator."
        )
    return f"number {kit.manifest.number}, {kit.manifest.hash[:16]}, signed by the authority"


def _authority(situation: Situation) -> str:
    kit = situation.kit
    found = fingerprint(kit.authority.public_key())
    if not kit.home.authority_path.exists():
        raise DoubtError(
            f"{found}: compare it with the coordinator by telephone before you approve"
        )
    return f"{found}, as before"


def _certificate(situation: Situation) -> str:
    kit = situation.kit
    check_chain(kit.certificate, kit.authority, str(kit.path))
    check_not_revoked(kit.certificate, kit.revoked, str(kit.path))
    return f"of {site_of(kit.certificate, str(kit.path))}, issued by the authority, not revoked"


def _dates(situation: Situation) -> str:
    certificate, now = situation.kit.certificate, situation.time
    check_dates(certificate, str(situation.kit.path), now)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    left = f"valid until {ends:%Y-%m-%d}, {number_of((ends - now).days, 'day')} from now"
    if now > begins + (ends - begins) / 2:
        raise DoubtError(f"{left}: ask the coordinator to renew it")
    return left


def _permissions(situation: Situation) -> str:
    path = situation.kit.home.key_path
    if path.is_file() and not is_private(path):
        raise SiteError(f"others can read {path}. Run `chmod 600 {path}`.")
    if not path.is_file():
        raise SiteError(
            f"there is no private key at {path}. Go to the folder in which `starlings site "
            "request` was run, or name the folder of the site with `--folder`."
        )
    return f"only its owner can read {path}"


def _key(situation: Situation) -> str:
    return f"the certificate is for the key {fingerprint(situation.kit.key.public_key())}"


def _clock(situation: Situation) -> str:
    created = as_time(situation.kit.manifest.content, "created", "the manifest")
    if situation.time < created - CLOCKS:
        raise SiteError(
            f"this machine says {situation.time:%Y-%m-%d %H:%M} UTC, and the manifest was made on "
            f"{created:%Y-%m-%d %H:%M} UTC. Set the clock."
        )
    return f"{situation.time:%Y-%m-%d %H:%M} UTC, after the manifest was made"


def _version(situation: Situation) -> str:
    wanted, here = situation.kit.manifest.content["versions"], versions()
    if wanted.get("starlings") != here["starlings"]:
        raise SiteError(
            f"this is starlings {here['starlings']}, and the manifest is for "
            f"{wanted.get('starlings')}. Install it: pip install "
            f"'starlings[peers]=={wanted.get('starlings')}'."
        )
    other = [f"{n} {v} and not {wanted[n]}" for n, v in here.items() if wanted.get(n, v) != v]
    if other:
        raise DoubtError(f"{', '.join(other)}: no fault as long as the line on numbers says PASS")
    return ", ".join(f"{name} {version}" for name, version in here.items())


def _numbers(situation: Situation) -> str:
    wanted, found = situation.kit.manifest.content["numerics"], numeric_fingerprint()
    if found != wanted:
        raise SiteError(
            f"this machine computes other numbers ({found[:16]}) than that of the coordinator "
            f"({wanted[:16]}). Install the versions that the manifest names, and unset variables "
            "that change how JAX computes."
        )
    return "ten rounds of a test have the numbers that they should have"


def _columns(situation: Situation) -> str:
    data = _site_data(situation)
    names = list(situation.kit.manifest.content["columns"])
    if _has_code(situation):
        rows = len(data.tables(names, None)[situation.kit.site])
        return f"{', '.join(names)} in {number_of(rows, 'row')} of {data.path}"
    study = _study(situation, data)
    if study.has_formula:
        rows = len(study.draft([situation.kit.site]).rows[0].table)
        return f"{', '.join(names)} in {number_of(rows, 'row')} of {data.path}"
    rows = len(data.read(names, None)[situation.kit.site])
    return f"{', '.join(names)} in {number_of(rows, 'row')} of {data.path}, all of them numbers"


def _study(situation: Situation, data: SiteData) -> Study:
    manifest = situation.kit.manifest
    return manifest.study(Path(f"{manifest.trial}.toml"), data, has_sampler=False)


def _guard_rails(situation: Situation) -> str:
    kit, data = situation.kit, _site_data(situation)
    own = GuardRails.of_this_machine()
    limits = kit.manifest.limits
    if limits.rounds > own.most_rounds:
        raise SiteError(
            f"guard rail most_rounds: the manifest allows {limits.rounds:,} network rounds, and "
            f"this site {own.most_rounds:,}. Ask the coordinator for a smaller budget."
        )
    if _has_code(situation):
        raise SkippedError("the model is a Python file, which does not run before it is approved")
    study, is_masked = _study(situation, data), kit.manifest.content["privacy"] == "totals"
    if not is_masked:
        own.check_masks()
    rails = limits.with_those_of(own)
    if study.has_formula:
        study.draft([kit.site]).checked(rails, len(kit.manifest.sites), is_masked)
        return "rows and categories are enough, as far as one site can tell"
    problem = study.make_problem([kit.site])
    measured = measured_columns(problem)
    rails.check(len(kit.manifest.sites), problem.dim, problem.shards, measured=measured)
    return f"{number_of(problem.dim, 'parameter')}; rows and categories are enough"


def _has_code(situation: Situation) -> bool:
    """Whether the model is a Python file."""
    return "build" in situation.kit.manifest.content["model"]


def _site_data(situation: Situation) -> SiteData:
    if situation.data is None:
        raise SkippedError("name the rows with `--data` to check them")
    columns = list(situation.kit.manifest.content["columns"])
    return SiteData.open(situation.data, situation.kit.site, columns)


def _relay(situation: Situation) -> str:
    kit = situation.kit
    if situation.is_offline:
        raise SkippedError("--offline")
    proxy = proxy_of_environment()
    if proxy and kit.roster.relays:
        raise SkippedError(f"the variable {proxy} names a proxy; joining goes through it")
    others = [kit.roster.direct.get(site, "") for site in kit.roster.neighbours]
    tried = kit.roster.relays or [address for address in others if address]
    attempt = try_relay if kit.roster.relays else try_address
    faults = [fault for fault in map(attempt, tried) if fault]
    if len(faults) == len(tried) and faults:
        raise SiteError(
            f"{'; '.join(faults)}. Ask your network department to allow outward connections to it, "
            "and the coordinator whether it runs."
        )
    if faults:
        raise DoubtError(f"{'; '.join(faults)}; another one answers")
    return f"{', '.join(tried)} answers"


CHECKS: dict[str, Callable[[Situation], str]] = {
    "kit": _kit,
    "manifest": _manifest,
    "authority": _authority,
    "certificate": _certificate,
    "dates": _dates,
    "key file": _permissions,
    "key": _key,
    "clock": _clock,
    "version": _version,
    "numbers": _numbers,
    "columns": _columns,
    "guard rails": _guard_rails,
    "relay": _relay,
}
"""The checks, in the order in which they are made."""

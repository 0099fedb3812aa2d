"""Sites that are absent: what the manifest allows, and a run of the others that is one of its own.

All remaining sites say which ones are absent, by `starlings join --without`. They then have another
run than that of all sites: with a name

    run = SHA-256(hash of the manifest, names of the absent sites)                              (1)

and so with links, a journal, a seed and masks of its own. Nothing of the run of all sites is used
but the mode that it has found, if something stands in for the absent sites' rows: totals at the
same points, with and without a site, would tell that site's own numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from starlings.errors import ProtocolError, SiteError, nearest
from starlings.network import Network
from starlings.privacy.guard_rails import GuardRails
from starlings.problem import Problem
from starlings.problem.absent import STAND_IN
from starlings.runtime.peers import values
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.frames import RUN_BYTES
from starlings.sites.documents import canonical, sha256
from starlings.sites.keys import write_private
from starlings.sites.kit import Kit
from starlings.sites.limits import WAIT
from starlings.sites.manifest import Manifest
from starlings.tuning.absent import stood_in
from starlings.tuning.tuner import Coordinates

Whole = TypeVar("Whole", Problem, Network)
MODE_FILE = "mode"
"""The file in the folder of the run of all sites with the mode that it has found."""
NAMED_IN_ERRORS = 2
"""Absent sites up to which an error can say which run another site takes part in."""


def run_hash(manifest: Manifest, absent: Collection[str] = ()) -> str:
    """The name of a run, eq. (1); that of all sites is the hash of the manifest."""
    if not absent:
        return manifest.hash
    return sha256(canonical({"manifest": manifest.hash, "without": sorted(absent)}))


def run_bytes(manifest: Manifest, absent: Collection[str] = ()) -> bytes:
    """The name of a run, as it is in every frame."""
    return bytes.fromhex(run_hash(manifest, absent))[:RUN_BYTES]


@dataclass(frozen=True)
class Absence:
    """The sites that this site says are absent; nobody, unless it says otherwise."""

    manifest: Manifest
    sites: tuple[str, ...] = ()
    """Their names, sorted."""

    @classmethod
    def declared(cls, kit: Kit, names: Collection[str], rails: GuardRails) -> Absence:
        """What `--without` says, if the manifest and this site allow it.

        Args:
            kit: the kit of this site.
            names: the names of the absent sites.
            rails: the limits of this site and of the manifest.
        """
        manifest = kit.manifest
        for name in names:
            if name not in manifest.sites:
                hint = nearest(name, manifest.sites)
                raise SiteError(
                    f"--without {name}: {name!r} is not one of the sites {manifest.sites}.{hint}"
                )
        if kit.site in names:
            raise SiteError(f"--without {kit.site}: this is {kit.site}. Name only other sites.")
        found = cls(manifest, tuple(sorted(set(names))))
        if found.sites:
            found._check_allowed(rails)
        return found

    def _check_allowed(self, rails: GuardRails) -> None:
        gone, left = ", ".join(self.sites), len(self.manifest.sites) - len(self.sites)
        if self.manifest.limits.absent == WAIT:
            raise SiteError(
                f"manifest {self.manifest.number} allows no run without {gone}: `absent` in its "
                f'[limits] is "{WAIT}". Wait for {gone}, or have the coordinator make a new '
                "manifest, which all other sites approve."
            )
        if left < rails.fewest_sites:
            raise SiteError(
                f"without {gone} there are {left} sites, and `fewest_sites` is "
                f"{rails.fewest_sites} in the manifest or in the guard rails of this site: a total "
                f"over fewer tells one site what the others have. Wait for {gone}."
            )

    @property
    def present(self) -> list[str]:
        """The names of the sites that take part."""
        return [site for site in self.manifest.sites if site not in self.sites]

    @property
    def has_stand_in(self) -> bool:
        """Whether something stands in for the rows of absent sites."""
        return bool(self.sites) and self.manifest.limits.absent == STAND_IN

    @property
    def hash(self) -> str:
        """The name of the run, eq. (1)."""
        return run_hash(self.manifest, self.sites)

    @property
    def run(self) -> bytes:
        """The name of the run in every frame."""
        return run_bytes(self.manifest, self.sites)

    def without(self, whole: Whole) -> Whole:
        """The problem, or the network, of the sites that take part."""
        if not self.sites:
            return whole
        try:
            return whole.without(self.sites)
        except ValueError as error:
            raise SiteError(str(error)) from None

    def explain(self, site: str, neighbour: str) -> Callable[[bytes], str]:
        """What is wrong where a neighbour takes part in another run, by the name of that run.

        Args:
            site: this site.
            neighbour: the other one.
        """

        def explained(run: bytes) -> str:
            theirs = _absent_of(self.manifest, run)
            if theirs is None:
                return (
                    f"{neighbour} runs another study, another version of it, or without several "
                    "sites. All sites need kits with one manifest, one folder for each run, and "
                    "the same `--without`."
                )
            return (
                f"{neighbour} takes part in the run {_in_words(theirs)}, and {site} in the run "
                f"{_in_words(self.sites)}. All sites have to say the same: start {neighbour} "
                f"{_option(self.sites)}, or {site} {_option(theirs)}."
            )

        return explained


def _absent_of(manifest: Manifest, run: bytes) -> tuple[str, ...] | None:
    """The absent sites of a run, by its name; None if it is no run without few of the sites."""
    for count in range(NAMED_IN_ERRORS + 1):
        for absent in itertools.combinations(sorted(manifest.sites), count):
            if run_bytes(manifest, absent) == run:
                return absent
    return None


def _in_words(absent: Collection[str]) -> str:
    return f"without {', '.join(absent)}" if absent else "with all sites"


def _option(absent: Collection[str]) -> str:
    options = " ".join(f"--without {name}" for name in absent)
    return f"with `{options}`" if options else "without the option `--without`"


@dataclass(frozen=True)
class Saved:
    """What the run of all sites has found, on the disk of this site: its mode, or its encoding."""

    path: Path

    @classmethod
    def of(cls, home: Path, manifest: Manifest, file: str = MODE_FILE) -> Saved:
        """What a file has in the folder of the run of a manifest; by default the mode."""
        return cls(run_folder(home, manifest.hash) / file)

    def save(self, mode: Coordinates, rows: bytes) -> None:
        """Keep a mode, with the digest of the rows of this site."""
        self.save_bytes(values.encoded(tuple(mode[:2])), rows)

    def save_bytes(self, saved: bytes, rows: bytes) -> None:
        """Keep bytes, with the digest of the rows of this site."""
        write_private(self.path, values.encoded((rows, saved)))

    def load(self, rows: bytes) -> bytes:
        """The saved bytes, or none if this site has not saved any; other rows are an error."""
        if not self.path.is_file():
            return b""
        before, saved = values.decoded(self.path.read_bytes())
        if before != rows:
            raise SiteError(
                "the rows or a package have changed since the run with all sites, and what it "
                "found cannot stand in for absent sites any more. Restore what was there."
            )
        return bytes(saved)


def run_folder(home: Path, run: str) -> Path:
    """The folder of a run in the folder of its site."""
    return home / f"run-{run[:16]}"


def with_stand_in(
    problem: Problem, network: Network, own: bytes, communicator: PeersCommunicator
) -> Problem:
    """The problem with a Gaussian in place of the absent sites' rows, at a mode that all have.

    Args:
        problem: that of the sites that take part, without a stand-in.
        network: these sites.
        own: the mode that this site has saved, as bytes; none if it has not.
        communicator: how this site talks to the others.
    """
    every = communicator.everybody(communicator.remembered(lambda: own))
    known = sorted({mode for mode in every if mode})
    gone = ", ".join(problem.absent.sites if problem.absent else ())
    if not known:
        raise SiteError(
            f"nothing can stand in for {gone}: no site has the mode of the run with all sites, "
            f"which had not come so far. Wait for {gone}, or have the coordinator make a new "
            'manifest with `absent = "leave"`.'
        )
    if len(known) > 1:
        differing = [name for name, mode in zip(network.names, every, strict=True) if mode]
        raise SiteError(
            f"{', '.join(differing)} do not have the same mode of the run with all sites. Somebody "
            "has begun that run anew: do so at all sites."
        )
    return stood_in(problem, network, _coordinates(known[0], problem.dim))


def _coordinates(data: bytes, dim: int) -> Coordinates:
    """The mode of these bytes."""
    try:
        centre, scale = values.decoded(data)
        is_right = _are_numbers(centre, (dim,)) and (
            _are_numbers(scale, (dim,)) or _are_numbers(scale, (dim, dim))
        )
    except (ProtocolError, TypeError, ValueError):
        is_right = False
    if not is_right:
        raise SiteError(
            f"the mode of another site is not one of {dim} parameters. Ask who runs it."
        )
    return Coordinates(centre, scale, is_at_mode=True)


def _are_numbers(found: Any, shape: tuple[int, ...]) -> bool:
    is_array = isinstance(found, np.ndarray) and found.dtype == np.float64
    return is_array and found.shape == shape and bool(np.isfinite(found).all())

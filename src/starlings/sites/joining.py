"""`starlings join`: one site takes part in a run, for as long as the run takes.

    check       kit, approval, rows and guard rails, before anything is sent
    connect     links to the neighbours, which are opened again whenever they break
    agree       who is there, the seed, and keys for masks (`agreement`)
    sample      the same program at every site
    finish      the result of this site, and patience until the neighbours have all they need

A site may be stopped at any moment, in any way. The same command goes on where it was: the journal
in the folder of the run has all that the site received. When a run is over, the same command makes
the same result again, without any neighbour.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from starlings.errors import UnfinishedNeighbourWarning
from starlings.network import Network
from starlings.network.budget import Budget
from starlings.problem import Problem
from starlings.results.outputs import RunFiles
from starlings.results.result import Result
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.links import Links
from starlings.runtime.peers.stream import Stream
from starlings.sampling import sample
from starlings.sampling.private import check_rails
from starlings.sites.absence import with_stand_in
from starlings.sites.agreement import agree
from starlings.sites.encodings import encoding_bytes, encoding_of_all
from starlings.sites.endings import ended_by_signals, ended_by_time, first_start
from starlings.sites.keys import write_private
from starlings.sites.same_run import OwnOutput, check_unchanged, digest_of_rows
from starlings.sites.site import Connection, Site
from starlings.sites.status import StatusFile
from starlings.sites.transcript import Transcript
from starlings.study.draft import Draft
from starlings.system.progress import Progress, observed_by

LINGERING = 60.0
"""Seconds for which a site that is done waits until its neighbours have all messages."""


def join(
    kit: str | Path,
    data: str | Path,
    output: str | Path,
    *,
    folder: str | Path | None = None,
    overwrite: bool = False,
    connection: Connection | None = None,
    progress: bool | None = None,
    without: Collection[str] = (),
) -> Result:
    """Take part in a run, and return the draws of this site.

    Args:
        kit: the kit of the site, whose manifest it has approved.
        data: its rows, a .csv or .parquet file, or a TOML file that names one and its columns.
        output: the netCDF file for the draws of this site; nobody else's are in it.
        folder: the folder of the site, with its private key; by default NAME-site, near the kit.
        overwrite: replace the output file if it exists and is not of this run.
        connection: how relays are reached.
        progress: show what is being done; by default only on a terminal.
        without: sites that are absent, if the manifest allows to go on without them. All other
            sites have to say the same; theirs is a run of its own.
    """
    home = None if folder is None else Path(folder)
    site = Site.prepare(Path(kit), Path(data), home, without)
    own = OwnOutput(site.folder / "output", Path(output).absolute())
    overwrite = overwrite or own.is_of_this_run
    RunFiles(output, overwrite).check([Path(kit), Path(data)])
    with _joined(site, connection or Connection(), Progress(progress)) as joined:
        communicator, streams, status = joined
        check_unchanged(site.problem, communicator)
        network = site.network.distributed([site.number], communicator)
        network = network.limited(Budget(site.rails.most_rounds))
        agreement = agree(site.kit, site.approval, network, communicator, site.rails)
        if site.kit.manifest.content["privacy"] == "totals":
            network = network.masked(agreement.secrecy)
        problem = _problem(site, network, communicator)
        if not site.absence.sites:
            network = network.noting_mode(lambda mode: _save_mode(site, mode))
        settings = site.study.run_settings() | {"seed": agreement.seed, "privacy": "none"}
        sampler = site.study.make_sampler()
        with observed_by(status):
            result = sample(problem, network, sampler, **settings, progress=progress)
        _note(result, site)
        own.claim()
        result.save(output, overwrite)
        status.began("last messages to the neighbours")
        communicator.barrier()
        _linger(communicator.journal, streams, site.folder / "delivered")
    return result


def _problem(site: Site, network: Network, communicator: PeersCommunicator) -> Problem:
    """The problem of the sites that take part, with a stand-in for the others if there is one."""
    problem = site.problem
    if isinstance(problem, Draft):
        problem = _agreed(site, problem, network, communicator)
        check_rails(problem, site.network, site.rails)
    if not site.absence.has_stand_in:
        return problem
    own = site.saved_mode.load(digest_of_rows(site.problem))
    return with_stand_in(problem, site.network, own, communicator)


def _agreed(site: Site, draft: Draft, network: Network, communicator: PeersCommunicator) -> Problem:
    """The problem of a formula: agreed now, or as in the run of all sites if some are absent.

    Sums with and without a site would tell that site's own numbers, so that they are not repeated.
    """
    everybody, rows = site.kit.manifest.sites, digest_of_rows(draft)
    if site.absence.sites:
        known = encoding_of_all(site.network, site.saved_encoding.load(rows), communicator)
        if known is not None:
            return site.absence.without(draft.encoded(known).part_of(everybody))
    problem = draft.problem(network)
    if not site.absence.sites:
        site.saved_encoding.save_bytes(encoding_bytes(problem), rows)
    return site.absence.without(problem.part_of(everybody))


def _save_mode(site: Site, mode: Any) -> None:
    """Keep the mode of the run of all sites, for when one of them does not come back."""
    site.saved_mode.save(mode, digest_of_rows(site.problem))


@contextmanager
def _joined(
    site: Site, connection: Connection, progress: Progress
) -> Iterator[tuple[PeersCommunicator, list[Stream], StatusFile]]:
    """A context with links to all neighbours, which ends them whatever happens."""
    with ExitStack() as stack:
        journal = Journal(site.folder / "journal", site.run)
        stack.callback(journal.close)
        names, manifest = site.network.names, site.kit.manifest
        transcript = Transcript(site.folder / "transcript.log", site.kit.site, site.absence.hash)
        stack.callback(transcript.close)
        streams = {}
        for name in site.neighbours:
            stream = Stream(site.run, site.number, names.index(name), name, journal)
            stream.explain_run = site.absence.explain(site.kit.site, name)
            transcript.follow(stream)
            streams[name] = stream
        for stream in streams.values():
            stream.others = [other for other in streams.values() if other is not stream]
        communicator = PeersCommunicator(
            site.network, site.number, {s.number: s for s in streams.values()}, journal
        )
        ways = {name: site.way(name, connection) for name in streams}
        links = Links(site.identity, ways, streams, delay=connection.delay)
        links.start()
        stack.callback(links.close)
        status = StatusFile(site.folder, site.kit, communicator, links, site.absence.sites)
        stack.enter_context(status)
        began = first_start(site.folder / "began")
        stack.enter_context(ended_by_signals(streams.values()))
        stack.enter_context(ended_by_time(streams.values(), manifest.limits.hours, began))
        progress.print_status(f"{site.kit.site}: waiting for {', '.join(streams)}")
        try:
            yield communicator, list(streams.values()), status
            transcript.end()
        except BaseException as error:
            raise _cause(error, communicator, streams.values()) from None


def _cause(error: BaseException, communicator: PeersCommunicator, streams: Any) -> BaseException:
    """What ended a run: compiled code reports every error in words of its own."""
    failures = (communicator.failure, *(stream.failure for stream in streams))
    return next((failure for failure in failures if failure is not None), error)


def _note(result: Result, site: Site) -> None:
    """Say in the result which site it is of, and by which manifest."""
    result.set_attribute("site", site.kit.site)
    result.set_attribute("manifest", site.kit.manifest.hash)


def _linger(journal: Journal, streams: Sequence[Stream], note: Path) -> None:
    """Wait until the neighbours have all messages on disk; one that is away for long is left.

    Args:
        journal: the journal of this site.
        streams: the messages of each neighbour.
        note: a file that says that the neighbours have everything, for when the run is repeated.
    """
    journal.sync()  # and the neighbours are told that this site needs nothing any more
    if note.is_file():
        return
    ending, pause = time.monotonic() + LINGERING, threading.Event()
    while away := [stream.neighbour for stream in streams if not stream.is_delivered]:
        if time.monotonic() > ending:
            warnings.warn(
                f"this site is done, and {', '.join(away)} may still need messages of it. If so, "
                "run the same command again when they are back.",
                UnfinishedNeighbourWarning,
                stacklevel=2,
            )
            return
        pause.wait(0.05)
    write_private(note, b"")

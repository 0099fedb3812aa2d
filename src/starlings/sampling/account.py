"""What a run has cost, and what has left the sites: the whole of it, for its result.

What was sent before the first round (see `starlings.network.opening`), by tuning, by the draws and
by their examination adds up. The result has further numbers of single sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlings.network.ledger import Ledger
from starlings.results.gather import Run
from starlings.results.kinds import CHECKSUMS, LOCAL_RESULT, RESIDUALS, RESULT, ROWS, UNDEFINED


def total(run: Run, *parts: Any) -> Ledger:
    """The sum of ledgers, and what was sent before the first round.

    Args:
        run: the run that is over.
        parts: what was sent: a `Ledger`, or anything else with its fields.
    """
    found = Ledger()
    for part in (run.network.opening, *parts):
        found.rounds += part.rounds
        found.messages += part.messages
        found.floats += part.floats
        for kind, numbers in part.kinds.items():
            found.note(kind, numbers, part.senders.get(kind))
    return found


def note_result(ledger: Ledger, run: Run, own_draws: bool, found: Mapping[str, Any]) -> None:
    """Note the numbers of single sites that are in a result, where other sites' are in it too.

    Args:
        ledger: where they are noted.
        run: the run that is over.
        own_draws: whether every agent makes draws of its own.
        found: the attributes of the result; `model` may have rows and checksums of the local sites.
    """
    if not run.network.communicator.collects:
        return
    if own_draws:
        numbers = run.chains * run.recording.count
        ledger.note(RESULT, numbers * run.problem.num_shared)
        ledger.note(RESIDUALS, numbers)
    columns = found["model"].get("columns", {})
    if columns:
        ledger.note(ROWS, 1)
        ledger.note(CHECKSUMS, 1 + len(next(iter(columns.values()))), list(columns))
    if "undefined_sites" in found and run.network.secrecy is None:
        ledger.note(UNDEFINED, 1, run.network.local_names)


def note_local(ledger: Ledger, run: Run) -> None:
    """Note the draws of parameters of a site's own, where a result has those of several sites."""
    if run.network.communicator.collects and run.problem.num_local:
        ledger.note(LOCAL_RESULT, run.chains * run.recording.count * run.problem.num_local)


def attributes(ledger: Ledger, run: Run, bytes_of_rounds: int = 0) -> dict[str, Any]:
    """The account as attributes of a result; messages of rounds may have other types."""
    return {
        "network_rounds": ledger.rounds,
        "bytes_sent": ledger.bytes + bytes_of_rounds,
        "disclosed": ledger.kinds,
        "disclosed_by": ledger.senders,
        "processes": run.network.communicator.size if run.network.communicator.collects else 0,
    }

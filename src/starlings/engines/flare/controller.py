"""What the server of FLARE does in a job: it adds and forwards, in the order of the sites."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller, Task
from nvflare.apis.shareable import Shareable

from starlings.engines.flare import KNOWN, MESSAGE, NUMBER, REPLY, STATE, TASK, TOPIC
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.hub.hub import serve
from starlings.runtime.hub.mailbox import State, Visit

VISIT_SECONDS = 10.0
"""Seconds after which a visit counts as failed; a site answers within one."""
LOOK_EVERY = 0.05
"""Seconds from one look at the results of the first task to the next."""


class SumsController(Controller):
    """The hub of a job.

    Args:
        sites: the names of all sites, in the order in which arrays are added.
        patience: seconds for which a site may be out of reach.
        start_patience: seconds within which all sites have to be ready.
    """

    def __init__(self, sites: list[str], patience: float, start_patience: float = 600.0) -> None:
        super().__init__(task_check_period=LOOK_EVERY)
        self.sites, self.patience, self.start_patience = sites, patience, start_patience
        self.known: dict[str, int] = {}
        """By site, how many replies it has from before."""

    def start_controller(self, fl_ctx: Any) -> None:
        """Begin: there is nothing to prepare."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """End: there is nothing to clear away."""

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        """Pass over results of tasks that this controller has not given."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Wait until all sites are ready, serve their calls, and end."""
        try:
            self._wait_for_sites(abort_signal, fl_ctx)
            known = min(self.known.values())
            self.log_info(fl_ctx, f"all sites are ready; they go on after {known:,} calls")
            with ThreadPoolExecutor(len(self.sites)) as threads:

                def visit(visits: Mapping[str, Visit]) -> dict[str, tuple[State, bytes]]:
                    if abort_signal.triggered:
                        raise SiteError("the job was aborted, by its admin or because a site died.")
                    replies = threads.map(
                        lambda site: self._sent(site, _letter(visits[site], known), fl_ctx), visits
                    )
                    found = zip(visits, replies, strict=True)
                    return {site: _said(reply) for site, reply in found if _is_well(reply)}

                took = serve(self.sites, visit, self.patience)
            typical = f"{1000 * statistics.median(took):.1f} ms" if took else "none was needed"
            self.log_info(fl_ctx, f"all sites are done; calls now {len(took)}, typical {typical}")
        except (SiteError, ProtocolError) as error:
            self.log_error(fl_ctx, str(error))
            if not abort_signal.triggered:  # or FLARE has said already why it ends the job
                self.system_panic(str(error), fl_ctx)

    def _sent(self, site: str, letter: Shareable, fl_ctx: Any) -> Any:
        """The answer of one site; None if it could not be reached."""
        where = {"targets": [site], "topic": TOPIC, "request": letter}
        found = fl_ctx.get_engine().send_aux_request(
            **where, timeout=VISIT_SECONDS, fl_ctx=fl_ctx, optional=True
        )
        return found.get(site)

    def _wait_for_sites(self, abort_signal: Any, fl_ctx: Any) -> None:
        task = Task(
            TASK,
            Shareable(),
            timeout=int(self.start_patience),
            result_received_cb=lambda client_task, fl_ctx: self._note(client_task),
        )
        self.broadcast_and_wait(
            task, fl_ctx, self.sites, min_responses=len(self.sites), abort_signal=abort_signal
        )
        missing = [site for site in self.sites if site not in self.known]
        if missing:
            raise SiteError(
                f"{', '.join(missing)} cannot take part, or did not answer. Nothing was sent. The "
                "log of the site says why; nobody else is told."
            )

    def _note(self, client_task: Any) -> None:
        """Note that a site is ready."""
        result = client_task.result
        if result.get_return_code() == ReturnCode.OK:
            self.known[client_task.client.name] = int(result[KNOWN])


def _letter(visit: Visit, known: int) -> Shareable:
    letter = Shareable()
    letter[NUMBER], letter[REPLY], letter[KNOWN] = visit.number, visit.reply, known
    return letter


def _is_well(reply: Any) -> bool:
    return reply is not None and reply.get_return_code() == ReturnCode.OK


def _said(reply: Any) -> tuple[State, bytes]:
    return State(reply[STATE]), bytes(reply[MESSAGE])

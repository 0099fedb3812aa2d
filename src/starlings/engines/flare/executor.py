"""What a site of FLARE does in a job: one program, from its rows to its draws, in a thread.

FLARE sends the errors in its logs to the server. Ours may say something of rows, so they are
written to a file of the site, starlings.log in its workspace, and FLARE's log says no more than
that there was one.
"""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.shareable import make_reply

from starlings.engines.flare import JOB_FILE, KNOWN, MESSAGE, NUMBER, REPLY, STATE, TASK, TOPIC
from starlings.engines.identity import Identity
from starlings.engines.job import Job
from starlings.engines.program import SiteProgram
from starlings.engines.settings import FILE, SiteSettings
from starlings.errors import SiteError, in_one_line
from starlings.runtime.hub.mailbox import Mailbox, State, Visit
from starlings.system import compilation_cache

LOG = "starlings.log"
"""The file with errors, in the workspace of the site."""
FAREWELL = 30.0
"""Seconds for which the end of a job waits for the program to end."""


class SiteExecutor(Executor):
    """The program of one site, which lives as long as the job."""

    def __init__(self) -> None:
        super().__init__()
        self.box = Mailbox()
        self.program: SiteProgram | None = None
        self.thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Listen to the hub from the start of a job, and end with it."""
        if event_type == EventType.START_RUN:
            self.log_file = Path(_workspace(fl_ctx).get_root_dir()) / LOG
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self.visited)
        elif event_type in (EventType.ABORT_TASK, EventType.END_RUN):
            self.box.close("the hub has ended the run; its log says why.")
            if self.thread is not None:
                self.thread.join(FAREWELL)
            if self.program is not None:
                self.program.journal.close()

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        """Get ready, and say how many replies of the hub this site has from before."""
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        try:
            self.program = _prepared(fl_ctx)
        except Exception as error:
            self._write_down(error)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        result = make_reply(ReturnCode.OK)
        result[KNOWN] = self.program.known
        return result

    def visited(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        """Take what the hub brings, and hand it the next message."""
        with self._starting:
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, args=(int(request[KNOWN]),))
                self.thread.start()
        state, message = self.box.visited(Visit(int(request[NUMBER]), bytes(request[REPLY])))
        reply = make_reply(ReturnCode.OK)
        reply[STATE], reply[MESSAGE] = int(state), message
        return reply

    def _write_down(self, error: BaseException) -> None:
        """Say what ended the program, to this site only."""
        when = datetime.now().isoformat(" ", "seconds")
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(f"{when}  {in_one_line(error)}\n")
        self.logger.error(f"this site has stopped; it finds the reason in its own file {LOG}.")

    def _run(self, known: int) -> None:
        try:
            assert self.program is not None
            self.program.run(self.box.ask, known)
            self.logger.info("the draws of this site are in its own folder for results")
            self.box.end(State.DONE)
        except BaseException as error:
            self._write_down(error)
            self.box.end(State.STOPPED)


def _workspace(fl_ctx: Any) -> Any:
    return fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)


def _prepared(fl_ctx: Any) -> SiteProgram:
    """The program of this site, from the job, and from the settings of the site."""
    compilation_cache.turn_on()
    workspace, site = _workspace(fl_ctx), fl_ctx.get_identity_name()
    code = Path(workspace.get_app_custom_dir(fl_ctx.get_job_id()))
    job = Job.read(Path(workspace.get_app_config_dir(fl_ctx.get_job_id())) / JOB_FILE, code)
    settings = SiteSettings.read(Path(workspace.get_site_config_dir()) / FILE, job)
    kit = Path(workspace.get_startup_kit_dir())
    files = (kit / name for name in ("client.crt", "client.key", "rootCA.pem"))
    identity = Identity.of_files(site, *files)
    if identity is None and job.privacy == "totals":
        raise SiteError(
            f"{kit / 'client.crt'} is missing: without certificates the hub could exchange the "
            "keys for masks. Ask the admin of FLARE for a startup kit."
        )
    return SiteProgram.prepared(job, site, settings, identity, code)

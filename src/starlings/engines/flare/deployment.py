"""A deployment of FLARE on this machine: provisioned, with mutual TLS, on the loopback only.

As between organisations every party has a folder and a process of its own, a certificate and a key.
The admin submits jobs.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlings.engines.flare.workspace import allow, read_resources, write_resources
from starlings.errors import SiteError
from starlings.system.extras import import_extra

SERVER, ADMIN, PROJECT = "localhost", "admin@starlings.org", "starlings"
"""The names of the server, of who submits jobs, and of all of it."""
START_SECONDS, JOB_SECONDS, STOP_SECONDS = 90.0, 900.0, 10.0
"""Seconds to start, for a job, and for a process to end."""
LOOK_EVERY = 0.1
"""Seconds from one look to the next."""
FINISHED = "FINISHED:COMPLETED"
"""What FLARE says of a job that ended well."""
QUICK = {"task_request_interval": 0.2, "heart_beat_interval": 2.0}
"""Settings of sites by which a job starts without long pauses."""


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    status: str
    """What FLARE says of it."""
    submitted: float
    """When it was submitted, in seconds since 1970."""
    seconds: float
    """From then to its end."""


@dataclass
class Deployment:
    """A server and sites, once provisioned, as processes; a context that starts and ends them.

    Args:
        folder: a folder for everything, which is made.
        sites: the names of the sites.
    """

    folder: Path
    sites: list[str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    orphans: list[Any] = field(default_factory=list)
    """Processes whose parents were killed."""
    started: dict[str, float] = field(default_factory=dict)
    """When each was started: what the server heard of it before counts no more."""

    def __post_init__(self) -> None:
        import_extra("nvflare", "a deployment of FLARE", extra="flare")

    def __enter__(self) -> Deployment:
        try:
            self.start(SERVER, *self.sites)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def workspace(self, name: str) -> Path:
        """The folder of the server, of a site, or of the admin."""
        return self.folder / PROJECT / "prod_00" / name

    def provision(self) -> None:
        """Make certificates, keys and folders for all parties, and allow our classes."""
        self.folder.mkdir(parents=True)
        project = self.folder / "project.yml"
        project.write_text(_project(self.sites, *_free_ports(2)), encoding="utf-8")
        command = ["-m", "nvflare.cli", "provision", "-p", str(project), "-w", str(self.folder)]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        if done.returncode:
            raise SiteError(f"FLARE could not be provisioned: {done.stdout} {done.stderr}")
        for name in (SERVER, *self.sites):
            allow(self.workspace(name))
            resources = read_resources(self.workspace(name))
            if name == SERVER:
                _keep_inside(resources, self.folder)
            else:
                resources["client"] |= QUICK
            write_resources(self.workspace(name), resources)

    def start(self, *names: str) -> None:
        """Start the server or sites."""
        settings = ["secure_train=true", "org=site", "config_folder=config"]
        for name in names:
            self.started[name] = time.time()
            party = ["-m", str(self.workspace(name)), "--set", f"uid={name}", *settings]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-u", "-m", *_module(name), *party],
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                    start_new_session=True,
                )

    def run(self, job: Path, watch: Callable[[str], None] = lambda job_id: None) -> Ended:
        """Submit a job, wait for its end, and say how it ended.

        Args:
            job: the folder of the job.
            watch: called with the name of the job again and again while it runs.
        """
        session = self.session()
        try:
            self._wait_for_sites(session)
            submitted = time.time()
            job_id = session.submit_job(str(job))
            while time.time() < submitted + JOB_SECONDS:
                if self.processes[SERVER].poll() is not None:
                    raise SiteError(f"the server of FLARE is gone; see {self.folder}.")
                status = str(session.get_job_meta(job_id)["status"])
                if status.startswith("FINISHED"):
                    return Ended(status, submitted, time.time() - submitted)
                watch(job_id)
                time.sleep(LOOK_EVERY)
        finally:
            session.close()
        raise SiteError(f"the job did not end within {JOB_SECONDS:.0f} s; see {self.folder}.")

    def session(self) -> Any:
        """A session of the admin, as soon as the server is there."""
        flare_api = import_extra("nvflare.fuel.flare_api.flare_api", "FLARE", extra="flare")
        ending = time.monotonic() + START_SECONDS
        while True:
            try:
                with redirect_stdout(io.StringIO()):  # it says that it connects
                    return flare_api.new_secure_session(
                        ADMIN, str(self.workspace(ADMIN)), timeout=2.0
                    )
            except Exception as error:
                if time.monotonic() > ending or self.processes[SERVER].poll() is not None:
                    raise SiteError(f"the server of FLARE cannot be reached: {error}") from None
                time.sleep(LOOK_EVERY)

    def _wait_for_sites(self, session: Any) -> None:
        ending = time.monotonic() + START_SECONDS
        while time.monotonic() < ending:
            found = session.get_system_info().client_info
            there = {c.name for c in found if c.last_connect_time > self.started[c.name]}
            if there >= set(self.sites):
                return
            time.sleep(LOOK_EVERY)
        raise SiteError(f"{sorted(set(self.sites) - there)} did not register; see {self.folder}.")

    def workers(self, name: str) -> list[Any]:
        """The processes that the process of a party has started for jobs."""
        psutil = import_extra("psutil", "a deployment of FLARE", extra="flare")
        try:
            return psutil.Process(self.processes[name].pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill(self, name: str) -> None:
        """End the process of a party at once, and leave those that it started, until `stop`."""
        self.orphans += self.workers(name)
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        """End all processes that were started here, and those that they started."""
        psutil = import_extra("psutil", "a deployment of FLARE", extra="flare")
        workers = [worker for name in self.processes for worker in self.workers(name)]
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for worker in (*workers, *self.orphans):
            with suppress(psutil.NoSuchProcess):  # such as one that got its number since
                worker.kill()


def _module(name: str) -> list[str]:
    """The module of FLARE that the server or a site runs, and its file of settings."""
    if name == SERVER:
        return ["nvflare.private.fed.app.server.server_train", "-s", "fed_server.json"]
    return ["nvflare.private.fed.app.client.client_train", "-s", "fed_client.json"]


def _environment() -> Mapping[str, str]:
    """The environment of this process, without a proxy for what stays on this machine."""
    return {**os.environ, "NO_PROXY": "localhost", "no_proxy": "localhost"}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _keep_inside(resources: dict[str, Any], folder: Path) -> None:
    """Keep what the server stores of jobs in the folder of the deployment."""
    storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
    storage["root_dir"] = str(folder / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(folder / "jobs")


def _project(sites: list[str], port: int, admin_port: int) -> str:
    """The project file; JSON is YAML too."""
    server = {"name": SERVER, "type": "server", "org": "hub"}
    admin = {"name": ADMIN, "type": "admin", "org": "hub", "role": "project_admin"}
    lighter = "nvflare.lighter.impl"
    static = {"config_folder": "config", "scheme": "grpc"}
    project = {
        "api_version": 3,
        "name": PROJECT,
        "description": "sites on one machine",
        "participants": [
            {**server, "fed_learn_port": port, "admin_port": admin_port},
            *({"name": site, "type": "client", "org": "site"} for site in sites),
            admin,
        ],
        "builders": [
            {"path": f"{lighter}.workspace.WorkspaceBuilder"},
            {"path": f"{lighter}.static_file.StaticFileBuilder", "args": static},
            {"path": f"{lighter}.cert.CertBuilder"},
            {"path": f"{lighter}.signature.SignatureBuilder"},
        ],
    }
    return json.dumps(project, indent=2)

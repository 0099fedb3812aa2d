"""NVIDIA FLARE as the engine: `starlings` as one of its jobs.

    controller   at the server: visits the sites, adds and forwards, and ends for all where one is
                 lost
    executor     at each site: a thread with the program, for as long as the job runs
    export       the folder that `nvflare job submit` takes
    deployment   a server and sites on this machine, provisioned, with mutual TLS

A task at the start makes sure that all sites are ready. Everything else travels in auxiliary
messages, as bytes.
"""

from __future__ import annotations

JOB_FILE = "job.toml"
"""The file of the job, in the folder `config` of its app."""
TASK = "starlings"
"""The task that sites get at the start; its result says how many replies they have."""
TOPIC = "starlings"
"""The topic of the auxiliary messages."""
NUMBER, REPLY, STATE, MESSAGE, KNOWN = "number", "reply", "state", "message", "known"
"""The keys of what travels in them."""
CONTROLLER = "starlings.engines.flare.controller.SumsController"
EXECUTOR = "starlings.engines.flare.executor.SiteExecutor"
"""The two classes that a job names, and that server and sites allow."""

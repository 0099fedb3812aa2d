"""The command line, `starlings`.

    application.py    the application: what all commands share, such as options and errors
    sampling.py       sample, show, samplers
    reports.py        report; pages.py has what `sample --report` does
    checking.py       theory, calibrate, compare, compare-models
    sites.py          study init, site request, provision, check, approve, audit
    joining.py        join, relay, rehearse
    views.py          status, dashboard
    flare.py          flare export, flare accept, flare allow, flare simulate
    research.py       demo, accuracy, paper, field

Importing a module of commands registers them, in the order in which `starlings --help` lists them.
Everything heavy is imported inside the commands, so that `--help` is immediate.
"""

from starlings.cli import sampling  # isort: skip
from starlings.cli import reports  # isort: skip
from starlings.cli import checking  # isort: skip
from starlings.cli import sites  # isort: skip
from starlings.cli import joining  # isort: skip
from starlings.cli import views  # isort: skip
from starlings.cli import flare  # isort: skip
from starlings.cli import research  # isort: skip
from starlings.cli.application import app, run

__all__ = [
    "app",
    "checking",
    "flare",
    "joining",
    "reports",
    "research",
    "run",
    "sampling",
    "sites",
    "views",
]

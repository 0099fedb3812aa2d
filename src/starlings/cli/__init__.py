"""The command line, `starlings`.

    application.py    the application: what all commands share, such as options and errors
    sampling.py       sample, show, samplers
    checking.py       theory, calibrate, compare-models
    research.py       demo, accuracy, paper

Importing a module of commands registers them, in the order in which `starlings --help` lists them.
Everything heavy is imported inside the commands, so that `--help` is immediate.
"""

from starlings.cli import sampling  # isort: skip
from starlings.cli import checking  # isort: skip
from starlings.cli import research  # isort: skip
from starlings.cli.application import app, run

__all__ = ["app", "checking", "research", "run", "sampling"]

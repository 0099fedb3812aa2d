"""`python -m starlings` is the command `starlings`."""

from starlings.cli import run

run()

"""`python -m starlings` runs the command line, as the console script `starlings` does."""

from starlings.cli import run

run()

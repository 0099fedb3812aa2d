"""`python -m starlings` is the command `starlings`."""

from starlings.cli import app

app(prog_name="starlings")

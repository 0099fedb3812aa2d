"""The application: options that several commands have, warnings, errors and exit codes.

A command is a function under `@command(panel)`. Its errors end in one line on stderr and exit code
1; with the environment variable STARLINGS_DEBUG=1 they show their traceback instead. Exit code 2 is
wrong usage, and 130 an interrupt (Ctrl-C).
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from starlings._version import __version__

QUIET_XLA = ("TF_CPP_MIN_LOG_LEVEL", "3")
"""An environment variable and its value with which XLA writes no log. XLA of JAX 0.9 takes every
program that it finds in the compilation cache for one of another machine, and says so."""
INTERRUPTED = 130
"""The exit code of a process that was ended by Ctrl-C, by custom of shells."""

app = typer.Typer(
    help="Decentralised Bayesian inference: every agent draws from the posterior of everybody's "
    "data, talking only to its neighbours.\n\nA study is a TOML file that names the model, the "
    "data, the network, the sampler and the number of draws.",
    epilog="Example: starlings sample hospitals.toml && starlings show hospitals.nc. "
    "`starlings COMMAND --help` explains a command, with an example. Errors are one line; with the "
    "environment variable STARLINGS_DEBUG=1 they show where they come from.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress; warnings stay.")]
"""The option of commands that report progress on stderr."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
"""The option of commands that print a table on stdout."""
StudyFile = Annotated[
    Path, typer.Argument(dir_okay=False, help="The TOML file of the study, such as hospitals.toml.")
]
"""The argument of commands that read a study."""


def count_option(least: int, meaning: str, default: str | None = None) -> Any:
    """An option that is a whole number of at least `least`.

    Args:
        least: the smallest number that is allowed.
        meaning: the help text.
        default: the default as the help shows it; None if it is the default in the code.
    """
    return typer.Option(min=least, metavar="N", help=meaning, show_default=default or True)


def command_group(name: str, panel: str, meaning: str) -> typer.Typer:
    """Commands of two words, such as `starlings site request`.

    Args:
        name: the first word.
        panel: the heading under which `starlings --help` lists them.
        meaning: the help text.
    """
    settings = {"help_option_names": ["-h", "--help"]}
    group = typer.Typer(help=meaning, no_args_is_help=True, context_settings=settings)

    @group.callback()
    def _begin() -> None:
        """Keep the second word, which would be left out where there is only one command."""

    app.add_typer(group, name=name, help=meaning, rich_help_panel=panel)
    return group


def run(application: typer.Typer = app, name: str = "starlings") -> None:
    """Run a command line as a process of its own, such as the console script `starlings`."""
    try:
        application(prog_name=name)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            # Threads of compiled programs may still be computing, and an interpreter that ends in
            # the normal way would crash in them. All files and locks are closed by now.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"starlings {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


def command(
    panel: str, example: str, group: typer.Typer = app, name: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command of `starlings`.

    Args:
        panel: the heading under which `starlings --help` lists the command.
        example: a command line that the help of the command shows.
        group: the commands among which it is, such as those of `starlings site`.
        name: what it is called on the command line; by default like the function.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def with_cache(*arguments: Any, **options: Any) -> None:
            os.environ.setdefault(*QUIET_XLA)
            importlib.import_module("starlings.system.compilation_cache").turn_on()
            function(*arguments, **options)

        described = {"rich_help_panel": panel, "epilog": f"Example: {example}"}
        return group.command(name, **described)(ends_in_one_line(with_cache))  # type: ignore[arg-type]

    return register


def ends_in_one_line(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function print its warnings, and the error that ends it, as one line on stderr."""

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> None:
        with _errors_in_one_line(), _warnings_in_one_line():
            _replace_unprintable_letters()
            function(*arguments, **options)

    return guarded


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """A context whose errors end the process with a line on stderr and an exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):  # typer ends the process for these
        raise
    except KeyboardInterrupt as stopped:
        text = str(stopped)
        _print_line(f"{text[:1].upper()}{text[1:]}" if text else "Interrupted.", "red")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if os.environ.get("STARLINGS_DEBUG"):
            raise
        in_one_line = importlib.import_module("starlings.errors").in_one_line
        _print_line(in_one_line(error), "red")
        raise typer.Exit(1) from None


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """A context whose warnings are lines on stderr, without source code."""

    def show(message: Warning | str, *_: Any) -> None:
        _print_line(f"Warning: {message}", "yellow")

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _replace_unprintable_letters() -> None:
    """Print a question mark for a letter that the terminal or file cannot hold, and no error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _print_line(text: str, colour: str) -> None:
    """Print a coloured line on stderr; without colour where NO_COLOR is set (no-color.org)."""
    typer.secho(text, fg=colour, err=True, color=False if os.environ.get("NO_COLOR") else None)

"""The commands for sites of several organisations: who they are, and what they all sign."""

from __future__ import annotations

import os
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starlings.cli.application import command, command_group

if TYPE_CHECKING:
    from starlings.sites.certificates import Request
    from starlings.sites.provisioning import Provisioning

PANEL = "Several organisations"
"""The heading of these commands in `starlings --help`."""
PASSPHRASE = "STARLINGS_PASSPHRASE"
"""The environment variable that may have the passphrase of the authority."""
COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "SKIP": "bright_black"}
"""The colours of the outcomes of checks."""

study_group = command_group("study", PANEL, "Begin a trial of several organisations.")
site_group = command_group("site", PANEL, "What a site does before it has its kit.")

TrialFile = Annotated[
    Path, typer.Argument(dir_okay=False, help="The trial file, such as trial.toml.")
]
KitFile = Annotated[Path, typer.Argument(dir_okay=False, help="The kit, such as kits/Ashby.zip.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        help="The folder with the private key of the site.",
        show_default="SITE-site, near the kit",
    ),
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help=f"A file with the passphrase of the authority; or set {PASSPHRASE}.",
        show_default="ask",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; all was compared before.")]


@command(PANEL, "starlings study init trial.toml", study_group)
def init(trial: TrialFile, passphrase_file: PassphraseFile = None) -> None:
    """Write a draft of a trial file; for a trial file that exists, make its authority.

    The authority is a key that signs who takes part and what runs. It stays with
    the coordinator, in the folder TRIAL-authority, encrypted by a passphrase.
    """
    from starlings.sites.authority import Authority
    from starlings.sites.keys import fingerprint
    from starlings.sites.trial import Trial
    from starlings.sites.trial_text import TEMPLATE

    if not trial.exists():
        with trial.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
        typer.echo(f"{trial} is a draft of a trial. Edit it: the model, the columns, the sites.")
        typer.echo(f"Then make its authority:\n\n    starlings study init {trial}")
        return
    sites = Trial.read(trial).sites
    made = Authority.make(trial, _passphrase(passphrase_file, is_new=True))
    typer.echo(f"The authority of {trial} is in {made.folder}. Keep that folder to yourself, and a")
    typer.echo("copy of it: nobody can make its key again.")
    typer.echo(f"Fingerprint  {fingerprint(made.certificate.public_key())}\n")
    typer.echo(f"Send {trial.name} to the sites ({', '.join(sites)}). Each of them runs\n")
    typer.echo(f"    starlings site request {trial.name} --site NAME")


@command(PANEL, "starlings site request trial.toml --site Ashby", site_group)
def request(
    trial: TrialFile,
    site: Annotated[str, typer.Option(help="The name of your site in the trial file.")],
) -> None:
    """Make the private key of a site, which stays there, and a request for its certificate."""
    from starlings.errors import SiteError, nearest
    from starlings.sites.identity import SiteHome, make_request
    from starlings.sites.keys import fingerprint
    from starlings.sites.trial import Trial

    sites = Trial.read(trial).sites
    if site not in sites:
        raise SiteError(f"{trial}: {site!r} is not one of the sites {sites}.{nearest(site, sites)}")
    home = SiteHome.beside(trial, site)
    made, public_key = make_request(home, site)
    target = trial.parent / f"{site}.request"
    target.write_bytes(made)
    typer.echo(f"The private key of {site} is {home.key_path}. It never leaves this machine.")
    typer.echo(
        f"Send {target} to the coordinator, and read the fingerprint to them by telephone:\n"
    )
    typer.echo(f"    {fingerprint(public_key)}")


@command(PANEL, "starlings provision trial.toml requests/*.request")
def provision(
    trial: TrialFile,
    requests: Annotated[
        list[Path] | None, typer.Argument(dir_okay=False, help="Requests of sites.")
    ] = None,
    add: Annotated[
        Path | None, typer.Option(help="The request of a site that was added to the trial file.")
    ] = None,
    renew: Annotated[
        Path | None, typer.Option(help="The request of a site that needs a new certificate.")
    ] = None,
    revoke: Annotated[
        str | None, typer.Option(help="The name of a site whose certificate must not count.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    yes: Yes = False,
) -> None:
    """Make kits for sites from their requests, and the manifest that all of them sign.

    Kits go into the folder `kits`. The kits of other sites stay as they are,
    whatever is added, renewed or revoked.
    """
    from starlings.sites.provisioning import Provisioning

    steps = Provisioning.open(trial, _passphrase(passphrase_file))
    if revoke is not None:
        steps.check_issued(revoke)
        if not yes:
            typer.confirm(f"Revoke the certificate of {revoke}, for good?", abort=True)
        made = steps.revoke(revoke)
        typer.echo(f"{revoke} is revoked. Send {steps.folder / 'revoked.list'} (number", nl=False)
        typer.echo(f" {made.number}) to all sites; they put it beside their kit.")
    extra = [file for file in (add, renew) if file is not None]
    found = steps.read_requests([*(requests or []), *extra])
    if (renew is None and revoke is None) or found:
        _issue(steps, found, renew is not None, yes)


def _issue(steps: Provisioning, requests: list[Request], renew: bool, yes: bool) -> None:
    """Make kits after the fingerprints were compared, and say what to send to whom."""
    from starlings.sites.keys import fingerprint

    before = steps.authority.register.manifest.get("number")
    for each in requests:
        is_known = "" if steps.is_new(each) else "  (known)"
        typer.echo(f"{each.site:20} {fingerprint(each.public_key)}{is_known}")
    question = "Has every site read its fingerprint to you, and are they equal?"
    if not yes and any(steps.is_new(each) or renew for each in requests):
        typer.confirm(question, abort=True)
    for kit in steps.issue(requests, renew):
        typer.echo(f"{kit}: send it to {kit.stem} only")
    number = steps.authority.register.manifest["number"]
    typer.echo(f"{steps.manifest_path}: manifest {number}", nl=False)
    if before is not None and number != before:
        typer.echo(", NEW: send it to all sites; they put it beside their kit and approve again")
    else:
        typer.echo(", which is in new kits")
    if steps.missing():
        typer.echo(f"Still without a kit: {', '.join(steps.missing())}")


@command(PANEL, "starlings check kits/Ashby.zip --data ashby.csv")
def check(
    kit: KitFile,
    data: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="The rows of the site: a table, or a .toml file that names one."
        ),
    ] = None,
    folder: Folder = None,
    offline: Annotated[bool, typer.Option("--offline", help="Connect to nothing.")] = False,
) -> None:
    """Check that a site can take part; every FAIL says what to do, and ends with exit code 1."""
    from starlings.sites.kit_checks import FAIL, check_kit

    lines = check_kit(kit, data, folder, offline)
    for line in lines:
        outcome = typer.style(line.outcome, COLOURS[line.outcome])
        typer.echo(f"{outcome}  {_wrapped(line.name, line.text, indent=6)}")
    if any(line.outcome == FAIL for line in lines):
        raise typer.Exit(1)


@command(PANEL, "starlings approve kits/Ashby.zip")
def approve(kit: KitFile, folder: Folder = None, yes: Yes = False) -> None:
    """Show what would run and what would leave this site, and sign it with the site's key."""
    from starlings.sites.approvals import make_approval
    from starlings.sites.description import what_runs
    from starlings.sites.keys import write_private
    from starlings.sites.kit import Kit

    opened = Kit.open(kit, folder)
    opened.check_usable()
    for name, text in what_runs(opened):
        typer.echo(_wrapped(name, text))
    if not yes:
        typer.confirm(f"\nDoes {opened.site} approve this?", abort=True)
    target = opened.home.approval_path(opened.site)
    opened.install()
    write_private(target, make_approval(opened))
    typer.echo(f"\n{opened.site} approves manifest {opened.manifest.number}: {target}")


@command(PANEL, "starlings audit ashby.log brook.log")
def audit(
    first: Annotated[Path, typer.Argument(dir_okay=False, help="The transcript of one site.")],
    second: Annotated[Path, typer.Argument(dir_okay=False, help="The transcript of another.")],
    running: Annotated[
        bool, typer.Option("--running", help="The run goes on; last messages may be missing.")
    ] = False,
) -> None:
    """Compare what one site sent with what another received; a difference ends with exit code 1."""
    from starlings.sites.audit import audit as compare

    found = compare(first, second, running)
    for text in found.agreed:
        typer.echo(f"PASS  {text}")
    for text in found.faults:
        typer.echo(f"FAIL  {text}")
    if found.faults:
        raise typer.Exit(1)


def _wrapped(name: str, text: str, indent: int = 0) -> str:
    """A name and a text beside it, which is broken into lines."""
    width = max(shutil.get_terminal_size().columns - indent, 40)
    lines = textwrap.wrap(text, width - 14, break_on_hyphens=False, break_long_words=False)
    return f"{name:13} " + f"\n{' ' * (14 + indent)}".join(lines)


def _passphrase(file: Path | None, is_new: bool = False) -> str:
    """The passphrase from a file, from the environment, or typed without being shown."""
    if file is not None:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    if PASSPHRASE in os.environ:
        return os.environ[PASSPHRASE]
    if is_new:
        typer.echo("Choose a passphrase of several words. It cannot be found again if it is lost.")
    question = "Passphrase of the authority"
    return str(typer.prompt(question, hide_input=True, confirmation_prompt=is_new))

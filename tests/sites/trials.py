"""A small trial that is made by functions, and what tests do with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from starlings.cli import app
from starlings.sites.authority import Authority
from starlings.sites.identity import SiteHome, make_request
from starlings.sites.provisioning import Provisioning

PASSPHRASE = "seven words that nobody else knows"
SITES = ("Ashby", "Brook", "Cliff")
TRIAL = """
[model]
kind = "logistic_regression"
outcome = "ill"
covariates = ["age", "dose"]
prior_std = 2.5
[columns]
age = "years at admission"
[network]
graph = "complete"
[run]
draws = 20
[sites.Ashby]
contact = "it@ashby.example"
[sites.Brook]
[sites.Cliff]
[relay]
urls = ["wss://relay.example.org"]
[limits]
rounds = 5000
"""


def make_trial(folder: Path, text: str = TRIAL) -> Path:
    """A folder with a trial file, its authority, requests and kits of all sites."""
    folder.mkdir()
    trial = folder / "trial.toml"
    trial.write_text(text, encoding="utf-8")
    Authority.make(trial, PASSPHRASE)
    steps = opened(folder)
    steps.issue(steps.read_requests([make_request_file(folder, site) for site in SITES]))
    return folder


def opened(folder: Path, now=None) -> Provisioning:
    return Provisioning.open(folder / "trial.toml", PASSPHRASE, now)


def make_request_file(folder: Path, site: str) -> Path:
    data, _ = make_request(SiteHome.beside(folder / "trial.toml", site), site)
    file = folder / f"{site}.request"
    file.write_bytes(data)
    return file


def write_rows(path: Path, rows: int = 40, names: str = "age,dose,ill") -> Path:
    random = np.random.default_rng(1)
    x, z = random.normal(size=(2, rows))
    lines = [f"{a:.6f},{b:.6f},{k % 2}" for k, (a, b) in enumerate(zip(x, z, strict=True))]
    path.write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
    return path


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "trial.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def starlings(*arguments: object, typed: str | None = None, **env: str):
    runner = CliRunner(env={"COLUMNS": "100", "STARLINGS_PASSPHRASE": PASSPHRASE, **env})
    return runner.invoke(app, [str(one) for one in arguments], input=typed)

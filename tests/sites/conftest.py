"""One trial of three sites, provisioned once; every test gets a copy of its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sites.trials import make_trial


@pytest.fixture(scope="session")
def made_trial(tmp_path_factory) -> Path:
    return make_trial(tmp_path_factory.mktemp("made") / "trial")


@pytest.fixture
def folder(made_trial, tmp_path, monkeypatch) -> Path:
    """A copy of the folder of a provisioned trial, which is the current folder."""
    target = tmp_path / "trial"
    shutil.copytree(made_trial, target)
    monkeypatch.chdir(target)
    return target

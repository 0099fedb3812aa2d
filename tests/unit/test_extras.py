"""Optional packages: one message says what needs them and how to install them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from starlings.system.extras import check_installed, import_extra


def test_a_package_that_is_installed_is_imported():
    assert import_extra("json.decoder", "this test", extra="none") is sys.modules["json.decoder"]


def test_a_missing_package_says_what_needs_it_and_how_to_install_it():
    message = r"^this test needs no_such_package; install with `pip install 'starlings\[some\]'`\.$"
    with pytest.raises(ModuleNotFoundError, match=message):
        import_extra("no_such_package.module", "this test", extra="some")
    with pytest.raises(ModuleNotFoundError, match="this test needs no_such and no_other; install"):
        check_installed("json", "no_such", "no_other", purpose="this test", extra="some")


def test_the_message_is_written_in_one_place():
    found = subprocess.run(
        ["git", "grep", "-l", "pip install 'starlings\\[", "--", "src", "benchmarks"],
        capture_output=True,
        text=True,
    )
    if found.returncode > 1:
        pytest.skip("not a clone of the repository")
    assert found.stdout.split() == ["src/starlings/system/extras.py"]

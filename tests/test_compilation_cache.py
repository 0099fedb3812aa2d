"""The cache of compiled programs: where it is, and how it is turned off."""

import os
import subprocess
import sys

import pytest

from starlings import compilation_cache

PROBE = """
import jax, starlings
starlings.Network
print(jax.config.jax_compilation_cache_dir)
jax.jit(lambda x: x + 1)(1.0)
"""


def probe(**variables):
    known = {k: v for k, v in os.environ.items() if k != compilation_cache.VARIABLE}
    child = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=known | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return child.stdout.strip()


def test_programs_are_kept_in_the_named_folder(tmp_path):
    folder = probe(STARLINGS_CACHE=str(tmp_path))
    assert folder == str(tmp_path / "compiled" / compilation_cache.machine())
    assert list((tmp_path / "compiled").rglob("*cache*"))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"STARLINGS_CACHE": "off"}, "None"),
        ({"STARLINGS_CACHE": "OFF"}, "None"),
        ({"JAX_COMPILATION_CACHE_DIR": "elsewhere"}, "elsewhere"),
        ({"STARLINGS_CACHE": "/dev/null/no"}, "None"),
    ],
    ids=["off", "capitals", "jax", "not writable"],
)
def test_what_the_user_wants_goes_first(variables, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert probe(**variables) == expected


def test_the_command_line_keeps_programs_too(tmp_path):
    command = [sys.executable, "-m", "starlings", "samplers"]
    environment = os.environ | {"STARLINGS_CACHE": str(tmp_path)}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    assert (tmp_path / "compiled" / compilation_cache.machine()).is_dir()


def test_without_a_home_there_is_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(compilation_cache, "user_cache", no_home)
    monkeypatch.delenv(compilation_cache.VARIABLE)
    assert compilation_cache.turn_on.__wrapped__() is None


def test_the_folder_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compilation_cache.user_cache() == tmp_path / "starlings"

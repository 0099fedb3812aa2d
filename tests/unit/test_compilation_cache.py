"""The cache of compiled programs: where it is, how it is turned off, and who may turn it on."""

import json
import os
import subprocess
import sys

import jax
import pytest

from starlings.system import compilation_cache

JAX_VARIABLES = (
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
)
"""What tests/conftest.py sets for all other tests."""
TURNED_ON = """
import jax
from starlings.system import compilation_cache
compilation_cache.turn_on()
print(jax.config.jax_compilation_cache_dir)
jax.jit(lambda x: x + 1)(1.0)
"""
EVERY_PUBLIC_NAME = """
import json
import jax
before = dict(jax.config.values)
import starlings
for name in starlings.__all__:
    getattr(starlings, name)
after = dict(jax.config.values)
print(json.dumps([name for name in before if before[name] != after[name]]))
"""


def environment(**variables: str) -> dict[str, str]:
    """That of a user who has set nothing but `variables`."""
    hidden = (compilation_cache.VARIABLE, *JAX_VARIABLES)
    return {name: value for name, value in os.environ.items() if name not in hidden} | variables


def printed(program: str, **variables: str) -> str:
    """What a fresh process prints."""
    command, env = [sys.executable, "-c", program], environment(**variables)
    child = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return child.stdout.strip()


@pytest.mark.slow
def test_the_public_names_change_no_setting_of_jax(tmp_path):
    assert json.loads(printed(EVERY_PUBLIC_NAME, STARLINGS_CACHE=str(tmp_path))) == []
    assert list(tmp_path.iterdir()) == []


def test_programs_are_kept_in_the_named_folder(tmp_path):
    folder = printed(TURNED_ON, STARLINGS_CACHE=str(tmp_path))
    assert folder == str(tmp_path / "compiled" / compilation_cache.machine())
    assert list((tmp_path / "compiled").rglob("*cache*"))


@pytest.mark.slow
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
    assert printed(TURNED_ON, **variables) == expected


@pytest.mark.slow
def test_the_command_line_keeps_programs(tmp_path):
    command = [sys.executable, "-m", "starlings", "samplers"]
    env = environment(STARLINGS_CACHE=str(tmp_path))
    subprocess.run(command, env=env, capture_output=True, check=True)
    assert (tmp_path / "compiled" / compilation_cache.machine()).is_dir()


def test_without_a_home_there_is_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(compilation_cache, "user_cache", no_home)
    monkeypatch.delenv(compilation_cache.VARIABLE, raising=False)
    monkeypatch.setitem(jax.config.values, "jax_compilation_cache_dir", None)
    assert compilation_cache.turn_on() is None


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_CACHE_HOME is a custom of Linux")
def test_the_folder_of_a_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compilation_cache.user_cache() == tmp_path / "starlings"

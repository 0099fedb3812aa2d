"""The names of the package itself: what is public, that it loads lazily, and what has moved."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
import xarray as xr

import starlings
from starlings import errors

TO_WRITE_A_SAMPLER = {
    "Agent",
    "Card",
    "Inbox",
    "Info",
    "PilotLength",
    "PositionState",
    "Round",
    "Sampler",
    "UnitPosterior",
    "choice",
    "no_info",
    "pytree",
    "testing",
}


def test_every_public_name_can_be_used_and_is_listed():
    assert dir(starlings) == starlings.__all__ == sorted(starlings.__all__)
    for name in starlings.__all__:
        assert getattr(starlings, name) is getattr(starlings, name)


def test_what_a_sampler_is_written_with_is_public():
    assert set(starlings.__all__) >= TO_WRITE_A_SAMPLER | {"tune", "Tuning", "Communicator"}


def test_every_error_and_warning_is_public():
    classes = inspect.getmembers(errors, inspect.isclass)
    public = {name for name, found in classes if issubclass(found, Exception)}
    assert public <= set(starlings.__all__)


def test_type_checkers_see_the_same_names():
    """The imports in the stub are the names that `__init__.py` loads when they are asked for."""
    tree = ast.parse(files("starlings").joinpath("__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert seen == starlings._HOMES
    assert len(imports) == len(tree.body) - 1, "a docstring and nothing but imports"


@pytest.mark.parametrize("module", starlings._MOVED.values(), ids=starlings._MOVED)
def test_old_modules_are_where_the_error_says(module):
    assert importlib.util.find_spec(module) is not None


def test_the_package_says_that_it_is_typed():
    assert files("starlings").joinpath("py.typed").is_file()


def test_importing_the_package_imports_nothing_heavy():
    program = "import starlings, sys; print('jax' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False False\n"


READ_A_RESULT = """
import sys, starlings
result = starlings.load(sys.argv[1])
print("jax" in sys.modules)
result.summary(), result.check()  # some versions of arviz-stats import JAX
print({name.split(".")[1] for name in sys.modules if name.startswith("starlings.")})
"""
"""A program that reads a file of draws, and prints the rooms of the package that it imported."""


def test_reading_a_result_imports_nothing_that_samples(tmp_path):
    draws = np.random.default_rng(0).normal(size=(2, 50, 3))
    group = xr.Dataset({"x": (["chain", "draw", "agent"], draws)}, {"agent": ["a", "b", "c"]})
    tree = xr.DataTree.from_dict({"posterior": group, "sample_stats": group})
    saved = starlings.Result(tree).save(tmp_path / "draws.nc")
    program = [sys.executable, "-c", READ_A_RESULT, str(saved)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    has_jax, rooms = done.stdout.splitlines()
    assert ast.literal_eval(rooms) == {"diagnostics", "errors", "results", "system"}
    assert has_jax == "False"


def test_unknown_and_old_names():
    with pytest.raises(AttributeError, match=r"module 'starlings' has no attribute 'smaple'$"):
        starlings.smaple  # noqa: B018
    with pytest.raises(AttributeError, match=r"since version 0.2 it is starlings\.runtime$"):
        starlings.runtimes  # noqa: B018

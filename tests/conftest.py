"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import itertools
import os
from collections import Counter
from pathlib import Path
from typing import Any

# Compiled programs are kept between runs of the tests, here and in the processes that tests start.
# JAX reads these variables when it is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax-cache"))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA of JAX 0.9 logs every such program

import jax
import pytest

import starlings as st
from tests.problems import logistic_rows

MOST_MAPS = 20_000
"""Pieces of memory of a process above which compiled programs are forgotten. Each program has some,
and Linux allows 65,530: beyond that the compiler ends the process."""
LOOK_EVERY = 20
"""Tests from one look at that number to the next."""


@pytest.fixture
def logistic_problem() -> st.Problem:
    return st.models.logistic_regression(*logistic_rows(), intercept=False)


finished = itertools.count(1)
"""Numbers of the tests that have ended in this process."""


def pytest_runtest_teardown() -> None:
    """Forget compiled programs before there are too many."""
    if next(finished) % LOOK_EVERY == 0 and num_maps() > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def num_maps() -> int:
    """The number of pieces of memory of this process; 0 where the system does not tell."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but the first cases of a test with `quick(n)` as slow, before any are left out."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark is not None and item.get_closest_marker("slow") is None:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker("slow")


left_out = 0
"""Number of tests that the quick suite leaves out."""


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what is left out, in one process or in one of several."""
    global left_out
    left_out += len(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, if there is one."""
    workeroutput = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput["left_out"] = left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear it from one of the processes: each of them collects all tests."""
    global left_out
    left_out = max(left_out, getattr(node, "workeroutput", {}).get("left_out", 0))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what the quick suite does not run."""
    if left_out:
        terminalreporter.write_line(f"{left_out} tests were left out; `make check` runs them all.")

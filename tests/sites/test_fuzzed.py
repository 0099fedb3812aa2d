"""Random bytes and damaged documents end in an error of ours, and in no other way."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starlings.errors import SiteError
from starlings.sites import archive
from starlings.sites.approvals import make_approval, verify_approval
from starlings.sites.certificates import Request
from starlings.sites.kit import MEMBERS, Kit
from starlings.sites.manifest import Manifest
from starlings.sites.revocations import Revocations

PACKAGES = [
    Path(__file__).parents[2] / f"src/starlings/{name}" for name in ("sites", "runtime/peers")
]
SOURCES = sorted(file for folder in PACKAGES for file in folder.rglob("*.py"))
"""All that handles what comes from other sites."""
FORBIDDEN = {"pickle", "marshal", "shelve", "eval", "exec", "object_hook", "yaml", "extractall"}
FORBIDDEN |= {"allow_pickle", "cloudpickle", "dill", "joblib", "__import__"}
MANY = pytest.param(20_000, marks=pytest.mark.slow)
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def changed(data: bytes, places: list[tuple[int, int]]) -> bytes:
    """Bytes, some of which are replaced."""
    made = bytearray(data)
    for place, value in places:
        made[place % len(made)] = value
    return bytes(made)


CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6)


@pytest.mark.parametrize("examples", [150, MANY])
def test_documents(folder, examples):
    kit = Kit.open("kits/Ashby.zip")
    members = archive.unpacked(kit.path, MEMBERS)
    approval = make_approval(kit)
    request = Path("Ashby.request").read_bytes()
    readers = {
        members["manifest.signed"]: lambda data: Manifest.parse(data, kit.authority, "x"),
        members["revoked.list"]: lambda data: Revocations.parse(data, kit.authority, "x"),
        approval: lambda data: verify_approval(data, kit.manifest, kit.authority, "Ashby"),
        request: lambda data: Request.parse(data, "x"),
    }

    @settings(max_examples=examples, deadline=None, suppress_health_check=QUIET, database=None)
    @given(st.sampled_from(list(readers)), CHANGES, st.binary(max_size=60), st.booleans())
    def check(document, changes, noise, is_noise):
        data = noise if is_noise else changed(document, changes)
        if data == document:
            return
        try:
            readers[document](data)
        except SiteError:
            return
        assert document == request, "only the text around a request may change"

    check()


@pytest.mark.parametrize("examples", [100, MANY])
def test_kits(folder, examples):
    path = Path("kits/Ashby.zip")
    whole = path.read_bytes()
    members = archive.unpacked(path, MEMBERS)

    @settings(max_examples=examples, deadline=None, suppress_health_check=QUIET, database=None)
    @given(CHANGES, st.sampled_from(MEMBERS), st.booleans())
    def check(changes, name, is_inside):
        data = changed(members[name] if is_inside else whole, changes)
        if data in (whole, members[name]):
            return
        path.write_bytes(archive.packed({**members, name: data}) if is_inside else data)
        with pytest.raises(SiteError):
            Kit.open(path)

    check()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_is_pickled_or_evaluated(source):
    words = tokenize.generate_tokens(io.StringIO(source.read_text(encoding="utf-8")).readline)
    assert not FORBIDDEN & {word.string for word in words if word.type == tokenize.NAME}


def test_both_packages_are_looked_at():
    assert {file.parent.name for file in SOURCES} >= {"sites", "peers"}
    assert len(SOURCES) > 50

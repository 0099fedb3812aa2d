"""Random bytes and damaged documents end in an error of ours, and in no other way."""

from __future__ import annotations

import ast
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

PACKAGE = Path(__file__).parents[2] / "src" / "starlings"
SOURCES = sorted(PACKAGE.rglob("*.py"))
"""All of the package: there is no decoder of objects anywhere."""
FORBIDDEN = {"pickle", "_pickle", "marshal", "shelve", "eval", "exec", "object_hook", "extractall"}
FORBIDDEN |= {"cloudpickle", "dill", "joblib", "jsonpickle", "yaml", "torch", "__import__"}
FORBIDDEN |= {"read_pickle", "to_pickle", "HIGHEST_PROTOCOL", "literal_eval"}
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


def faults_of(text: str) -> list[str]:
    """Names in a Python file that decode objects, and arrays that may be read as objects.

    What MPI sends between the processes of one job, of one operator, is not looked at.
    """
    words = tokenize.generate_tokens(io.StringIO(text).readline)
    found = sorted(FORBIDDEN & {word.string for word in words if word.type == tokenize.NAME})
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call):
            how = {each.arg: ast.unparse(each.value) for each in call.keywords}
            is_load = ast.unparse(call.func) in ("np.load", "numpy.load", "load")
            if how.get("allow_pickle", "None" if is_load else "False") != "False":
                found.append(ast.unparse(call))
    return found


def test_nothing_is_pickled_or_evaluated_in_the_whole_package():
    assert len(SOURCES) > 300
    found = {str(file.relative_to(PACKAGE)): faults_of(file.read_text("utf-8")) for file in SOURCES}
    approved = {"study/code_model.py": ["exec"]}  # a Python file as a model, by its hash
    assert {name: faults for name, faults in found.items() if faults} == approved


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load as read",
        "import shelve as s",
        "x = torch.load(f)",
        "x = np.load(f)",
        "x = np.load(f, allow_pickle=True)",
        "x = np.load(f, allow_pickle=flag)",
        "x = read(f, allow_pickle=1)",
        "eval(text)",
    ],
)
def test_the_scan_finds_decoders_of_objects(text):
    assert faults_of(text)


def test_the_scan_lets_plain_arrays_and_names_pass():
    assert not faults_of("x = np.load(f, allow_pickle=False); y = json.loads(x)  # no pickle")

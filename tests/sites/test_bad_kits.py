"""Kits that are damaged, forged, or made to do harm are refused, whatever is wrong with them."""

from __future__ import annotations

import io
import shutil
import stat
import zipfile
import zlib

import pytest

from starlings.errors import SiteError
from starlings.sites import archive
from starlings.sites.documents import canonical, parsed
from starlings.sites.kit import MEMBERS, Kit
from tests.sites.trials import make_trial, opened


@pytest.fixture
def path(folder):
    return folder / "kits" / "Ashby.zip"


def with_checksum(data: bytes) -> bytes:
    return data + b"\nstarlings crc32 %08x\n" % zlib.crc32(data)


def rewrite(path, make) -> None:
    """Replace a kit by a zip file that `make` fills, with a right checksum."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        make(file)
    path.write_bytes(with_checksum(stream.getvalue()))


def refuses(path, text: str) -> None:
    with pytest.raises(SiteError, match=text) as caught:
        Kit.open(path)
    assert str(path.name) in str(caught.value)


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_every_changed_byte_is_noticed(path, step):
    data = path.read_bytes()
    for place in range(0, len(data), step):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(SiteError):
            archive.unpacked(path, MEMBERS)


def test_every_cut_is_noticed(path):
    data = path.read_bytes()
    for length in range(0, len(data), 17):
        path.write_bytes(data[:length])
        with pytest.raises(SiteError):
            archive.unpacked(path, MEMBERS)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_changed_member_is_noticed_even_with_right_checksums(path, name):
    members = archive.unpacked(path, MEMBERS)
    data = members[name]
    for place in range(0, len(data) - 1, 29):
        changed = bytearray(data)
        changed[place] ^= 2
        path.write_bytes(archive.packed({**members, name: bytes(changed)}))
        with pytest.raises(SiteError):
            Kit.open(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEMBERS)
def test_every_changed_byte_of_a_member_is_noticed(path, name):
    members = archive.unpacked(path, MEMBERS)
    for place in range(len(members[name])):
        changed = bytearray(members[name])
        changed[place] ^= 1 << place % 8
        path.write_bytes(archive.packed({**members, name: bytes(changed)}))
        with pytest.raises(SiteError):
            Kit.open(path)


def test_a_member_of_another_kit_is_noticed(path, folder):
    members = archive.unpacked(path, MEMBERS)
    other = archive.unpacked(folder / "kits" / "Brook.zip", MEMBERS)
    for name in ("certificate.pem", "roster.signed"):
        path.write_bytes(archive.packed({**members, name: other[name]}))
        refuses(path, "that of another site")


def test_a_bomb_is_not_unpacked(path):
    def fill(file):
        for name in MEMBERS:
            file.writestr(name, b"0" * 10**7, zipfile.ZIP_DEFLATED)

    rewrite(path, fill)
    assert path.stat().st_size < 10**5
    refuses(path, "unpacks to more than 2,000,000 bytes")


def test_a_bomb_that_lies_about_its_size(path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name in MEMBERS:
            file.writestr(name, b"0" * 10**7)
    data = stream.getvalue().replace((10**7).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(with_checksum(data))
    refuses(path, "cannot|another size|CRC|read")


def test_a_file_that_is_too_large(path):
    path.write_bytes(b"0" * 2_000_001)
    refuses(path, "longer than 2,000,000 bytes")


@pytest.mark.parametrize("name", ["/etc/passwd", "../site.key", "C:\\key", "a/../../b", "new.txt"])
def test_names_that_do_not_belong_there(path, name):
    members = archive.unpacked(path, MEMBERS)

    def fill(file):
        for known, data in members.items():
            file.writestr(known, data)
        file.writestr(name, b"harm")

    rewrite(path, fill)
    refuses(path, "it has the members")


def test_links_and_names_that_stand_there_twice(path):
    members = archive.unpacked(path, MEMBERS)

    def with_link(file):
        for name in MEMBERS:
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            file.writestr(entry, b"/etc/passwd")

    rewrite(path, with_link)
    refuses(path, "is a link")

    def twice(file):
        for name in [*MEMBERS, "certificate.pem"]:
            file.writestr(name, members[name])

    with pytest.warns(UserWarning, match="Duplicate name"):
        rewrite(path, twice)
    refuses(path, "it has the members")


def test_a_kit_of_another_authority_after_an_approval(path, folder, tmp_path):
    Kit.open(path).install()
    other = make_trial(tmp_path / "other")
    shutil.copy(other / "kits" / "Ashby.zip", path)
    refuses(path, "from another authority")


def test_a_manifest_that_another_authority_signed(path, folder, tmp_path):
    other = make_trial(tmp_path / "other")
    shutil.copy(other / "kits" / "trial.manifest", folder / "kits" / "trial.manifest")
    with pytest.raises(SiteError, match="not signed by the authority"):
        Kit.open(path)


def test_a_list_without_signature_does_not_count(path, folder):
    published = folder / "kits" / "revoked.list"
    published.write_bytes(published.read_bytes().replace(b'"number":0', b'"number":9'))
    with pytest.raises(SiteError, match=r"revoked\.list is not signed"):
        Kit.open(path)


MANIFESTS = {
    "no sites": ({"sites": {}}, "edges"),
    "an edge to nobody": ({"edges": [["Ashby", "Elms"]]}, "pairs of sites"),
    "half an edge": ({"edges": [["Ashby"]]}, "pairs of sites"),
    "a number as text": ({"number": "1"}, "`number` must be a whole number"),
    "true as number": ({"number": True}, "`number` must be a whole number"),
    "another study": ({"study": "[model]"}, "hash of its study"),
    "another authority": ({"authority": "00"}, "another trial"),
    "a path as code": ({"code": {"../x.py": ""}}, "not the name of a Python file"),
    "a limit too many": ({"limits": {}}, "`limits`"),
    "no time": ({"created": "yesterday"}, "must be a time"),
    "another model": ({"model": {"kind": "harmless"}}, "not what the text of the study says"),
    "another method": ({"run": {"draws": 1}}, "not what the text of the study says"),
    "another sampler": ({"sampler": {"name": "x"}}, "not what the text of the study says"),
    "fewer links": ({"edges": [["Ashby", "Brook"]]}, "not what the text of the study says"),
    "fewer columns": ({"columns": {}}, "not what the text of the study says"),
    "no masks": ({"privacy": "none"}, "not what the text of the study says"),
    "a path as trial": ({"trial": "../../x"}, "cannot be the name of a trial"),
    "a newer format": ({"format": 2}, "has the format 2"),
}


@pytest.mark.parametrize(("changes", "text"), MANIFESTS.values(), ids=MANIFESTS)
def test_manifests_that_are_signed_and_wrong(path, folder, changes, text):
    authority = opened(folder).authority
    document = authority.sign({**authority.register.manifest, **changes})
    (folder / "kits" / "trial.manifest").write_bytes(document)
    with pytest.raises(SiteError, match=text):
        Kit.open(path)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b'{"a": 1}',
        b'{"b":1,"a":2}',
        b"[1]",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":"\\ud800"}',
        b"\xff",
        b"",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"' + b"x" * 1_000_000 + b'"}',
    ],
    ids=range(12),
)
def test_json_has_one_spelling(data):
    with pytest.raises(SiteError, match="cannot be used"):
        parsed(data, "a file")


def test_json_that_was_written_is_read():
    content = {"text": 'é\n"', "float": 0.1, "none": None, "list": [1, {"deep": True}]}
    assert parsed(canonical(content), "a file") == content

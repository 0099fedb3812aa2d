"""Who is accepted at the other end of a connection, what is said of those who are not."""

from __future__ import annotations

import contextlib
import random
import ssl
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from starlings.errors import PeerRefusedError, ProtocolError, SiteError
from starlings.runtime.peers.tls import HANDSHAKE_BYTES, SecureChannel, site_uri
from tests.peers.certificates import DAY, Authority, serial_number


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def sites(study):
    return {name: study.site(name) for name in ("Ashby", "Brook", "St Mary: Ümit?")}


def channels(one, other, expected_by_one=None, expected_by_other=None):
    """Both ends, the server of TLS first."""
    return (
        SecureChannel(one, [expected_by_one or other.name], is_server=True),
        SecureChannel(other, [expected_by_other or one.name], is_server=False),
    )


def shaken(one, other, alter=lambda data: data):
    """Go on with both ends until nothing moves; the errors, in their order."""
    ends, errors = (one, other), {}
    for _ in range(8):
        for end, peer in ((one, other), (other, one)):
            try:
                if end not in errors:
                    end.go_on()
            except (OSError, ProtocolError, SiteError) as error:
                errors[end] = error
            data = alter(end.outgoing())
            if data and peer not in errors:
                peer.feed(data)
    return [errors.get(end) for end in ends]


def opened(one, other):
    ends = channels(one, other)
    assert shaken(*ends) == [None, None]
    return ends


def test_two_sites_accept_each_other(sites):
    server, client = opened(sites["Ashby"], sites["Brook"])
    assert (server.neighbour, client.neighbour) == ("Brook", "Ashby")
    client.feed(server.encrypted(b"to Brook"))
    server.feed(client.encrypted(b"to Ashby"))
    assert (client.decrypted(), server.decrypted()) == (b"to Brook", b"to Ashby")
    assert client.decrypted() is None


def test_names_with_any_letters_are_known(sites):
    server, client = opened(sites["Ashby"], sites["St Mary: Ümit?"])
    assert server.neighbour == "St Mary: Ümit?"
    assert client.neighbour == "Ashby"


def test_large_messages_arrive_in_pieces(sites):
    server, client = opened(sites["Ashby"], sites["Brook"])
    data = random.Random(0).randbytes(300_000)
    client.feed(server.encrypted(data))
    assert b"".join(iter(client.decrypted, None)) == data


def uri(name):
    return x509.UniformResourceIdentifier(name)


FAULTS = {
    "expired": (dict(valid=(-90 * DAY, -DAY)), "has expired", "has expired"),
    "early": (dict(valid=(DAY, 90 * DAY)), "is not valid yet", "not valid yet"),
    "foreign": ({}, "is not of the authority of this study", "authority"),
    "name": (dict(names=[uri(site_uri("Cliff"))]), "reached Cliff", "another site"),
    "nameless": (dict(names=[]), "without the name of a site", "another site"),
    "two names": (
        dict(names=[uri(site_uri("Brook")), uri(site_uri("Cliff"))]),
        "reached Brook and Cliff",
        "another site",
    ),
    "spelling": (dict(names=[uri("urn:starlings:site:%42rook")]), "without the name", "another"),
    "dns": (dict(names=[x509.DNSName("Brook")]), "without the name of a site", "another site"),
}
"""How a certificate differs from a right one, what is said of it, and what its site hears."""


@pytest.mark.parametrize("is_server", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_who_is_not_accepted_and_what_both_ends_say(tmp_path, fault, is_server):
    authority = Authority(tmp_path)
    settings, said, heard = FAULTS[fault]
    issuer = Authority(tmp_path, "other") if fault == "foreign" else authority
    wrong = issuer.site("Brook", authority=authority.path, **settings)
    right = authority.site("Ashby")
    ends = channels(wrong, right) if is_server else channels(right, wrong)
    errors = shaken(*ends)
    of_wrong, of_right = errors if is_server else errors[::-1]
    assert isinstance(of_right, PeerRefusedError)
    assert said in str(of_right)
    assert "Ashby" in str(of_right)
    assert "Brook" in str(of_right)
    assert "To do:" in str(of_right)
    assert isinstance(of_wrong, PeerRefusedError)
    assert heard in str(of_wrong)
    assert "To do:" in str(of_wrong)
    assert not any(end.is_open for end in ends)


@pytest.mark.parametrize("is_server", [False, True])
def test_revoked_certificates_are_refused(study, sites, is_server):
    gone = study.site("Brook2", names=[x509.UniformResourceIdentifier(site_uri("Brook"))])
    gone = replace(gone, name="Brook")
    right = replace(sites["Ashby"], revoked=frozenset({1, serial_number(gone)}))
    errors = shaken(*(channels(gone, right) if is_server else channels(right, gone)))
    assert all(isinstance(error, PeerRefusedError) for error in errors)
    assert all("revoked" in str(error) for error in errors)
    opened(sites["Ashby"], sites["Brook"])


def test_a_certificate_for_another_purpose_is_refused(study):
    only_client = study.site("Brook3", purposes=(ExtendedKeyUsageOID.CLIENT_AUTH,))
    errors = shaken(*channels(only_client, study.site("Ashby")))
    assert "not for connections between sites" in str(errors[1])


def test_a_client_without_certificate_is_refused(study, sites):
    server = SecureChannel(sites["Ashby"], ["Brook"], is_server=True)
    errors = raw_handshake(server, plain_client(study))
    assert "showed no certificate" in str(errors)


def test_older_tls_is_refused(study, sites):
    server = SecureChannel(sites["Ashby"], ["Brook"], is_server=True)
    context = plain_client(study)
    context.load_cert_chain(sites["Brook"].certificate, sites["Brook"].key)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert isinstance(raw_handshake(server, context), ProtocolError)


def plain_client(study):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(study.path)
    return context


def raw_handshake(server, context):
    """The error at our end with a client of the standard library."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    for _ in range(4):
        try:
            client.do_handshake()
        except ssl.SSLError as error:
            assert isinstance(error, ssl.SSLWantReadError)  # noqa: PT017
        server.feed(outgoing.read())
        try:
            server.go_on()
        except (ProtocolError, PeerRefusedError) as error:
            return error
        incoming.write(server.outgoing())
    return None


def test_nothing_is_sent_or_read_before_both_have_accepted(sites):
    for end in channels(sites["Ashby"], sites["Brook"]):
        with pytest.raises(RuntimeError, match="accepted"):
            end.encrypted(b"a")
        with pytest.raises(RuntimeError, match="accepted"):
            end.decrypted()


def test_a_reflected_connection_is_an_error(sites):
    for end in channels(sites["Ashby"], sites["Brook"]):
        end.go_on()
        end.feed(end.outgoing() or b"\x16\x03\x01\x00\x05hello")
        with pytest.raises(ProtocolError, match="altered"):
            end.go_on()


@pytest.mark.parametrize("flight", [1, 2, 3])
def test_a_flipped_bit_in_the_handshake_opens_nothing(sites, flight):
    """Flights: the client's hello, the server's answer, the client's certificate."""
    source = random.Random(flight)
    for _ in range(20):
        flights = iter(range(1, 100))

        def flip(data, flights=flights):
            if not data or next(flights) != flight:
                return data
            at = source.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << source.randrange(8)]) + data[at + 1 :]

        ends = channels(sites["Ashby"], sites["Brook"])
        shaken(*ends, alter=flip)
        assert not all(end.is_open for end in ends)


def test_an_altered_record_is_an_error(sites):
    server, client = opened(sites["Ashby"], sites["Brook"])
    record = bytearray(server.encrypted(b"a message"))
    record[-1] ^= 1
    client.feed(bytes(record))
    with pytest.raises(ProtocolError, match="altered"):
        client.decrypted()


def test_a_repeated_record_is_an_error(sites):
    server, client = opened(sites["Ashby"], sites["Brook"])
    record = server.encrypted(b"a message")
    client.feed(record)
    assert client.decrypted() == b"a message"
    client.feed(record)
    with pytest.raises(ProtocolError, match="altered"):
        client.decrypted()


def garbage(number):
    """Random bytes, some of which begin as those of TLS do."""
    source = random.Random(number)
    starts = [b"", b"\x16\x03\x01", b"\x16\x03\x03\x00\x40\x01", b"\x17\x03\x03", b"\x15\x03\x03"]
    return source.choice(starts) + source.randbytes(source.randrange(1, 2000))


@pytest.mark.parametrize(
    "count", [200, pytest.param(20_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_random_bytes_before_tls_open_nothing(sites, count):
    for number in range(count):
        end = channels(sites["Ashby"], sites["Brook"])[number % 2]
        end.go_on()
        end.feed(garbage(number))
        with contextlib.suppress(ProtocolError, PeerRefusedError, ConnectionError):
            assert not end.go_on()
        assert not end.is_open


def test_bytes_without_end_before_tls_are_refused(sites):
    end = channels(sites["Ashby"], sites["Brook"])[0]
    with pytest.raises(ProtocolError, match="too much"):
        end.feed(bytes(HANDSHAKE_BYTES + 1))


def test_files_that_do_not_belong_together_are_named(sites, tmp_path):
    wrong = replace(sites["Ashby"], key=sites["Brook"].key)
    with pytest.raises(SiteError, match="belong together"):
        SecureChannel(wrong, ["Brook"], is_server=True)
    with pytest.raises(SiteError, match="belong together"):
        SecureChannel(replace(wrong, key=tmp_path / "none"), ["Brook"], is_server=True)


def test_a_renewed_certificate_is_used_at_the_next_connection(tmp_path):
    authority = Authority(tmp_path)
    ashby, brook = authority.site("Ashby"), authority.site("Brook", valid=(-DAY, -timedelta(1e-3)))
    assert all(isinstance(error, PeerRefusedError) for error in shaken(*channels(ashby, brook)))
    authority.site("Brook")
    opened(ashby, brook)

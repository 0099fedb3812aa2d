"""The certificates do what they are for: links with TLS 1.3, by the strictest rules of Python."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from starlings.errors import SiteError
from starlings.sites.certificates import (
    Request,
    as_pem,
    authority_certificate,
    certificate_request,
    check_authority,
    check_certificate,
    from_pem,
    site_certificate,
)
from starlings.sites.documents import now_utc
from starlings.sites.keys import new_key
from starlings.sites.kit import Kit
from starlings.sites.site_names import urn_of
from tests.sites.trials import make_trial, opened


def context(kit: Kit, is_server: bool) -> ssl.SSLContext:
    kit.install()
    side = ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT
    made = ssl.SSLContext(side)
    made.minimum_version, made.check_hostname = ssl.TLSVersion.TLSv1_3, False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_verify_locations(kit.home.authority_path)
    made.load_cert_chain(kit.home.certificate_path, kit.home.key_path)
    return made


def linked(server: Kit, client: Kit) -> list[ssl.SSLObject]:
    """Both ends of a link, after the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context(server, True).wrap_bio(to_server, to_client, server_side=True),
        context(client, False).wrap_bio(to_client, to_server),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ends


def test_two_sites_link(folder):
    server, client = linked(Kit.open("kits/Ashby.zip"), Kit.open("kits/Brook.zip"))
    seen = [end.getpeercert()["subjectAltName"] for end in (server, client)]
    assert seen == [(("URI", urn_of("Brook")),), (("URI", urn_of("Ashby")),)]
    assert server.version() == "TLSv1.3"


def test_a_site_of_another_trial_is_refused(folder, tmp_path):
    other = make_trial(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        linked(Kit.open("kits/Ashby.zip"), Kit.open(other / "kits" / "Brook.zip"))


def test_a_site_cannot_issue_certificates(folder):
    kit, authority = Kit.open("kits/Ashby.zip"), opened(folder).authority.certificate
    request = Request.parse(certificate_request(new_key(), "Brook"), "x")
    forged = site_certificate(request, kit.key, kit.certificate)
    with pytest.raises(SiteError, match="not issued to a site by the authority"):
        check_certificate(forged, authority, "Brook", [], "x")
    with pytest.raises(SiteError, match="not issued to a site by the authority"):
        check_certificate(forged, kit.certificate, "Brook", [], "x")
    with pytest.raises(SiteError, match="not issued to a site by the authority"):
        check_certificate(authority, authority, "Brook", [], "x")


def test_dates_and_names(folder):
    kit = Kit.open("kits/Ashby.zip")
    arguments = (kit.certificate, kit.authority)
    check_certificate(*arguments, "Ashby", [], "x", now_utc() + timedelta(days=89))
    check_certificate(*arguments, "Ashby", [], "x", now_utc() - timedelta(hours=23))
    for days, text in [(91, "was valid until"), (-2, "is valid from")]:
        with pytest.raises(SiteError, match=text):
            check_certificate(*arguments, "Ashby", [], "x", now_utc() + timedelta(days=days))
    with pytest.raises(SiteError, match="'Ashby' and not of 'ashby'"):
        check_certificate(*arguments, "ashby", [], "x")


def test_two_certificates_in_one_file_are_refused(folder):
    kit = Kit.open("kits/Ashby.zip")
    both = as_pem(kit.certificate) + as_pem(kit.authority)
    with pytest.raises(SiteError, match="not one certificate"):
        from_pem(both, "x")


def test_a_folder_of_another_current_folder_is_found(folder, tmp_path, monkeypatch):
    kit = Path("kits/Ashby.zip").absolute()
    monkeypatch.chdir(tmp_path)
    Kit.open(kit).check_usable()
    moved = tmp_path / "Ashby.zip"
    moved.write_bytes(kit.read_bytes())
    with pytest.raises(SiteError, match="`--folder`"):
        Kit.open(moved).check_usable()
    Kit.open(moved, folder / "Ashby-site").check_usable()


def test_a_signature_that_leaves_out_zero_bits_is_refused():
    certificates = (authority_certificate(new_key(), "trial") for _ in range(1000))
    found = next(each for each in certificates if each.signature[-1] % 2 == 0)
    whole = found.public_bytes(Encoding.DER)
    one_bit_less = bytearray(whole)
    one_bit_less[-len(found.signature) - 1] = 1
    changed = x509.load_der_x509_certificate(bytes(one_bit_less))
    check_authority(changed, "the signature itself is right")
    assert from_pem(as_pem(found), "x") == found
    with pytest.raises(SiteError, match="not one certificate"):
        from_pem(as_pem(changed), "x")

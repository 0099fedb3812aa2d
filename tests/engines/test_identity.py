"""Keys for masks that are signed: a hub that puts in keys of its own is found out."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from starlings.engines.identity import Identity, signed_keys
from starlings.errors import SiteError
from starlings.runtime.peers import values
from tests.engines.certificates import identity

SITES = ["Ashby", "Brook", "Cliff"]
JOB = "the hash of the job"


class Forwarding:
    """A communicator of one site, with what the hub gives out as the statements of the others."""

    def __init__(self, rank: int, others: dict[int, bytes] | None = None) -> None:
        self.rank, self.others, self.own = rank, others, b""

    def remembered(self, make):
        return make()

    def everybody(self, own: bytes) -> list[bytes]:
        self.own = own
        if self.others is None:
            raise StopIteration
        return [own if site == self.rank else self.others[site] for site in range(len(SITES))]


def statement(site: int, own: Identity | None, job: str = JOB) -> bytes:
    """What a site sends."""
    communicator = Forwarding(site)
    with pytest.raises(StopIteration):
        signed_keys(job, SITES, communicator, own)
    return communicator.own


@pytest.fixture(scope="module")
def identities() -> list[Identity]:
    return [identity(site) for site in SITES]


def keys_at_ashby(identities, **others: bytes):
    found = {1: statement(1, identities[1]), 2: statement(2, identities[2])}
    found |= {SITES.index(site): one for site, one in others.items()}
    return signed_keys(JOB, SITES, Forwarding(0, found), identities[0])


def test_keys_that_are_signed_are_taken(identities):
    found = keys_at_ashby(identities)["Ashby"]
    assert sorted(found.public) == SITES
    assert len(set(found.public.values())) == 3


@pytest.mark.parametrize(
    ("own", "job"),
    [
        (identity("Brook", subject="localhost"), JOB),  # the hub, with its own certificate
        (identity("Brook", root_key=ec.generate_private_key(ec.SECP256R1())), JOB),
        (identity("Brook", days=-1), JOB),
        (identity("Brook"), "another job"),
        (None, JOB),
    ],
    ids=["the hub's", "of another authority", "ended", "of another job", "none"],
)
def test_a_key_that_its_site_did_not_sign_is_refused(identities, own, job):
    with pytest.raises(SiteError, match="not signed by Brook"):
        keys_at_ashby(identities, Brook=statement(1, own, job))


def test_a_key_that_was_exchanged_under_a_right_certificate_is_refused(identities):
    true, false = statement(1, identities[1]), statement(1, identities[1])
    public, number, certificate, _ = values.decoded(true)
    exchanged = values.encoded((public, number, certificate, values.decoded(false)[3]))
    with pytest.raises(SiteError, match="not signed by Brook"):
        keys_at_ashby(identities, Brook=exchanged)


@pytest.mark.parametrize("damaged", [(b"", b"", b"", b""), (b"a",), "text", None])
def test_a_statement_that_is_damaged_is_refused(identities, damaged):
    with pytest.raises(SiteError, match="damaged"):
        keys_at_ashby(identities, Brook=values.encoded(damaged))

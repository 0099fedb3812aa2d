"""What all sites agree on before anything else: who they are, their seed, and keys for masks.

Every site sends a statement to all others, and then what it had committed itself to:

    statement_i = approval_i, absent_i, mask key_i, SHA-256(secret_i), numerics_i, signed by i   (1)
    reveal_i    = secret_i                                                                       (2)
    seed        = SHA-256(secret_1, ..., secret_N)                                               (3)

No site can choose the seed, since it has to commit itself before it knows the others' secrets. The
mask keys are X25519 keys of this run; sites on the way between two others cannot put in their own,
because the statements are signed. All of this is the same again after a restart.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlings.errors import SiteError
from starlings.network import Network
from starlings.network.communicator import Communicator
from starlings.network.opening import FLOAT_BYTES, count_smallest
from starlings.privacy.guard_rails import GuardRails
from starlings.privacy.keys import KEY_BYTES, SiteKeys
from starlings.privacy.secrecy import Secrecy
from starlings.runtime.peers import values
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.sites.approvals import KIND as APPROVAL
from starlings.sites.approvals import verify_approval
from starlings.sites.certificates import from_pem
from starlings.sites.documents import (
    FORMAT,
    as_text,
    as_time,
    damaged,
    field,
    now_utc,
    sign,
    split,
    verified,
)
from starlings.sites.keys import primitives
from starlings.sites.kit import Kit
from starlings.sites.numerics import numeric_fingerprint

KIND = "statement"
"""What the document calls itself."""
STATEMENT = "signed statement of who it is"
"""What a site tells all others of itself, in the account of what leaves a site."""
SEED_BYTES = 4
"""Bytes of the seed, eq. (3)."""


@dataclass(frozen=True)
class Agreement:
    """What the sites have agreed on."""

    seed: int
    secrecy: Secrecy
    """The masks of this site."""


def agree(
    kit: Kit,
    approval: bytes,
    network: Network,
    communicator: PeersCommunicator,
    rails: GuardRails,
) -> Agreement:
    """Show the others who this site is, check who they are, and agree, by two calls.

    Args:
        kit: the kit of this site.
        approval: its approval of the manifest.
        network: all sites.
        communicator: how this site talks to the others.
        rails: the limits of this site.
    """
    secret, own = (
        communicator.remembered(lambda: secrets.token_bytes(KEY_BYTES)) for _ in range(2)
    )
    x25519 = primitives("asymmetric.x25519")
    mask_key = x25519.X25519PrivateKey.from_private_bytes(own)
    public = mask_key.public_key().public_bytes_raw()
    absent = [site for site in kit.manifest.sites if site not in network.names]
    statement = communicator.remembered(lambda: _statement(kit, approval, secret, public, absent))
    documents = communicator.everybody(statement)
    count_smallest(network, sum(map(len, documents)) // FLOAT_BYTES)
    began = remembered_time(communicator)
    found = {
        site: _checked(document, kit, site, began, absent)
        for site, document in zip(network.names, documents, strict=True)
    }
    reveals = communicator.everybody(secret)
    count_smallest(network, network.size * KEY_BYTES // FLOAT_BYTES)
    network.opening.note(STATEMENT, len(statement) // FLOAT_BYTES)
    for site, reveal in zip(network.names, reveals, strict=True):
        if hashlib.sha256(reveal).hexdigest() != found[site]["commitment"]:
            raise SiteError(f"{site!r} did not reveal the secret that it had committed itself to.")
    session = hashlib.sha256(b"".join(reveals)).digest()  # (3)
    keys = {site: bytes.fromhex(table["mask_key"]) for site, table in found.items()}
    check_mask_keys(mask_key, keys)
    own_keys = {kit.site: SiteKeys(kit.site, mask_key, keys, session)}
    secrecy = Secrecy(own_keys, rails.fewest_neighbours)
    return Agreement(int.from_bytes(session[:SEED_BYTES], "little"), secrecy)


def _statement(
    kit: Kit, approval: bytes, secret: bytes, mask_key: bytes, absent: Sequence[str] = ()
) -> bytes:
    """The statement of this site, eq. (1)."""
    content = {
        "kind": KIND,
        "format": FORMAT,
        "manifest": kit.manifest.hash,
        "site": kit.site,
        "absent": list(absent),
        "mask_key": mask_key.hex(),
        "commitment": hashlib.sha256(secret).hexdigest(),
        "numerics": numeric_fingerprint(),
    }
    return values.encoded((approval, sign(content, kit.key)))


def remembered_time(communicator: Communicator) -> datetime:
    """When all sites were there first: approvals have to be valid then, and not at each restart.

    Links show certificates that are valid now.
    """
    text = communicator.remembered(lambda: as_text(now_utc()).encode()).decode()
    return as_time({"time": text}, "time", "the journal")


def _checked(
    document: bytes, kit: Kit, site: str, began: datetime, absent: Sequence[str] = ()
) -> Mapping[str, Any]:
    """The statement of a site, whose approval and signature are right."""
    where = f"the statement of {site!r}"
    parts = values.decoded(document)
    if not isinstance(parts, tuple) or [type(part) for part in parts] != [bytes, bytes]:
        raise damaged(where, "it is not an approval and a statement")
    approval, statement = parts
    verify_approval(approval, kit.manifest, kit.authority, site, kit.revoked, began)
    certificate = field(split(approval, APPROVAL, where)[0], "certificate", str, where)
    key = from_pem(certificate.encode(), where).public_key()
    found = verified(statement, KIND, key, f"{site!r}", where)
    if (field(found, "manifest", str, where), field(found, "site", str, where)) != (
        kit.manifest.hash,
        site,
    ):
        raise damaged(where, "it is of another site or manifest")
    if field(found, "absent", list, where) != list(absent):
        raise SiteError(
            f"{site!r} says that the absent sites are {found['absent']}, and {kit.site!r} that "
            f"they are {list(absent)}. All sites have to say the same by `--without`."
        )
    _check_hexadecimal(found, where)
    own = kit.manifest.content["numerics"]
    if field(found, "numerics", str, where) != own:
        raise SiteError(
            f"{site!r} computes other numbers than the machine of the coordinator: other versions "
            "of Python packages, or another kind of processor. Run `starlings check` there."
        )
    return found


def _check_hexadecimal(found: Mapping[str, Any], where: str) -> None:
    for name in ("mask_key", "commitment"):
        try:
            is_right = len(bytes.fromhex(field(found, name, str, where))) == KEY_BYTES
        except ValueError:
            is_right = False
        if not is_right:
            raise damaged(where, f"`{name}` must be {KEY_BYTES} bytes in hexadecimal digits")


def check_mask_keys(own: Any, keys: Mapping[str, bytes]) -> None:
    """Refuse the key of a site with which every secret would be zero."""
    public = primitives("asymmetric.x25519").X25519PublicKey
    for site, key in keys.items():
        try:
            own.exchange(public.from_public_bytes(key))
        except ValueError:
            raise damaged(f"the statement of {site!r}", "`mask_key` is no key") from None

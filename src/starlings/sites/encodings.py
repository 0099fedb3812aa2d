"""The encoding of a formula on the disk of every site, for when one of them does not come back."""

from __future__ import annotations

import json

from starlings.errors import SiteError
from starlings.formulas import Encoding
from starlings.network import Network
from starlings.problem import Problem
from starlings.runtime.peers.communicator import PeersCommunicator

ENCODING_FILE = "encoding"
"""The file in the folder of the run of all sites with the encoding that they have agreed on."""


def encoding_bytes(problem: Problem) -> bytes:
    """The encoding of a problem as bytes."""
    return json.dumps(problem.description["regression"]["encoding"], sort_keys=True).encode()


def encoding_of_all(
    network: Network, own: bytes, communicator: PeersCommunicator
) -> Encoding | None:
    """The encoding of the run of all sites; None if none of the sites here has one.

    Args:
        network: the sites that take part.
        own: what this site has saved, as bytes; none if it has not.
        communicator: how this site talks to the others.
    """
    every = communicator.everybody(communicator.remembered(lambda: own))
    known = sorted({found for found in every if found})
    if len(known) > 1:
        differing = [name for name, found in zip(network.names, every, strict=True) if found]
        raise SiteError(
            f"{', '.join(differing)} do not have the same levels and knots of the run with all "
            "sites. Somebody has begun that run anew: do so at all sites."
        )
    return Encoding.from_json(json.loads(known[0])) if known else None

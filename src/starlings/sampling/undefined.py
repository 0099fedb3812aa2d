"""Which sites have rows at which the model is undefined, as far as that may be told."""

from __future__ import annotations

import numpy as np

from starlings.methods.weights import is_undefined
from starlings.network import Network


def undefined_sites(network: Network, own: np.ndarray) -> list[str]:
    """The local sites of which a potential is undefined, by potentials (local agent, point).

    Where messages are masked, a site learns this of itself only.
    """
    if network.secrecy is not None and len(network.local) > 1:
        return []
    pairs = zip(network.local_names, own, strict=True)
    return [name for name, potentials in pairs if is_undefined(potentials).any()]


def in_words(sites: list[str]) -> str:
    """A sentence about these sites, with a space before it; nothing if there are none."""
    if not sites:
        return ""
    listed = ", ".join(map(repr, sites))
    rows = f"rows of site {listed}" if len(sites) == 1 else f"rows of sites {listed}"
    return f" The {rows} give NaN there."

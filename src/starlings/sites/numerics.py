"""A fingerprint of the arithmetic of a machine: ten rounds of a small fixed problem.

All sites compute the same numbers from equal messages. A machine that computes differently, with
another version of a package or another processor, has another fingerprint, and it is better to know
that before a run than in it. The numbers are rounded to `DIGITS` significant digits: that is above
the last digits, in which processors may differ, and far below any real difference.
"""

from __future__ import annotations

import functools

import numpy as np

from starlings.models import logistic_regression
from starlings.network import Network
from starlings.samplers import DADMMS
from starlings.sampling import sample
from starlings.sites.documents import sha256

DIGITS = 10
"""Significant digits."""
ROUNDS = 10
"""Rounds of D-ADMMS."""
SITES, ROWS = 3, 24
"""Sites, and rows of all sites."""


@functools.cache
def numeric_fingerprint() -> str:
    """The SHA-256 of the rounded draws of ten rounds, in hexadecimal digits."""
    row = np.arange(ROWS)
    X = np.stack([row * 5 % 7 - 3, row * 3 % 11 - 5], axis=1) / 4.0  # exact in binary
    problem = logistic_regression(X, row * 7 % 5 % 2, list(row % SITES))
    result = sample(
        problem,
        Network.ring(SITES),
        DADMMS(rho=4.0),
        draws=ROUNDS,
        chains=1,
        burn_in=0,
        thin=1,
        check=False,
        progress=False,
    )
    values = np.asarray(result.posterior["beta"]).ravel()
    return sha256(" ".join(f"{value:.{DIGITS - 1}e}" for value in values).encode())

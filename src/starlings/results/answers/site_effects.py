"""Effects of sites in predictions: those of a site that is named, or of a new one.

With the standard deviations sd_s and the correlations R_s of the effects over the sites in draw s,
a new site like those of the study has

    u_s ~ N(0, diag(sd_s) R_s diag(sd_s))                                                   (1)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

EFFECT, SD, CORRELATION = "site_effect", "sd_site", "correlation_site"
"""Names of draws: a site's own effects, their sd, each (column of r,), and their correlations. The
same as in `starlings.models.random_effects`."""
JITTER = 1e-10
"""What is added to the diagonal of correlations before they are factorised."""


def effects_of(
    draws: Mapping[str, np.ndarray], site: str | None, rng: np.random.Generator
) -> np.ndarray | None:
    """Return the effects of a site for every draw, (draw, column of r); None if there are none.

    Args:
        draws: the draws by name; of the site alone, if one is named.
        site: its name; None for a new one.
        rng: the source of the random numbers of a new one.
    """
    if EFFECT not in draws:
        return None
    own = draws[EFFECT]
    if site is not None:
        return own
    sd = draws[SD].reshape(own.shape)
    noise = rng.normal(size=own.shape)
    if CORRELATION in draws:
        correlation = draws[CORRELATION] + JITTER * np.eye(own.shape[-1])
        noise = np.einsum("sij,sj->si", np.linalg.cholesky(correlation), noise)
    return sd * noise  # (1)

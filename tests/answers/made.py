"""Results of regressions that were never run: their draws are given."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

import starlings as st

SITES = ["north", "south", "west"]


def made(parameters: dict[str, tuple[np.ndarray, list[str] | None]], model: Any) -> st.Result:
    """A result at three sites that agree, with the draws (chain, draw, ...) of some parameters."""
    dims, data = ["chain", "draw", "agent"], {}
    coordinates: dict[str, Any] = {"agent": SITES}
    for name, (values, labels) in parameters.items():
        at_all = np.repeat(values[:, :, None], len(SITES), axis=2)
        own = [f"{name}_dim_{axis}" for axis in range(values.ndim - 2)]
        data[name] = ([*dims, *own], at_all)
        if labels is not None:
            coordinates[own[0]] = labels
    posterior = xr.Dataset(data, coordinates)
    lead = posterior.sizes["chain"], posterior.sizes["draw"]
    sent = np.ones((*lead, len(SITES)))
    stats = {"disagreement": (dims[:2], np.zeros(lead))}
    stats |= {name: (dims, sent) for name in ("messages_sent", "bytes_sent", "local_residual")}
    edges = [[SITES[0], SITES[1]], [SITES[1], SITES[2]]]
    attributes = {
        "inference_library": "starlings",
        "inference_library_version": "1.2.3",
        "sampler": "HMC",
        "sampler_settings": "{}",
        "method": "hmc",
        "seed": 7,
        "precision": "float64",
        "burn_in": 0,
        "thin": 1,
        "model": json.dumps(model),
        "network": json.dumps({"agents": SITES, "edges": edges}),
    }
    groups = {"posterior": posterior, "sample_stats": xr.Dataset(stats)}
    return st.Result(
        xr.DataTree.from_dict({n: group.assign_attrs(attributes) for n, group in groups.items()})
    )

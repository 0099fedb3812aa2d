"""Results whose reports are tested: of any size, with hostile and long names."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import xarray as xr

import starlings as st

HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>'
LONG = "days since the last admission to any of the hospitals of this study"


def result_of(
    sites: list[str],
    labels: list[str],
    is_regression: bool = True,
    apart: float = 0.0,
    **attributes: Any,
) -> st.Result:
    """Draws whose first chain is so many sd apart from the others.

    Args:
        sites: the names of the sites.
        labels: the names of the coefficients.
        is_regression: whether the model is a logistic regression.
        apart: how far the first chain is from the others, in sd.
        attributes: further attributes of the result.
    """
    random, name = np.random.default_rng(0), "beta" if is_regression else "theta"
    draws = random.normal(size=(4, 300, 1, len(labels))) * 0.2 + np.linspace(-1, 1, len(labels))
    draws[0] += 0.2 * apart
    dims = ["chain", "draw", "agent"]
    coordinates = {"agent": sites, f"{name}_dim_0": labels}
    beta = np.repeat(draws, len(sites), axis=2)
    posterior = xr.Dataset({name: ([*dims, f"{name}_dim_0"], beta)}, coordinates)
    ones = np.ones((4, 300, len(sites)))
    stats = {"disagreement": (dims[:2], np.zeros((4, 300)))}
    stats |= {column: (dims, ones) for column in ("messages_sent", "bytes_sent")}
    model: dict[str, Any] = {"rows": dict.fromkeys(sites, 120)}
    if is_regression:
        model |= {"kind": "regression", "outcome": "Bernoulli"}
    edges = [[sites[a], sites[b]] for a, b in nx.cycle_graph(len(sites)).edges if a != b]
    about = {
        "inference_library": "starlings",
        "inference_library_version": "1.2.3",
        "sampler": "LockStepHMC",
        "sampler_settings": "{}",
        "method": "hmc",
        "divergent_share": 0.0,
        "seed": 7,
        "precision": "float64",
        "burn_in": 0,
        "thin": 1,
        "disclosed": json.dumps({"potentials and gradients along trajectories": 4812}),
        "model": json.dumps(model),
        "network": json.dumps({"agents": sites, "edges": edges}),
        **attributes,
    }
    groups = {"posterior": posterior, "sample_stats": xr.Dataset(stats)}
    return st.Result(xr.DataTree.from_dict({n: g.assign_attrs(about) for n, g in groups.items()}))


def with_sites(result: st.Result) -> st.Result:
    """The result with estimates of every site alone, and checks of which one fails."""
    sites, random = result.posterior["agent"].values.tolist(), np.random.default_rng(1)
    (name,) = result.posterior.data_vars
    labels = result.posterior[f"{name}_dim_0"].values
    alone = [
        (site, f"{name}[{label}]", m, 0.5, m - 1, m - 0.8, m, m + 0.8, m + 1)
        for site in sites
        for label, m in zip(labels, np.linspace(-1, 1, len(labels)), strict=True)
    ]
    quantiles = ["2.5%", "5%", "50%", "95%", "97.5%"]
    check = [
        (site, name, 0.5, 0.4, 0.05, 0.3, 0.45, 0.001 if site == sites[0] else 0.4)
        for site in sites
        for name in ("share of ones",)
    ]
    columns = ["site", "statistic", "observed", "mean", "sd", "5%", "95%", "tail_probability"]
    expected = np.linspace(0.1, 0.9, 5)
    calibration = pd.DataFrame({"expected": expected, "low": expected - 0.1})
    calibration = calibration.assign(high=expected + 0.1, observed=random.uniform(size=5), rows=12)
    return result.with_tables(
        alone=pd.DataFrame(alone, columns=["site", "entry", "mean", "sd", *quantiles]),
        predictive_check=pd.DataFrame(check, columns=columns),
        calibration=pd.concat([calibration.assign(site=site) for site in sites]),
    )

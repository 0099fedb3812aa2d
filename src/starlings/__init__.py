"""Decentralised Bayesian inference: every agent draws from the posterior of everybody's data.

The public names, each loaded when it is first used, so that `import starlings` takes milliseconds:

    to sample             `sample`, `Problem`, `Parameter`, `Network`, `models`, `Study`
    to begin with a table `regression`, `Encoding` (what the sites have agreed on)
    to read draws         `Result`, `load`, `arviz_groups`
    what sites can say    `predictive_check`, `PredictiveCheck`, `alone`
    to compare models     `loo`, `Loo`, `compare_loo`, `compare_models`, `site_log_likelihood`,
                          `Evidence`
    samplers              `DADMMS`, `CADMM`, `MidpointADMMS`, `Metropolis`, `DSGLD`, `DSGHMC`,
                          `DULA`, `Decay`, `DPSGLD`, `AsyncDADMMS`, `GEXTRA`, `DIGing`,
                          `PeerLearning`, `MAHMC`, `NetworkGibbs`, `DEPSGLD`, `EventDULA`, `SPLA`,
                          `PULA`, `PMALA`, `MYULA`
    penalties             `Lasso`, `GroupLasso`, `Ridge`, `Penalty`
    to compare samplers   `compare`, `Comparison`, `load_comparison`
    supports              `Box`, `Ball`, `Simplex`, `Support`
    to tune by hand       `tune`, `Tuning`
    to go on without      `without` (absent sites)
    with a coordinator    `with_hub`, `DistributedSGLD`, `FSGLD`, `QLSD`, `FedAvgLangevin`, `FALD`,
                          `VRFALD`, `ELF`, `SplitGibbs`, `DGLMC`, `GlobalConsensusMC`, `FedPA`,
                          `estimate_at_zero`, `AtZero`, `consensus_sequence`, `ConsensusSequence`
    to check              `theory` (exact laws and bounds), `calibration` (simulation-based)
    to write a sampler    `Sampler`, `Card`, `Info`, `no_info`, `PositionState`, `Agent`, `Inbox`,
                          `Round`, `pytree`, `choice`, `UnitPosterior`, `PilotLength`, `Units`,
                          `testing`, `HubSampler`, `HubState`
    to write a runtime    `Communicator`, `Crossings`, `exchange_on_host`
    errors and warnings   see `starlings.errors`

Importing the package, or using any of these names, changes no setting of JAX.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

_MOVED = {
    "accuracy": "starlings.research.accuracy",
    "agent": "starlings.problem.agent",
    "compilation_cache": "starlings.system.compilation_cache",
    "demo": "starlings.research.demo",
    "densities": "starlings.problem.likelihood",
    "experiments": "starlings.research.paper",
    "frames": "starlings.problem.coordinates",
    "gossip": "starlings.network.gossip",
    "gradients": "starlings.solvers.gradients",
    "measures": "starlings.diagnostics.statistics",
    "numpyro_models": "starlings.problem.numpyro",
    "nuts": "starlings.methods.nuts",
    "parameters": "starlings.problem.parameters",
    "plots": "starlings.results.plots",
    "progress": "starlings.system.progress",
    "proximal": "starlings.solvers.proximal",
    "quadratics": "starlings.problem.quadratic",
    "rounds": "starlings.random.addresses",
    "runtimes": "starlings.runtime",
    "shards": "starlings.problem.shards",
    "stein": "starlings.diagnostics.stein",
}
"""Modules of version 0.1, and the modules that replace them."""


def _read_stub() -> dict[str, str]:
    """The public names, by the module that defines them, from the lines of `__init__.pyi`."""
    stub = os.path.join(os.path.dirname(__file__), "__init__.pyi")
    with open(stub, encoding="utf-8") as file:
        imports = re.findall(r"^from (\S+) import (\w+) as \2$", file.read(), re.MULTILINE)
    return {name: module for module, name in imports}


_HOMES = _read_stub()
"""The module that defines each public name."""
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOMES:
        moved = f"; since version 0.2 it is {_MOVED[name]}" if name in _MOVED else ""
        raise AttributeError(f"module 'starlings' has no attribute {name!r}{moved}")
    if _HOMES[name] == __name__:
        return importlib.import_module(f"{__name__}.{name}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return __all__

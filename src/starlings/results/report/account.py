"""What left each site, how it was run, and how to cite it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from starlings.results.groups import model_record
from starlings.results.result import Result
from starlings.results.summary import Summary
from starlings.system.files import format_bytes

METHODS = {
    "weights": "importance weights: candidates that all sites draw alike, each weighted by how "
    "well it fits the rows of all sites",
    "weights-metropolis": "an exact chain of weighted candidates that all sites draw alike",
    "hmc": "Hamiltonian Monte Carlo in lock-step: all sites make the same steps, from sums of what "
    "each computes with its own rows",
    "marginal-hmc": "Hamiltonian Monte Carlo in lock-step for what all sites share; each site then "
    "drew its own parameters by itself",
    "consensus": "a consensus of draws that each site made alone (approximate)",
    "parametric": "a parametric combination of draws that each site made alone (approximate)",
    "nonparametric": "a combination of draws that each site made alone (approximate)",
    "semiparametric": "a combination of draws that each site made alone (approximate)",
}
"""Methods in words."""
MASKED = "masked: nobody could read more than totals"
MIXED = "differs from site to site; see the complete list"


class Fact(NamedTuple):
    """One line on how the analysis was run."""

    name: str
    value: str


class Left(NamedTuple):
    """One kind of number that left the sites."""

    kind: str
    numbers: str
    readers: str
    follows: str


class Disclosure(NamedTuple):
    """What left the sites."""

    kinds: list[Left]
    by_site: list[tuple[str, Left]]
    """Of every site, in full."""
    is_masked: bool

    @property
    def has_mixed(self) -> bool:
        """Whether the list of every site says more than that of all kinds."""
        return any(MIXED in (left.readers, left.follows) for left in self.kinds)


def disclosure(result: Result) -> Disclosure | None:
    """What left the sites; None if the result does not say, made by an old version."""
    if "disclosed" not in result.attrs:
        return None
    table = result.disclosed()
    kinds = [_kind(str(kind), own) for kind, own in table.groupby("kind", sort=False)]
    by_site = [
        (str(site), Left(str(kind), f"{numbers:,}", str(readers), str(follows)))
        for site, kind, numbers, readers, follows in table.itertuples(name=None)
    ]
    return Disclosure(kinds, by_site, result.attrs.get("privacy") == "totals")


def _kind(kind: str, own: pd.DataFrame) -> Left:
    """One kind of all sites: the numbers, and who could read them where that is the same."""
    least, most = own["numbers"].min(), own["numbers"].max()
    numbers = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    texts = [own[column].unique() for column in ("readable by", "what follows")]
    readers, follows = (str(found[0]) if len(found) == 1 else MIXED for found in texts)
    return Left(kind, numbers, readers, follows)


def facts(result: Result, summary: Summary) -> list[Fact]:
    """How the analysis was run, as far as its result says."""
    run, attrs = summary.run, result.attrs
    method = str(run["method"] or run["sampler"])
    masked = run["privacy"] == "totals"
    found = {
        "Method": f"{method}: {METHODS[method]}" if method in METHODS else method,
        "Sampler": run["sampler"],
        "Settings": _settings(run["sampler_settings"]),
        "Draws": f"{run['draws']:,} in each of {run['chains']:,} chains, at each of "
        f"{run['agents']:,} sites",
        "Messages": f"{run['network_rounds']:,} rounds between the sites, "
        f"{format_bytes(run['bytes_sent'])} in all",
        "Secrecy of messages": MASKED if masked else "none: numbers were sent as they are",
        "Seed": f"{run['seed']}: with the same rows and versions it gives the same numbers",
        "Precision": run["precision"],
        "Software": f"starlings {run['version']}",
        "Log-evidence": _evidence(attrs),
        "Study": model_record(attrs).get("study", ""),
    }
    return [Fact(name, str(value)) for name, value in found.items() if value not in ("", None)]


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_short(value)}" for name, value in settings.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _evidence(attrs: Mapping[str, Any]) -> str:
    if "log_evidence" not in attrs:
        return ""
    return f"{attrs['log_evidence']:.2f} (standard error {attrs['log_evidence_error']:.2f})"


def citations(version: str) -> list[str]:
    """What to cite, as texts."""
    return [
        f"The starlings authors. starlings: decentralised Bayesian inference, version {version}. "
        "Software under the MIT license.",
        "Tzikas, A. E., Romao, L., Pilanci, M., Abate, A. and Kochenderfer, M. J. (2024). "
        "Distributed Markov Chain Monte Carlo Sampling based on the Alternating Direction Method "
        "of Multipliers. Preprint.",
    ]

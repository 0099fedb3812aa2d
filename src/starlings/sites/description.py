"""A manifest in plain words, for those who decide whether a site takes part."""

from __future__ import annotations

from collections.abc import Mapping

from starlings.samplers.names import BUILT_IN
from starlings.sites.keys import fingerprint, grouped
from starlings.sites.kit import Kit
from starlings.sites.manifest import Manifest
from starlings.sites.trial_code import code_hashes

SUMS = "fits of the model to the rows of this site, as parts of sums over all sites"
ALL_DRAWS = "all draws of a sampler at this site alone, which every other site reads"
LEAVES = {
    "weights": f"{SUMS}: gradients and curvatures, then potentials at thousands of candidates",
    "hmc": f"{SUMS}: gradients and curvatures, then potentials and gradients in every round",
    "marginal-hmc": f"{SUMS}: gradients and curvatures, then potentials and gradients in every "
    "round, with this site's own parameters integrated out",
    "auto": f"{SUMS} (gradients, curvatures, potentials), or, if the sites choose D-ADMMS by the "
    "predicted rounds, positions of a sampler in every round, as parts of sums over neighbours",
    "consensus": f"{SUMS}: draws of a sampler at this site alone, weighted by their precision",
    "parametric": f"{SUMS}: mean and precision of draws of a sampler at this site alone",
    "nonparametric": ALL_DRAWS,
    "semiparametric": ALL_DRAWS,
    "rounds": "positions of a sampler in every round, as parts of sums over neighbours; before "
    "them gradients and curvatures, if the sites tune the sampler",
}
"""What leaves a site, by method, in words."""
OF_FORMULAS = (
    "first, as parts of sums over all sites, numbers of rows and of missing entries, names of "
    "categories (if the formula does not declare them), sums and products of columns, and counts "
    "of rows in bins for splines; then "
)
"""What leaves a site for the columns of a formula."""
MASKED = {
    "totals": "Every number is masked: nobody, neighbours and relay included, reads more than "
    "totals. Totals over few rows say something about these rows.",
    "none": "NOTHING IS MASKED: neighbours read these numbers, and can work out the rows of a "
    "small site from them.",
}
"""What masks do, by `privacy`."""


ABSENT_IN_WORDS = {
    "wait": "all sites wait for one that is away",
    "stand-in": "if all other sites say so, they go on without a site, with a Gaussian "
    "approximation in place of its rows",
    "leave": "if all other sites say so, they go on without a site, as if it had never been there. "
    "Who has a result with it and one without it can tell what its rows say",
}
"""What may be done without a site, by `absent` of the limits."""


def what_leaves(manifest: Manifest) -> str:
    """What leaves a site, in words."""
    run, sampler = manifest.content["run"], manifest.content["sampler"]
    method = str(run.get("method", run.get("exactness", "auto")))
    if sampler.get("name") is not None:
        method = "rounds"
    of_weights = method.startswith("weights")
    return (OF_FORMULAS if "formula" in manifest.content["model"] else "") + LEAVES[
        "weights" if of_weights else method if method in LEAVES else "rounds"
    ]


def what_runs(kit: Kit) -> list[tuple[str, str]]:
    """A manifest as headings and texts.

    Args:
        kit: the kit of this site.
    """
    content, limits, manifest = kit.manifest.content, kit.manifest.limits, kit.manifest
    model, run = content["model"], content["run"]
    settings = ", ".join(f"{name} {value}" for name, value in sorted(run.items()))
    sampler = content["sampler"].get("name")
    lines = [
        ("trial", f"{manifest.trial}, manifest {manifest.number} of {content['created'][:10]}"),
        ("hash", grouped(manifest.hash)),
        ("authority", fingerprint(kit.authority.public_key())),
        ("model", _model(model)),
        ("", _options(model)),
        *[("column", f"{name}: {meaning or '-'}") for name, meaning in content["columns"].items()],
        ("how", f"{'sampler ' + sampler + '; ' if sampler else ''}{settings}"),
        *_code(manifest),
        ("sites", ", ".join(_with_contact(s, c) for s, c in content["sites"].items())),
        ("neighbours", f"of {kit.site}: {', '.join(manifest.neighbours(kit.site)) or 'none'}"),
        ("by way of", ", ".join(kit.roster.relays) or _direct(kit.roster.direct)),
        ("seed", content["seed"]),
        ("what stays", "all rows, and the private key"),
        ("what leaves", what_leaves(manifest)),
        ("masks", MASKED.get(content["privacy"], content["privacy"])),
        ("limits", f"{limits.rounds:,} network rounds, {limits.hours:,} hours"),
        ("", f"at least {limits.fewest_sites} sites, {limits.fewest_rows} rows at each"),
        ("if absent", ABSENT_IN_WORDS[limits.absent]),
        ("versions", ", ".join(f"{name} {v}" for name, v in content["versions"].items())),
    ]
    return [(name, _printable(text)) for name, text in lines]


def _printable(text: str) -> str:
    """A text without what could make a terminal show something else."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _model(model: dict) -> str:
    if "formula" in model:
        return f"{model['family']} regression, {model['formula']}"
    if "build" in model:
        return f"the function {model['build'].partition(':')[2]} of the Python file below"
    covariates = ", ".join(model["covariates"]) or "nothing else"
    return f"{_spoken(model['kind'])} of {model['outcome']} on {covariates}"


def _options(model: dict) -> str:
    named = ("kind", "outcome", "covariates", "standardise", "formula", "family", "options")
    code = ("build", "columns", "sha256", "intercept") if "build" in model else ()
    own = {k: v for k, v in model.items() if k not in (*named, *code) and v not in (None, {})}
    further = {**own, **model["options"]}
    return ", ".join(f"{name} {value}" for name, value in sorted(further.items()))


RUNS = (
    "This code runs on the machine of every site, with its rows, and can do there whatever its "
    "user may do: delete files, or send rows away. starlings cannot tell what it does. It does not "
    "run before this site approves it, and never if a character of it has changed. Approve it only "
    "if somebody at this site who knows Python has read all of it."
)
"""What code can do, for those who approve it."""


def _code(manifest: Manifest) -> list[tuple[str, str]]:
    hashes = code_hashes(manifest.content["code"])
    sampler = manifest.content["sampler"].get("name")
    if not hashes and sampler is not None and sampler not in BUILT_IN:
        return [("CODE", f"{sampler}, of a package at this site, which the manifest does not have")]
    if not hashes:
        return [("code", "none but starlings itself")]
    files = [("CODE", f"{name}, SHA-256 {digest}: READ IT") for name, digest in hashes.items()]
    return [*files, ("", RUNS)]


def _spoken(kind: str) -> str:
    return kind.replace("_", " ")


def _with_contact(site: str, contact: str) -> str:
    return f"{site} ({contact})" if contact else site


def _direct(addresses: Mapping[str, str]) -> str:
    return ", ".join(f"{site} at {address}" for site, address in addresses.items())

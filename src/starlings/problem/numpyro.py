"""Problems from NumPyro models.

A model is run once with the first shard to find its latent sites (the parameters, with their
supports), its observed sites and its deterministic sites. With the latents fixed, the trace of the
model on any rows gives

    log p(rows | z)  one value per row, from the observed sites            (1)
    log p(z)         from the latent sites, plus log |det dT/dz|           (2)

so the prior is split, and shards padded and minibatched, exactly as for any other problem.
Deterministic sites are kept with the draws, unless they depend on the rows, of which every agent
has its own. `numpyro.handlers.scope` gives names with a slash, `a/b`, which become `a.b`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer import init_to_uniform

from starlings.problem import Problem
from starlings.problem.model_checks import check_likelihood, check_prior
from starlings.problem.parameters import Parameter, Parameters
from starlings.problem.report import Report, Values
from starlings.problem.shards import Rows, check_shards, count_rows

Sites = dict[str, Any]
"""Of a trace, by name."""
TRIED_DRAWS = 3
"""At which deterministic sites are compared on different rows."""


def problem_from_numpyro(model: Callable[..., Any], shards: Mapping[Any, Rows]) -> Problem:
    """See `Problem.from_numpyro`."""
    checked = check_shards(shards)
    first = next(iter(checked.values()))
    sites = _sampled(_trace(model, first))
    latent = [site for site in sites.values() if not site["is_observed"]]
    blocks = {_name(site): _parameter(site) for site in latent}
    if len(blocks) < len(latent):
        raise ValueError(
            f"latent sites read alike with `.` for `/`: {[s['name'] for s in latent]}."
        )
    if not blocks:
        raise ValueError("the model has no latent sites: there is nothing to infer.")
    _check_sites(model, checked, sites)
    split = Densities(model, Parameters(blocks), {c: v[:1] for c, v in first.items()})
    problem = Problem.from_flat(split.log_likelihoods, split.log_prior, split.parameters, checked)
    check_likelihood(split.log_likelihoods, problem.dim, first, blocks)
    check_prior(split.log_prior, problem.dim, blocks)
    if kept := _without_rows(model, checked):
        problem = problem.with_report(Report(lambda values: {**values, **split.kept(values, kept)}))
    return problem.with_description(kind="numpyro", model=getattr(model, "__name__", str(model)))


class Densities:
    """The two halves of a model's log-density, as functions of the flat vector z."""

    def __init__(self, model: Callable[..., Any], parameters: Parameters, any_row: Rows) -> None:
        self.model = model
        self.parameters = parameters
        self.any_row = any_row

    def log_likelihoods(self, z: jax.Array, rows: Rows) -> jax.Array:
        """Eq. (1)."""
        sites = self._sites(rows, self.parameters.constrain(z)).values()
        observed = [_log_probability(site) for site in sites if site["is_observed"]]
        return sum(term.reshape(count_rows(rows), -1).sum(axis=1) for term in observed)

    def log_prior(self, z: jax.Array) -> jax.Array:
        """Eq. (2)."""
        sites = self._sites(self.any_row, self.parameters.constrain(z)).values()
        latent = [jnp.sum(_log_probability(site)) for site in sites if not site["is_observed"]]
        return sum(latent) + self.parameters.log_determinant(z)

    def kept(self, values: Values, names: list[str]) -> Values:
        """The deterministic sites with these names."""
        trace = _trace(self.model, self.any_row, values)
        return {name: jnp.asarray(site["value"]) for name, site in _named(trace, names).items()}

    def _sites(self, rows: Rows, values: Values) -> Sites:
        return _sampled(_trace(self.model, rows, values))


def _trace(
    model: Callable[..., Any], rows: Rows, values: Values | None = None, seed: int = 0
) -> Sites:
    """All sites of a run, with latents given by our names, or else drawn from around zero.

    They are not drawn from the prior, which may be improper.
    """
    choose = init_to_uniform if values is None else lambda site: values.get(_name(site))
    seeded = handlers.seed(model, jax.random.key(seed))
    return handlers.trace(handlers.substitute(seeded, substitute_fn=choose)).get_trace(**rows)


def _sampled(trace: Sites) -> Sites:
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def _named(trace: Sites, names: list[str] | None = None) -> Sites:
    """The deterministic sites by the names that we give them; all, or some."""
    found = {_name(site): site for site in trace.values() if site["type"] == "deterministic"}
    return found if names is None else {name: found[name] for name in names}


def _name(site: Any) -> str:
    """The name of a site as results have it."""
    return site["name"].replace("/", ".")


def _log_probability(site):
    density = site["fn"].log_prob(site["value"])
    return density if site["scale"] is None else site["scale"] * density


def _parameter(site) -> Parameter:
    if site["fn"].support.is_discrete:
        raise ValueError(
            f"latent site {site['name']!r} is discrete ({type(site['fn']).__name__}), but samplers "
            "here move in continuous space: sum it out of the model, such as by a mixture "
            "(`numpyro.distributions.MixtureSameFamily`)."
        )
    try:
        transform = biject_to(site["fn"].support)
    except NotImplementedError:
        raise ValueError(
            f"latent site {site['name']!r} has a support ({site['fn'].support}) that NumPyro "
            "cannot map to unconstrained space; write it with another distribution."
        ) from None
    shape = tuple(jnp.shape(site["value"]))
    return Parameter(shape, transform=transform, free_shape=tuple(transform.inverse_shape(shape)))


def _check_sites(model, shards: Mapping[str, Rows], sites: Sites) -> None:
    """Latents must not depend on the number of rows; observed sites must have one value per row."""
    first_name, first = next(iter(shards.items()))
    twice = {column: np.concatenate([values, values]) for column, values in first.items()}
    for site_name, rows in {**shards, f"{first_name}, taken twice": twice}.items():
        count = count_rows(rows)
        for name, site in _sampled(_trace(model, rows)).items():
            shape = tuple(np.shape(site["value"]))
            if site["is_observed"]:
                found = tuple(np.shape(_log_probability(site)))
                if not found or found[0] != count:
                    raise ValueError(
                        f"observed site {name!r} must have one log-probability for each of the "
                        f"{count} rows of {site_name!r}, got shape {found}. (A factor of the prior "
                        "belongs into a distribution of a latent site.)"
                    )
            elif shape != tuple(np.shape(sites[name]["value"])):
                raise ValueError(
                    f"latent site {name!r} has shape {shape} at {site_name!r} and another "
                    "elsewhere: a latent variable may not grow with the rows."
                )


def _without_rows(model: Callable[..., Any], shards: Mapping[str, Rows]) -> list[str]:
    """The deterministic sites that are the same whatever the rows, and a warning of the others."""
    some = [*shards.values(), *({c: v[-1:] for c, v in rows.items()} for rows in shards.values())]
    varying, names = set(), list(_named(_trace(model, some[0])))
    for seed in range(TRIED_DRAWS) if names else ():
        runs = [_named(_trace(model, rows, seed=seed)) for rows in some]
        varying |= {name for name in names if not _all_equal(run[name]["value"] for run in runs)}
    for name in sorted(varying):
        warnings.warn(
            f"the deterministic site {name!r} depends on the rows, of which every agent has its "
            "own; it is not kept with the draws.",
            stacklevel=4,
        )
    return [name for name in names if name not in varying]


def _all_equal(values: Iterable[Any]) -> bool:
    first, *others = (np.asarray(value, float) for value in values)
    return all(np.array_equal(first, other, equal_nan=True) for other in others)

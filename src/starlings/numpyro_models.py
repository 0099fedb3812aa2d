"""Problems from NumPyro models.

A model is run once with the first shard to find its latent sites (the parameters, with their
supports) and its observed sites. With the latents fixed, the trace of the model on any rows gives

    log p(rows | z)  one value per row, from the observed sites            (1)
    log p(z)         from the latent sites, plus log |det dT/dz|           (2)

so the prior is split, and shards padded and minibatched, exactly as for any other problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to

from starlings.parameters import Parameter, Parameters
from starlings.problem import Problem
from starlings.shards import Rows, check_shards, count_rows


def problem_from_numpyro(model: Callable[..., Any], shards: Mapping[Any, Rows]) -> Problem:
    """See `Problem.from_numpyro`."""
    checked = check_shards(shards)
    first = next(iter(checked.values()))
    sites = _trace(model, first, values=None)
    blocks = {name: _parameter(site) for name, site in sites.items() if not site["is_observed"]}
    if not blocks:
        raise ValueError("the model has no latent sites: there is nothing to infer.")
    _check_sites(model, checked, sites)
    split = Densities(model, Parameters(blocks), {c: v[:1] for c, v in first.items()})
    return Problem.from_flat(split.log_likelihoods, split.log_prior, split.parameters, checked)


class Densities:
    """The two halves of a model's log-density, as functions of the flat vector z."""

    def __init__(self, model: Callable[..., Any], parameters: Parameters, any_row: Rows) -> None:
        self.model = model
        self.parameters = parameters
        self.any_row = any_row

    def log_likelihoods(self, z: jax.Array, rows: Rows) -> jax.Array:
        """Eq. (1)."""
        sites = _trace(self.model, rows, self.parameters.constrain(z)).values()
        observed = [_log_probability(site) for site in sites if site["is_observed"]]
        return sum(term.reshape(count_rows(rows), -1).sum(axis=1) for term in observed)

    def log_prior(self, z: jax.Array) -> jax.Array:
        """Eq. (2)."""
        sites = _trace(self.model, self.any_row, self.parameters.constrain(z)).values()
        latent = [jnp.sum(_log_probability(site)) for site in sites if not site["is_observed"]]
        return sum(latent) + self.parameters.log_determinant(z)


def _trace(model, rows: Rows, values: dict[str, Any] | None) -> dict[str, Any]:
    seeded = handlers.seed(model, jax.random.key(0))
    if values is not None:
        seeded = handlers.substitute(seeded, data=values)
    trace = handlers.trace(seeded).get_trace(**rows)
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def _log_probability(site):
    density = site["fn"].log_prob(site["value"])
    return density if site["scale"] is None else site["scale"] * density


def _parameter(site) -> Parameter:
    transform = biject_to(site["fn"].support)
    shape = tuple(jnp.shape(site["value"]))
    return Parameter(shape, transform=transform, free_shape=tuple(transform.inverse_shape(shape)))


def _check_sites(model, shards: Mapping[str, Rows], sites: dict[str, Any]) -> None:
    """Latents must not depend on the number of rows; observed sites must have one value per row."""
    for site_name, rows in shards.items():
        count = count_rows(rows)
        for name, site in _trace(model, rows, None).items():
            shape = tuple(np.shape(site["value"]))
            if site["is_observed"]:
                found = tuple(np.shape(_log_probability(site)))
                if not found or found[0] != count:
                    raise ValueError(
                        f"observed site {name!r} must have one log-probability for each of the "
                        f"{count} rows of {site_name!r}, got shape {found}."
                    )
            elif shape != tuple(np.shape(sites[name]["value"])):
                raise ValueError(
                    f"latent site {name!r} has shape {shape} at {site_name!r} and another "
                    "elsewhere: a latent variable may not grow with the rows."
                )

"""Problems from NumPyro models.

What NumPyro calls a site is a named statement of a model, not an owner of rows. A model is run once
on the rows of the first agent to find its latent sites (the parameters, with their supports), its
observed sites and its deterministic sites. With values for the latent sites, the trace of the model
on any rows gives

    log p(rows | z)  one value per row, from the observed sites            (1)
    log p(z)         from the latent sites, plus log |det dT/dz|           (2)

so that the prior is divided among the agents, and rows are padded and minibatched, exactly as for
any other problem. Deterministic sites are saved with the draws, unless they depend on the rows:
agents have different rows, and would have different values. `numpyro.handlers.scope` gives names
with a slash, `a/b`, which become `a.b`, since groups of netCDF files are separated by slashes.

Latent sites may be marked as local: (2) is then divided into the part of the shared ones, which has
to come without those, and the part of the local ones.

A plate over rows that takes a random subsample of them gives all rows here, see `numpyro_plates`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer import init_to_uniform

from starlings.problem.local import marked_local
from starlings.problem.model_checks import check_likelihood, check_prior
from starlings.problem.model_parts import ModelParts
from starlings.problem.numpyro_plates import WholePlates
from starlings.problem.parameters import Parameter, Parameters
from starlings.problem.report import Report, Values
from starlings.problem.shards import Rows, check_shards, count_rows

Sites = dict[str, Any]
"""The sites of a trace by name, each as NumPyro's dictionary of its properties."""
NUM_TRIALS = 3
"""Number of random parameter values at which deterministic sites are compared on different rows."""


def read_model(
    model: Callable[..., Any], shards: Mapping[Any, Rows], local: Collection[str] = ()
) -> ModelParts:
    """The parts of a problem from a NumPyro model and the rows of every agent.

    Args:
        model: the model.
        shards: the rows of every agent.
        local: the names of the latent sites that are local.
    """
    if isinstance(local, str):
        raise TypeError(f"`local` must be a list of names, got {local!r}; write [{local!r}].")
    checked = check_shards(shards)
    first = next(iter(checked.values()))
    sites = _sampled(_trace(model, first))
    parameters = marked_local(Parameters(_parameters(sites)), local)
    blocks = parameters.blocks
    _check_sites(model, checked, sites)
    split = SplitDensity(model, parameters, {c: v[:1] for c, v in first.items()})
    check_likelihood(split.log_likelihoods, split.parameters.dim, first, blocks)
    check_prior(split.log_prior, split.parameters.dim, blocks)
    _check_shared_prior(split)
    report, names = None, _independent_of_rows(model, checked)
    if names:
        report = Report(lambda p: {**p, **split.deterministic(p, names)})
    return ModelParts(
        split.log_likelihoods,
        split.log_prior,
        split.parameters,
        checked,
        report,
        name=getattr(model, "__name__", str(model)),
        log_local_prior=split.log_local_prior if parameters.num_local else None,
    )


def _parameters(sites: Sites) -> dict[str, Parameter]:
    """The parameters of a model by their names in results, one for each latent site."""
    latent = [site for site in sites.values() if not site["is_observed"]]
    if len(latent) == len(sites):
        raise ValueError(
            "the model has no observed sites, so that no rows enter it; pass `obs=` to a "
            "`numpyro.sample`."
        )
    if not latent:
        raise ValueError(
            "the model has no latent sites, so there is nothing to infer; add a `numpyro.sample`."
        )
    blocks = {_name(site): _parameter(site) for site in latent}
    if len(blocks) < len(latent):
        raise ValueError(
            "latent sites of the model have the same name once `/` is replaced by `.`: "
            f"{[site['name'] for site in latent]}; rename one."
        )
    return blocks


class SplitDensity:
    """The likelihood and the prior of a model, each as a function of the flat vector z.

    Args:
        model: a NumPyro model whose arguments are columns of rows.
        parameters: its latent sites.
        any_row: one row, on which the model is run for its prior, which needs none.
    """

    def __init__(self, model: Callable[..., Any], parameters: Parameters, any_row: Rows) -> None:
        self.model = model
        self.parameters = parameters
        self.any_row = any_row

    def log_likelihoods(self, z: jax.Array, rows: Rows) -> jax.Array:
        """Eq. (1): the log-likelihood of every row, (row,)."""
        sites = self._sites(rows, self.parameters.constrain(z)).values()
        observed = [_log_probability(site) for site in sites if site["is_observed"]]
        by_row = [term.reshape(count_rows(rows), -1).sum(axis=1) for term in observed]
        return sum(by_row, start=jnp.zeros(count_rows(rows), z.dtype))

    def log_prior(self, z: jax.Array) -> jax.Array:
        """Eq. (2): the log-density of the shared part of z under the prior."""
        return self._prior_of(z, local=False)

    def log_local_prior(self, z: jax.Array) -> jax.Array:
        """Eq. (2) for the local part of z, given the shared one."""
        return self._prior_of(z, local=True)

    def _prior_of(self, z: jax.Array, local: bool) -> jax.Array:
        """The log-density of the local sites given the shared ones, or of the shared ones."""
        own, count = self.parameters.part(local), self.parameters.num_shared
        sites = self._sites(self.any_row, self.parameters.constrain(z)).values()
        latent = [jnp.sum(_log_probability(site)) for site in sites if _name(site) in own.blocks]
        flat = z[count:] if local else z[:count]
        return sum(latent, start=jnp.zeros((), z.dtype)) + own.log_determinant(flat)

    def deterministic(self, values: Values, names: list[str]) -> Values:
        """The values of the deterministic sites with these names, at constrained parameters."""
        sites = _deterministic(_trace(self.model, self.any_row, values))
        return {name: jnp.asarray(sites[name]["value"]) for name in names}

    def _sites(self, rows: Rows, values: Values) -> Sites:
        """The latent and the observed sites of a run on these rows, at these parameters."""
        return _sampled(_trace(self.model, rows, values))


def _trace(
    model: Callable[..., Any], rows: Rows, values: Values | None = None, seed: int = 0
) -> Sites:
    """All sites of one run of a model.

    Args:
        model: a NumPyro model.
        rows: its arguments by name.
        values: of the latent sites, by their names in results. By default they are drawn
            uniformly near 0 in unconstrained space, and not from the prior, which may be improper.
        seed: of those draws.
    """
    choose = init_to_uniform if values is None else lambda site: values.get(_name(site))
    seeded = handlers.seed(WholePlates(model, count_rows(rows)), jax.random.key(seed))
    return handlers.trace(handlers.substitute(seeded, substitute_fn=choose)).get_trace(**rows)


def _sampled(trace: Sites) -> Sites:
    """The latent and the observed sites of a trace."""
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def _deterministic(trace: Sites) -> Sites:
    """The deterministic sites of a trace, by their names in results."""
    return {_name(site): site for site in trace.values() if site["type"] == "deterministic"}


def _name(site: Any) -> str:
    """The name of a site in results, where `.` replaces `/`."""
    return site["name"].replace("/", ".")


def _log_probability(site: Any) -> jax.Array:
    """The log-density of a site at its value, in the shape of its batch."""
    density = site["fn"].log_prob(site["value"])
    return density if site["scale"] is None else site["scale"] * density


def _parameter(site: Any) -> Parameter:
    """The parameter of a latent site, with NumPyro's map from unconstrained space."""
    if site["fn"].support.is_discrete:
        raise ValueError(
            f"latent site {site['name']!r} is discrete ({type(site['fn']).__name__}), but all "
            "samplers here need continuous parameters: sum it out of the model, such as by a "
            "mixture (`numpyro.distributions.MixtureSameFamily`)."
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


def _check_sites(model: Callable[..., Any], shards: Mapping[str, Rows], sites: Sites) -> None:
    """Refuse latent sites that grow with the rows, and observed sites without a value per row."""
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
                        "belongs into the distribution of a latent site.)"
                    )
            elif shape != tuple(np.shape(sites[name]["value"])):
                raise ValueError(
                    f"latent site {name!r} has shape {shape} for the rows of {site_name!r} and "
                    "another for other rows: a latent variable may not grow with the rows."
                )


def _check_shared_prior(split: SplitDensity) -> None:
    """Refuse shared sites whose prior depends on local ones, of which every agent has others."""
    parameters = split.parameters
    if not parameters.num_local:
        return
    point = np.random.default_rng(0).normal(size=parameters.dim)
    with jax.enable_x64(True):
        slope = np.asarray(jax.jit(jax.grad(split.log_prior))(point))[parameters.num_shared :]
    if slope.any():
        raise ValueError(
            "the prior of a shared latent site depends on a local one, and sites have different "
            "values of that: mark the shared site in `local`, too, or write its prior without it."
        )


def _independent_of_rows(model: Callable[..., Any], shards: Mapping[str, Rows]) -> list[str]:
    """The deterministic sites that are equal on all rows; a warning names each other one.

    They are compared on the rows of every agent, and on the last row of every agent.
    """
    some = [*shards.values(), *({c: v[-1:] for c, v in rows.items()} for rows in shards.values())]
    varying, names = set(), list(_deterministic(_trace(model, some[0])))
    for seed in range(NUM_TRIALS) if names else ():
        runs = [_deterministic(_trace(model, rows, seed=seed)) for rows in some]
        varying |= {name for name in names if not _all_equal(run[name]["value"] for run in runs)}
    for name in sorted(varying):
        warnings.warn(
            f"the deterministic site {name!r} depends on the rows, which differ between agents; "
            "it is not saved with the draws.",
            stacklevel=4,
        )
    return [name for name in names if name not in varying]


def _all_equal(values: Iterable[Any]) -> bool:
    """Whether arrays are equal, with nan equal to nan."""
    first, *rest = (np.asarray(value, float) for value in values)
    return all(np.array_equal(first, other, equal_nan=True) for other in rest)

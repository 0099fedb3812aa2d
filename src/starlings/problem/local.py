"""Parameters of a site's own: drawn at the site, and never sent.

With x the parameters that all agents share and u_i those of agent i alone, the posterior is

    p(x, u_1, ..., u_N | D) ~ p(x) prod_i p(u_i | x) p(D_i | x, u_i)                        (1)

and the flat vector of agent i is z_i = (x, u_i), with the potential

    f_i(x, u_i) = - sum_{r in D_i} log p(r | x, u_i) - log p(u_i | x) - (1/N) log p(x)      (2)

so that the f_i sum to minus the logarithm of (1). Where rows may be pooled, (1) is a problem with
shared parameters only: one array (site, ...) for each local parameter, see `pooled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import LocalParametersError
from starlings.problem.likelihood import Likelihood, UnconstrainedPrior
from starlings.problem.parameters import Parameter, Parameters, Transform
from starlings.problem.report import Report, Values, named_values
from starlings.problem.shards import Rows

if TYPE_CHECKING:
    from starlings.problem.fields import ProblemFields

SITE_NUMBER = "number of the site"
"""The column of pooled rows that says which site they come from."""
TRIALS = 3
"""Random points at which saved values are compared, to find those that depend on local ones."""


def refuse_local(problem: ProblemFields, what: str) -> None:
    """Refuse something that needs all parameters to be shared; `what` begins a sentence."""
    if problem.num_local:
        names = [name for name, block in problem.parameters.blocks.items() if block.local]
        raise LocalParametersError(
            f"{what} cannot be used where parameters are local, as {', '.join(names)} are here: "
            "take method='auto', 'hmc' or `starlings.DADMMS(rho=...)`, which draw them at their "
            "sites; "
            "or, where rows may be pooled, `problem.pooled()`."
        )


@dataclass(frozen=True)
class SharedPrior:
    """The log-prior of the shared parameters, as a log-density of the flat vector (x, u_i)."""

    parameters: Parameters
    log_prior: Callable[[dict[str, Any]], Any]

    def __call__(self, z: jax.Array) -> jax.Array:
        """log p(x), with the log-determinant of the constraints."""
        shared = self.parameters.part(local=False)
        return UnconstrainedPrior(shared, self.log_prior)(z[: shared.dim])


@dataclass(frozen=True)
class LocalPrior:
    """The log-prior of the local parameters given the shared ones, as that of the flat vector."""

    parameters: Parameters
    log_prior: Callable[[dict[str, Any]], Any]

    def __call__(self, z: jax.Array) -> jax.Array:
        """log p(u_i | x), with the log-determinant of the constraints of u_i."""
        own = self.parameters.part(local=True)
        log_determinant = own.log_determinant(z[-own.dim :])
        return self.log_prior(self.parameters.constrain(z)) + log_determinant


def check_local_prior(parameters: Parameters, local_prior: Any) -> None:
    """Refuse local parameters without a prior, a prior without them, and nothing shared."""
    names = [name for name, block in parameters.blocks.items() if block.local]
    if names and not parameters.num_shared:
        raise ValueError(
            f"all `parameters` are local ({', '.join(names)}), so that the sites have nothing in "
            "common: leave out `local=True` of one of them."
        )
    if names and local_prior is None:
        raise ValueError(
            f"{', '.join(names)} are local, so `local_prior` must say log p(local | shared): a "
            "function of all parameters of a site."
        )
    if not names and local_prior is not None:
        raise ValueError(
            "`local_prior` is given, and no parameter is local: mark those with "
            "`starlings.Parameter(..., local=True)`."
        )


def local_names(problem: ProblemFields) -> list[str]:
    """The saved values that differ between agents: local parameters, and what depends on them."""
    if not problem.num_local:
        return []
    random = np.random.default_rng(0)
    points = random.normal(size=(TRIALS, 2, problem.dim))
    points[:, 1, : problem.num_shared] = points[:, 0, : problem.num_shared]
    values = named_values(problem.parameters, problem.report, None, points)
    blocks = problem.parameters.blocks
    return [
        name
        for name, value in values.items()
        if (name in blocks and blocks[name].local)
        or not np.array_equal(value[:, 0], value[:, 1], equal_nan=True)
    ]


# All sites in one place


@dataclass(frozen=True)
class EachSite:
    """The transform of a local parameter, for an array with one entry for each site."""

    transform: Transform

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained values (site, ...)."""
        return jax.vmap(self.transform)(z)

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return jax.vmap(self.transform._inverse)(theta)

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """The log-determinants of all sites."""
        return jax.vmap(self.transform.log_abs_det_jacobian)(z, theta)


@dataclass(frozen=True)
class Joint:
    """The vector (x, all u_i) of pooled rows, and the vectors z_i that it consists of."""

    parameters: Parameters
    """Those of one site."""
    sites: int

    def pooled_parameters(self) -> Parameters:
        """The shared parameters, and an array (site, ...) for each local one."""
        return Parameters({name: self._pooled(b) for name, b in self.parameters.blocks.items()})

    def _pooled(self, block: Parameter) -> Parameter:
        if not block.local:
            return block
        shapes = ((self.sites, *shape) for shape in (block.shape, block.unconstrained_shape))
        shape, free_shape = shapes
        each = EachSite(block.bijection)
        return Parameter(shape, transform=each, free_shape=free_shape)

    def vectors(self, x: jax.Array) -> jax.Array:
        """z_i of every site, (site, dim)."""
        count, parts = self.parameters.num_shared, []
        shared = jnp.broadcast_to(x[:count], (self.sites, count))
        for block in self.parameters.part(local=True).blocks.values():
            end = count + self.sites * block.size
            parts.append(x[count:end].reshape(self.sites, block.size))
            count = end
        return jnp.concatenate([shared, *parts], axis=1)

    def flat(self, x: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The vector (x, all u_i) of shared values and those of every site, (site, local)."""
        sizes = [b.size for b in self.parameters.part(local=True).blocks.values()]
        blocks = np.split(own, np.cumsum(sizes)[:-1], axis=1)
        return np.concatenate([x, *(block.ravel() for block in blocks)])


@dataclass(frozen=True)
class JointLikelihood(Likelihood):
    """The log-likelihood of pooled rows, each with the parameters of its own site."""

    joint: Joint
    of_site: Likelihood

    def __call__(self, x: jax.Array, rows: Rows) -> jax.Array:
        """The log-likelihood of every row, (row,)."""
        vectors = self.joint.vectors(x)
        columns = {name: column for name, column in rows.items() if name != SITE_NUMBER}

        def one(site: Any, row: Any) -> Any:
            return self.of_site(vectors[site], jax.tree.map(lambda entry: entry[None], row))[0]

        return jax.vmap(one)(rows[SITE_NUMBER].astype(int), columns)


@dataclass(frozen=True)
class JointPrior:
    """log p(x) + sum_i log p(u_i | x), of eq. (1)."""

    joint: Joint
    shared: Callable[[jax.Array], jax.Array]
    local: Callable[[jax.Array], jax.Array]

    def __call__(self, x: jax.Array) -> jax.Array:
        """The log-density of the vector (x, all u_i)."""
        vectors = self.joint.vectors(x)
        return self.shared(vectors[0]) + jax.vmap(self.local)(vectors).sum()  # (1)


@dataclass(frozen=True)
class JointReport:
    """What is saved, with an array (site, ...) for each value that differs between sites."""

    compute: Callable[[Values], Values]
    local: tuple[str, ...]
    """The saved values that differ between sites."""
    blocks: Mapping[str, Parameter]

    def __call__(self, values: Values) -> Values:
        """The values to save, from all parameters."""
        own = {name: v for name, v in values.items() if self.blocks[name].local}
        shared = {name: v for name, v in values.items() if name not in own}
        found = jax.vmap(lambda each: self.compute({**shared, **each}))(own)
        return {name: v if name in self.local else v[0] for name, v in found.items()}


def pooled_parts(problem: Any) -> dict[str, Any]:
    """The fields of a problem with local parameters when all rows are at one site."""
    joint = Joint(problem.parameters, len(problem.shards))
    report, names = problem.report, tuple(problem.local_names)
    if report is not None:
        compute = JointReport(report.compute, names, problem.parameters.blocks)
        report = Report(compute, _labels(report.labels, names), report.names)
    return {
        "log_likelihoods": JointLikelihood(joint, problem.log_likelihoods),
        "log_prior": JointPrior(joint, problem.log_prior, problem.log_local_prior),
        "log_local_prior": None,
        "parameters": joint.pooled_parameters(),
        "report": report,
    }


def _labels(
    labels: Mapping[str, tuple[str, ...]], local: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The labels of vectors that all sites share: the others are matrices now."""
    return {name: own for name, own in labels.items() if name not in local}


def with_site_numbers(shards: Mapping[str, Rows]) -> dict[str, Any]:
    """The rows of every site, with the column `SITE_NUMBER`."""
    numbered = {}
    for number, (site, rows) in enumerate(shards.items()):
        count = len(next(iter(rows.values())))
        numbered[site] = {**rows, SITE_NUMBER: np.full(count, float(number))}
    return numbered


def marked_local(parameters: Parameters, names: Iterable[str]) -> Parameters:
    """The same parameters, of which those with these names are local."""
    unknown = sorted(set(names) - set(parameters.blocks))
    if unknown:
        raise ValueError(
            f"`local` names {unknown}, and the parameters are {list(parameters.blocks)}."
        )
    return Parameters({n: replace(b, local=n in names) for n, b in parameters.blocks.items()})

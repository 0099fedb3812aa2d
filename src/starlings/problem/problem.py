"""A problem: a likelihood per row, a prior, and the rows, already divided among agents.

Agent i has the rows D_i and the potential

    f_i(z) = - sum_{r in D_i} log p(r | z) - (1/N) log p(z)                (1)

in unconstrained coordinates z (see `parameters`), so that the f_i sum to the pooled potential
F(z) = -log p(D | z) - log p(z) exactly; with a coordinator the prior is shared in another way (see
`hub`). A potential may be known to be quadratic:

    f_i(z) = z'H_i z / 2 - b_i'z + c_i                                     (2)

A problem can also be written in other coordinates, with tilted potentials: see `coordinates`. Some
parameters may be local, with a value for each site: see `local`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from starlings.problem.likelihood import (
    FlatLikelihood,
    Likelihood,
    RowLogLikelihood,
    UnconstrainedPrior,
    rowwise_likelihood,
)
from starlings.problem.local import (
    LocalPrior,
    SharedPrior,
    check_local_prior,
)
from starlings.problem.model_checks import check_likelihood, check_prior
from starlings.problem.model_parts import ModelParts
from starlings.problem.parameters import Parameter, Parameters
from starlings.problem.problem_html import problem_html
from starlings.problem.report import Report, Values
from starlings.problem.shards import Rows, check_shards
from starlings.problem.variants import ProblemVariants


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Problem(ProblemVariants):
    """A Bayesian model and its data, divided among sites.

    A problem never changes: methods such as `renamed` and `affine` return a new one.

    Args:
        log_likelihood: `(parameters, row) -> scalar`, written in JAX; `parameters` maps names to
            constrained values and `row` maps column names to one row's entries.
        log_prior: `parameters -> scalar`, on the constrained values. The constraint's
            log-determinant is added, and the sum divided by N for each agent. It gets the shared
            parameters only.
        parameters: names to `Parameter` or to a shape.
        shards: the rows of each site: a mapping of site names (or a list) to mappings of column
            names to arrays with one entry per row. Shards may have any lengths above zero.
        quadratic: whether every f_i is quadratic in z, eq. (2): proximal steps are then closed
            forms, and `theory` knows the exact law of every sampler. Checked when first used.
        derived: `parameters -> mapping` of names to values, written in JAX: what is saved with the
            draws beside the parameters, such as an odds ratio.
        local_prior: `parameters -> scalar`, log p(local | shared) on the constrained values, where
            some parameters are `Parameter(..., local=True)`: every site has its own values of
            them, which it draws itself and never sends.

    >>> import jax.numpy as jnp
    >>> problem = Problem(
    ...     lambda p, row: -0.5 * (row["y"] - p["mean"]) ** 2,
    ...     lambda p: -0.5 * p["mean"] ** 2,
    ...     parameters={"mean": ()},
    ...     shards={"north": {"y": [1.0, 2.0]}, "south": {"y": [3.0]}},
    ... )
    >>> problem.sites, problem.dim
    (['north', 'south'], 1)
    >>> problem.potential([0.0])
    7.0
    """

    def __init__(
        self,
        log_likelihood: RowLogLikelihood,
        log_prior: Callable[[dict[str, Any]], Any],
        parameters: Mapping[str, Parameter | Sequence[int] | int],
        shards: Mapping[Any, Rows] | Sequence[Rows],
        quadratic: bool = False,
        derived: Callable[[Values], Values] | None = None,
        local_prior: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        blocks = Parameters(parameters)
        check_local_prior(blocks, local_prior)
        likelihood = rowwise_likelihood(blocks, log_likelihood)
        prior: Any = UnconstrainedPrior(blocks, log_prior)
        own, rows = None, check_shards(shards)
        if local_prior is not None:
            prior, own = SharedPrior(blocks, log_prior), LocalPrior(blocks, local_prior)
            check_prior(own, blocks.dim, blocks.blocks, "local_prior")
        check_likelihood(likelihood, blocks.dim, next(iter(rows.values())), blocks.blocks)
        check_prior(prior, blocks.dim, blocks.part(local=False).blocks)
        report = None if derived is None else Report.with_derived(derived).checked(blocks)
        given = (likelihood, prior, blocks, rows, tuple(rows), quadratic)
        super().__init__(*given, report=report, log_local_prior=own)

    @classmethod
    def from_flat(
        cls,
        log_likelihoods: Likelihood | Callable[[jax.Array, Rows], jax.Array],
        log_prior: Callable[[jax.Array], jax.Array],
        parameters: Parameters,
        shards: Mapping[Any, Rows] | Sequence[Rows],
        quadratic: bool = False,
        log_local_prior: Callable[[jax.Array], jax.Array] | None = None,
    ) -> Problem:
        """A problem from densities of the flat vector x of unconstrained parameters.

        Args:
            log_likelihoods: `(x, rows) -> one log-likelihood per row`, for many rows at once.
            log_prior: `x -> scalar`, with the log-determinant of the constraints.
            parameters: the named parameters behind the flat vector.
            shards: the rows of each site, as in `Problem`.
            quadratic: whether every f_i is quadratic in x, as in `Problem`.
            log_local_prior: `x -> scalar`, log p(local | shared) with the log-determinant of the
                constraints of the local parameters, the last entries of x; None if there are none.
        """
        check_local_prior(parameters, log_local_prior)
        if not isinstance(log_likelihoods, Likelihood):
            log_likelihoods = FlatLikelihood(log_likelihoods)
        rows = check_shards(shards)
        return cls._of_fields(
            log_likelihoods=log_likelihoods,
            log_prior=log_prior,
            parameters=parameters,
            shards=rows,
            site_names=tuple(rows),
            is_quadratic=quadratic,
            log_local_prior=log_local_prior,
        )

    @classmethod
    def from_numpyro(
        cls,
        model: Callable[..., Any],
        shards: Mapping[Any, Rows],
        local: Collection[str] = (),
    ) -> Problem:
        """A problem from a NumPyro model and each site's keyword arguments to it.

        Every array argument has one entry per row, and every observed site of the model one
        log-probability per row; latent sites may not grow with the rows.

        Args:
            model: the model.
            shards: the rows of each site, as in `Problem`.
            local: the names of latent sites that are local: every owner of rows has its own values
                of them, which it draws itself and never sends.
        """
        from starlings.problem.numpyro import read_model

        return cls._of_parts("numpyro", read_model(model, shards, local))

    @classmethod
    def from_pymc(
        cls,
        model: Any,
        shards: Mapping[Any, Rows] | Sequence[Rows] | None = None,
        *,
        sites: Sequence[Any] | None = None,
    ) -> Problem:
        """A problem from a PyMC model, in one of three ways.

            from_pymc(function, shards)     a function of columns that returns a `pm.Model`
            from_pymc(model, shards)        a `pm.Model` with a `pm.Data` for each column
            from_pymc(model, sites=labels)  a `pm.Model` that has the rows of all sites

        Observed variables and potentials that depend on rows have one value for each row; free
        variables are the parameters, which may not grow with the rows.

        Args:
            model: a `pm.Model`, or a function that builds one from columns, which it is given as
                symbols of PyTensor.
            shards: the columns of every site.
            sites: the label of each row, for a model that has all rows.
        """
        from starlings.problem.pymc import read_pymc

        return cls._of_parts("pymc", read_pymc(model, shards, sites))

    @classmethod
    def from_bambi(cls, model: Any, sites: str | Sequence[Any]) -> Problem:
        """A problem from a Bambi model, whose data have the rows of all sites.

        Args:
            model: a `bambi.Model`, built or not.
            sites: the column of its data that names the site of each row, or one label per row.
        """
        from starlings.problem.bambi import read_bambi

        return cls._of_parts("bambi", read_bambi(model, sites))

    @classmethod
    def _of_parts(cls, kind: str, parts: ModelParts) -> Problem:
        """A problem from what was read off a model of another library."""
        densities, own = (parts.log_likelihoods, parts.log_prior), parts.log_local_prior
        problem = cls.from_flat(*densities, parts.parameters, parts.shards, log_local_prior=own)
        if parts.report is not None:
            problem = problem.with_report(parts.report)
        return problem.with_description(kind=kind, model=parts.name)

    def __repr__(self) -> str:
        local = f", of which {self.num_local} local" if self.num_local else ""
        return (
            f"Problem(sites={self.num_agents}, rows={self.num_rows.sum()}, dim={self.dim}{local})"
        )

    def _repr_html_(self) -> str:
        return problem_html(self)

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
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import numpy as np

from starlings.problem.absent import Absent
from starlings.problem.agent import Agent
from starlings.problem.coordinates import Frame, frame
from starlings.problem.hub import Hub
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
    pooled_parts,
    refuse_local,
    with_site_numbers,
)
from starlings.problem.model_checks import check_likelihood, check_prior
from starlings.problem.model_parts import ModelParts
from starlings.problem.parameters import Parameter, Parameters
from starlings.problem.problem_html import problem_html
from starlings.problem.quadratic import Quadratic
from starlings.problem.report import Report, Values
from starlings.problem.shards import Rows, check_shards
from starlings.problem.values import ProblemValues


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Problem(ProblemValues):
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

    @classmethod
    def _of_fields(cls, **values: Any) -> Problem:
        """A problem from its fields, which are not checked."""
        problem = cls.__new__(cls)
        ProblemValues.__init__(problem, **values)
        return problem

    def _replace(self, **changes: Any) -> Problem:
        """This problem with other values of some fields."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return self._of_fields(**{**own, **changes})

    def with_report(self, report: Report) -> Problem:
        """This problem with other values saved for its draws."""
        return self._replace(report=report.checked(self.parameters))

    def with_description(self, **description: Any) -> Problem:
        """This problem with more entries in its description, in values that JSON has."""
        return self._replace(description={**self.description, **description})

    def with_quadratic(self, quadratic: Quadratic) -> Problem:
        """This problem with quadratic potentials that are known, and not computed from the rows."""
        return self._replace(is_quadratic=True, known_quadratic=quadratic)

    def renamed(self, sites: Sequence[str]) -> Problem:
        """This problem with other names for its sites, given in the order of its shards."""
        shards = check_shards(dict(zip(sites, self.shards.values(), strict=True)))
        return self._replace(shards=shards, site_names=tuple(shards))

    def part_of(self, sites: Sequence[str]) -> Problem:
        """This problem as a part of a larger one, with the rows of the other sites elsewhere.

        Args:
            sites: the names of all sites of the larger problem, in their order.
        """
        unknown = sorted(set(self.shards) - set(sites))
        if unknown:
            raise ValueError(
                f"`sites` must name every site whose rows are here; {unknown} are missing."
            )
        in_order = {site: self.shards[site] for site in sites if site in self.shards}
        return self._replace(shards=in_order, site_names=tuple(sites), known_quadratic=None)

    def with_hub(self, hub: Hub) -> Problem:
        """This problem with a further agent without rows, the first one; see `starlings.with_hub`.

        Args:
            hub: its name, and whether it has the prior.
        """
        refuse_local(self, "a hub, which would have local parameters without rows,")
        if self.hub is not None or self.frame is not None or self.absent is not None:
            raise ValueError(
                "this problem has a hub already, or is in other coordinates, or without some "
                "sites; call `starlings.with_hub` on the original one."
            )
        if hub.name in self.sites:
            raise ValueError(f"the hub cannot be called {hub.name!r}, as one of the sites is.")
        no_rows = {name: column[:0] for name, column in next(iter(self.shards.values())).items()}
        return self._replace(
            shards={hub.name: no_rows, **self.shards},
            site_names=(hub.name, *self.site_names),
            known_quadratic=None,
            hub=hub,
        )

    def without(self, absent: Collection[str]) -> Problem:
        """The problem of the other sites alone: their rows, with the whole prior.

        Args:
            absent: the names of the sites that have left; see `starlings.without` for a problem in
                which something stands in for their rows.
        """
        if self.frame is not None or self.absent is not None or self.hub is not None:
            raise ValueError(
                "this problem is in other coordinates, or without some sites, already, or it has a "
                "hub; call `without` on the original one."
            )
        gone = Absent.among(self.sites, absent)
        rows = {site: shard for site, shard in self.shards.items() if site not in gone.sites}
        if not rows:
            raise ValueError(
                f"`absent` must leave a site whose rows are here, got {list(gone.sites)}."
            )
        names = tuple(site for site in self.site_names if site not in gone.sites)
        return self._replace(shards=rows, site_names=names, known_quadratic=None, absent=gone)

    def with_stand_in(self, mode: tuple[Any, Any], linear: Any, quadratic: Any) -> Problem:
        """This problem, which is `without` some sites, with a Gaussian in place of their rows.

        Args:
            mode: c and L of `coordinates` at the mode of the larger problem.
            linear: what every agent here takes off its potential, (agent, dim), at x = 0.
            quadratic: the same of its Hessian, (agent, dim, dim), or (agent, dim) for diagonals.
        """
        refuse_local(self, "a Gaussian in place of the rows of absent sites")
        if self.absent is None:
            raise ValueError("no site is absent; call `without` first.")
        scale = np.ones(self.dim) if np.ndim(mode[1]) == 1 else np.eye(self.dim)
        tilts = (linear, quadratic)
        own = frame(np.zeros(self.dim), scale, len(self.shards), *tilts, has_all_agents=False)
        absent = replace(self.absent, mode=mode)
        return self._in_frame(own)._replace(absent=absent)

    def of_site(self, site: str) -> Problem:
        """The problem of one site without the others: its rows with the whole prior."""
        if site not in self.shards:
            raise ValueError(f"`site` must be one of {self.sites}, got {site!r}.")
        return self._with_shards({site: self.shards[site]})

    def without_local(self, integrate: Callable[[Agent], Agent]) -> Problem:
        """The problem of the shared parameters, with the local ones integrated out at every site.

        Args:
            integrate: agents with rows and priors of this problem -> those whose potential is minus
                the logarithm of the integral; see `solvers.marginal`.
        """
        return self._replace(
            parameters=self.parameters.part(local=False),
            is_quadratic=False,
            known_quadratic=None,
            log_local_prior=None,
            report=None,
            integrate=integrate,
        )

    def pooled(self) -> Problem:
        """The same posterior with all rows at one site, for comparison where pooling is allowed.

        A local parameter becomes an array with an entry for each site, (site, ...).
        """
        shards = with_site_numbers(self.shards) if self.num_local else self.shards
        columns = next(iter(shards.values()))
        rows = {c: np.concatenate([s[c] for s in shards.values()]) for c in columns}
        parts = pooled_parts(self) if self.num_local else {}
        return self._with_shards({"pooled": rows})._replace(**parts)

    def _with_shards(self, shards: dict[str, Rows]) -> Problem:
        """Other rows in the same coordinates, without tilts, which are made for all sites."""
        if self.has_stand_in:
            raise ValueError(
                "a Gaussian stands in for the rows of a site here, and every agent has a part of "
                "it; call this on the original problem."
            )
        own = self.frame
        untilted = None if own is None else frame(own.centre, own.scale, len(shards))
        return self._replace(
            shards=shards, site_names=tuple(shards), frame=untilted, known_quadratic=None, hub=None
        )

    def affine(
        self,
        centre: Any,
        scale: Any,
        linear_tilt: Any = None,
        quadratic_tilt: Any = None,
        tolerance: float = 0.0,
    ) -> Problem:
        """The same posterior in other coordinates z, where the flat vector is centre + scale z.

        Args:
            centre: (dim,).
            scale: (dim, dim), or (dim,) for a diagonal matrix.
            linear_tilt: b_i of `coordinates`, eq. (1), (agent, dim); None for no tilts.
            quadratic_tilt: A_i of `coordinates`, eq. (1), (agent, dim, dim), or (agent, dim) if
                `scale` is diagonal; given together with `linear_tilt`.
            tolerance: tilts have to sum to zero over the agents; this is the largest absolute
                entry of the sum that is accepted beside rounding errors.
        """
        refuse_local(self, "coordinates that all agents have in common")
        if self.frame is not None and not self.frame.has_tilts_only:
            raise ValueError(
                "this problem is in other coordinates already; call `affine` on the original one."
            )
        has_all = len(self.shards) == self.num_agents
        tilts = (linear_tilt, quadratic_tilt)
        moved = frame(
            centre, scale, len(self.shards), *tilts, has_all_agents=has_all, tolerance=tolerance
        )
        if moved.centre.shape != (self.dim,):
            raise ValueError(f"`centre` must have shape {(self.dim,)}, got {moved.centre.shape}.")
        return self._in_frame(moved)

    def _in_frame(self, moved: Frame) -> Problem:
        known = None if self.quadratic is None else self.quadratic.in_frame(moved)
        whole = moved if self.frame is None else self.frame.then(moved)
        return self._replace(frame=whole, known_quadratic=known)

    def __repr__(self) -> str:
        return f"Problem(sites={self.num_agents}, rows={self.num_rows.sum()}, dim={self.dim})"

    def _repr_html_(self) -> str:
        return problem_html(self)

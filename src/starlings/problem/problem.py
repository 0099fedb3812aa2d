"""A problem: a likelihood per row, a prior, and the rows, already divided among agents.

Agent i holds the rows D_i and the potential

    f_i(z) = - sum_{r in D_i} log p(r | z) - (1/N) log p(z)                (1)

in unconstrained coordinates z (see `parameters`), so that the f_i sum to the pooled potential
F(z) = -log p(D | z) - log p(z) exactly. A potential may be known to be quadratic:

    f_i(z) = z'H_i z / 2 - b_i'z + c_i                                     (2)

A problem may also be looked at in other coordinates, and with tilted potentials: see `frames`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.problem.agent import Agent
from starlings.problem.coordinates import Frame, frame, times
from starlings.problem.derived import Report
from starlings.problem.likelihood import RowwiseLikelihood, UnconstrainedPrior
from starlings.problem.model_checks import (
    check_likelihood,
    check_mapping,
    check_prior,
    check_report,
)
from starlings.problem.parameters import Parameter, Parameters, check_names
from starlings.problem.quadratic import Quadratic
from starlings.problem.shards import Rows, check_shards, count_rows, digest, stacked


class Problem:
    """A Bayesian model and its data, divided among sites.

    Args:
        log_likelihood: `(parameters, row) -> scalar`, written in JAX; `parameters` maps names to
            constrained values and `row` maps column names to one row's entries.
        log_prior: `parameters -> scalar`, on the constrained values. The constraint's
            log-determinant is added, and the sum divided by N for each agent.
        parameters: names to `Parameter` or to a shape.
        shards: the rows of each site: a mapping of site names (or a list) to mappings of column
            names to arrays with one entry per row. Shards may have any lengths above zero.
        quadratic: say that every f_i is quadratic in z, eq. (2): proximal steps are then closed
            forms, and `theory` knows the exact law of every sampler. Checked when first used.
        derived: `parameters -> mapping` of names to values, written in JAX: what else is to be kept
            with the draws, such as an odds ratio.

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
        log_likelihood: Callable[[dict[str, Any], Rows], Any],
        log_prior: Callable[[dict[str, Any]], Any],
        parameters: Mapping[str, Parameter | Sequence[int] | int],
        shards: Mapping[Any, Rows] | Sequence[Rows],
        quadratic: bool = False,
        derived: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.report: Report | None
        blocks = Parameters(parameters)
        likelihood = RowwiseLikelihood(blocks, log_likelihood)
        prior = UnconstrainedPrior(blocks, log_prior)
        self._build(likelihood, prior, blocks, shards, quadratic)
        check_likelihood(likelihood, self.dim, next(iter(self.shards.values())), blocks.blocks)
        check_prior(prior, self.dim, blocks.blocks)
        if derived is not None:
            report = Report(lambda named: {**named, **check_mapping(derived(named))})
            self.report = checked_report(report, blocks)

    def _build(
        self, log_likelihoods, log_prior, parameters, shards, is_quadratic, frame=None
    ) -> None:
        self.log_likelihoods = log_likelihoods
        self.log_prior = log_prior
        self.parameters: Parameters = parameters
        self.shards: dict[str, Rows] = check_shards(shards)
        self.is_quadratic: bool = is_quadratic
        self.frame: Frame | None = frame
        self.sites: list[str] = list(self.shards)
        self.report = None
        self.about: dict[str, Any] = {}

    @classmethod
    def from_flat(
        cls,
        log_likelihoods: Callable[[jax.Array, Rows], jax.Array],
        log_prior: Callable[[jax.Array], jax.Array],
        parameters: Parameters,
        shards: Mapping[Any, Rows] | Sequence[Rows],
        quadratic: bool = False,
    ) -> Problem:
        """A problem from densities of the flat vector z: all rows at once, and the prior."""
        problem = cls.__new__(cls)
        problem._build(log_likelihoods, log_prior, parameters, shards, quadratic)
        return problem

    @classmethod
    def from_numpyro(cls, model: Callable[..., Any], shards: Mapping[Any, Rows]) -> Problem:
        """A problem from a NumPyro model and each site's keyword arguments to it.

        Every array argument has one entry per row, and every observed site of the model one
        log-probability per row; latent sites may not grow with the rows.
        """
        from starlings.problem.numpyro import problem_from_numpyro

        return problem_from_numpyro(model, shards)

    def reporting(self, report: Report) -> Problem:
        """The same problem, of whose parameters this is kept with the draws."""
        problem = self._like(self.shards, self.frame)
        problem.report = checked_report(report, self.parameters)
        return problem

    def described(self, **about: Any) -> Problem:
        """The same problem with a description (in terms that JSON has), which results keep."""
        problem = self._like(self.shards, self.frame)
        problem.about = {**self.about, **about}
        return problem

    def provenance(self) -> dict[str, Any]:
        """What the model and the data are, in terms that JSON has."""
        blocks = self.parameters.blocks.items()
        parameters = {
            name: {"shape": block.shape, "transform": type(block.bijection).__name__}
            for name, block in blocks
        }
        rows = {site: count_rows(shard) for site, shard in self.shards.items()}
        digests = {site: digest(shard) for site, shard in self.shards.items()}
        return {"parameters": parameters, "rows": rows, "digests": digests, **self.about}

    def renamed(self, sites: Sequence[str]) -> Problem:
        """The same problem with other names for its sites, in their order."""
        return self._like(dict(zip(sites, self.shards.values(), strict=True)), self.frame)

    def part_of(self, sites: Sequence[str]) -> Problem:
        """This problem as some of the sites of a larger one, whose rows are held elsewhere."""
        unknown = sorted(set(self.shards) - set(sites))
        if unknown:
            raise ValueError(f"`sites` must name every site that is held, but not {unknown}.")
        in_order = {site: self.shards[site] for site in sites if site in self.shards}
        part = self._like(in_order, self.frame)
        part.sites = list(sites)
        return part

    @property
    def num_agents(self) -> int:
        """The number of sites, with those that are held elsewhere."""
        return len(self.sites)

    @property
    def local(self) -> np.ndarray:
        """The numbers of the sites whose rows are here, in their order: all of them, mostly."""
        place = {site: i for i, site in enumerate(self.sites)}
        return np.array([place[site] for site in self.shards])

    @property
    def dim(self) -> int:
        """The dimension of the flat vector z."""
        return self.parameters.dim

    @property
    def num_rows(self) -> np.ndarray:
        """The number of rows of each site that is held."""
        return np.array([count_rows(rows) for rows in self.shards.values()])

    @functools.cached_property
    def quadratic(self) -> Quadratic | None:
        """H_i, b_i, c_i of every agent, eq. (2); None if not quadratic.

        Read off at z = 0, unless it is known: see `affine`.
        """
        if not self.is_quadratic:
            return None
        with jax.enable_x64(True):
            away = np.random.default_rng(0).normal(size=self.dim)
            found = _derivatives(self._agents(None, None), np.zeros(self.dim), away)
        hessian, gradient, values, values_away = map(np.asarray, found)
        quadratic = Quadratic.factored(hessian, -gradient, values)
        if not np.allclose(quadratic.values(away), values_away, rtol=1e-8, atol=1e-8):
            raise ValueError("`quadratic=True`, but the potentials are not quadratic in z.")
        return quadratic

    def potential(self, z: Any) -> float:
        """The pooled potential F(z), the sum of all f_i."""
        return float(self.potentials(z).sum())

    def potentials(self, z: Any) -> np.ndarray:
        """f_i(z) of every agent, at one z."""
        return self._of_every_agent(Agent.potential, z)

    def hessians(self, z: Any) -> np.ndarray:
        """The Hessian of every f_i at one z."""
        return self._of_every_agent(Agent.hessian, z)

    def _of_every_agent(self, function: Callable[..., Any], z: Any) -> np.ndarray:
        with jax.enable_x64(True):
            by_agent = jax.jit(jax.vmap(function, in_axes=(0, None)))
            return np.asarray(by_agent(self.agents(), jnp.asarray(z, float)))

    def constrain(self, z: Any) -> dict[str, np.ndarray]:
        """The named parameters at flat vectors z of any leading shape."""
        return self._named(z, None)

    def reported(self, z: Any) -> dict[str, np.ndarray]:
        """What is kept with the draws, by name: the parameters, or what `report` makes of them."""
        return self._named(z, self.report)

    @property
    def num_reported(self) -> int:
        """How many numbers are kept of one agent's draw."""
        if self.report is None:
            return sum(math.prod(block.shape) for block in self.parameters.blocks.values())
        shapes = check_report(self.report.compute, self.parameters).values()
        return sum(math.prod(value.shape) for value in shapes)

    def _named(self, z: Any, report: Report | None) -> dict[str, np.ndarray]:
        with jax.enable_x64(True):
            flat = jnp.asarray(z, float)
            lead = flat.shape[:-1]
            named = _constrained(self.parameters, report, self.frame, flat.reshape(-1, self.dim))
            return {k: np.asarray(v).reshape(lead + v.shape[1:]) for k, v in named.items()}

    def labels_of(self, name: str) -> tuple[str, ...] | None:
        """Names of the entries of something reported, where it has some."""
        if self.report is not None and name in self.report.labels:
            return self.report.labels[name]
        block = self.parameters.blocks.get(name)
        return None if block is None else block.labels

    @property
    def coordinate_names(self) -> list[str]:
        """One name for every entry of the flat vector of the model, as people know it."""
        return self.parameters.flat_labels({} if self.report is None else self.report.names)

    def in_words(self, z: Any) -> str:
        """Where a flat vector is, by the names of the parameters: for messages."""

        def written(value: np.ndarray) -> str:
            return (
                np.array2string(value, precision=3, threshold=6) if value.ndim else f"{value:.3g}"
            )

        return ", ".join(f"{name} = {written(v)}" for name, v in self.constrain(z).items())

    def unconstrain(self, values: Mapping[str, Any]) -> np.ndarray:
        """The flat vector z at named, constrained values."""
        with jax.enable_x64(True):
            flat = np.asarray(self.parameters.unconstrain(values))
        return flat if self.frame is None else self.frame.from_original(flat)

    def exact_posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the posterior of a quadratic problem, in closed form.

        covariance = (sum_i H_i)^-1,   mean = covariance sum_i b_i          (3)
        """
        if self.quadratic is None:
            raise ValueError(
                "the posterior has a closed form only for quadratic potentials, such as linear "
                "regression with known noise."
            )
        covariance = np.linalg.inv(np.sum(self.quadratic.hessian, axis=0))
        return covariance @ np.sum(self.quadratic.linear, axis=0), covariance

    def agents(self, network: Network | None = None, dtype: Any = np.float64) -> Agent:
        """All agents, stacked, as the runtimes need them; `network` in the order of the sites."""
        agents = self._agents(network, self.quadratic)
        return jax.tree.map(lambda array: _as_type(array, dtype), agents)

    def _agents(self, network: Network | None, quadratic: Quadratic | None) -> Agent:
        rows, row_weights = stacked(list(self.shards.values()))
        local = self.local
        degrees = network.degrees if network is not None else np.zeros(self.num_agents)
        everywhere = np.ones(len(local))
        return Agent(
            rows=rows,
            row_weights=row_weights,
            num_rows=self.num_rows,
            prior_share=everywhere / self.num_agents,
            quadratic=quadratic,
            degree=degrees[local].astype(float),
            total_degree=everywhere * degrees.sum(),
            num_agents=everywhere * self.num_agents,
            index=local,
            frame=None if self.frame is None else self.frame.stacked(),
            log_likelihoods=self.log_likelihoods,
            log_prior=self.log_prior,
        )

    def alone(self, site: str) -> Problem:
        """The problem of one site without the others: its rows with the whole prior."""
        if site not in self.shards:
            raise ValueError(f"`site` must be one of {self.sites}, got {site!r}.")
        return self._with_shards({site: self.shards[site]})

    def pooled(self) -> Problem:
        """The same posterior with all rows at one site, for comparison where pooling is allowed."""
        columns = next(iter(self.shards.values()))
        rows = {c: np.concatenate([s[c] for s in self.shards.values()]) for c in columns}
        return self._with_shards({"pooled": rows})

    def affine(
        self,
        centre: Any,
        scale: Any,
        linear: Any = None,
        quadratic: Any = None,
        unnoticed: float = 0.0,
    ) -> Problem:
        """The same posterior in other coordinates: the model's flat vector is centre + scale z.

        Tilts of the agents' potentials, `linear` (agent, dim) and `quadratic` (agent, dim, dim),
        have to sum to zero over the agents, but for rounding or, where these coordinates give it a
        meaning, for `unnoticed`: see `frames`.
        """
        if self.frame is not None:
            raise ValueError("this problem is in other coordinates already; move the original.")
        is_whole = len(self.shards) == self.num_agents
        moved = frame(centre, scale, len(self.shards), linear, quadratic, is_whole, unnoticed)
        if moved.centre.shape != (self.dim,):
            raise ValueError(f"`centre` must have shape {(self.dim,)}, got {moved.centre.shape}.")
        problem = self._like(self.shards, moved)
        if self.quadratic is not None:
            problem.quadratic = self.quadratic.in_frame(moved)
        return problem

    def _with_shards(self, shards: dict[str, Rows]) -> Problem:
        """The same coordinates without tilts, which are made for all sites together."""
        kept = self.frame
        return self._like(
            shards, None if kept is None else frame(kept.centre, kept.scale, len(shards))
        )

    def _like(self, shards: dict[str, Rows], frame: Frame | None) -> Problem:
        problem = Problem.__new__(Problem)
        densities = (self.log_likelihoods, self.log_prior, self.parameters)
        problem._build(*densities, shards, self.is_quadratic, frame)
        problem.report, problem.about = self.report, self.about
        if shards is self.shards:
            problem.sites = self.sites
        return problem

    def __repr__(self) -> str:
        return f"Problem(sites={self.num_agents}, rows={self.num_rows.sum()}, dim={self.dim})"


@jax.jit
def _derivatives(agents: Agent, z: jax.Array, away: jax.Array) -> tuple[jax.Array, ...]:
    """Hessian, gradient and value of every agent's potential at one z, and the value elsewhere."""
    return jax.vmap(lambda a: (a.hessian(z), a.gradient(z), a.potential(z), a.potential(away)))(
        agents
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _constrained(
    parameters: Parameters, report: Report | None, frame: Frame | None, z: jax.Array
) -> dict[str, jax.Array]:
    if frame is not None:
        z = frame.centre + jax.vmap(functools.partial(times, frame.scale))(z)

    def one(z: jax.Array) -> dict[str, jax.Array]:
        named = parameters.constrain(z)
        return named if report is None else report.compute(named)

    return jax.vmap(one)(z)


def checked_report(report: Report, parameters: Parameters) -> Report:
    """The report, if it can be computed and its names can be written to a file."""
    shapes = check_report(report.compute, parameters)
    check_names({name: value.ndim for name, value in shapes.items()})
    return report


def _as_type(array: Any, dtype: Any) -> jax.Array:
    array = np.asarray(array)
    return jnp.asarray(array, dtype if array.dtype.kind == "f" else None)

"""Problems that follow from another one: with other names, coordinates, rows, or a coordinator.

None of them has rows that were not there, and none changes the problem that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from starlings.problem.absent import Absent
from starlings.problem.agent import Agent
from starlings.problem.coordinates import Frame, frame
from starlings.problem.hub import Hub
from starlings.problem.local import pooled_parts, refuse_local, with_site_numbers
from starlings.problem.quadratic import Quadratic
from starlings.problem.report import Report
from starlings.problem.shards import Rows, check_shards
from starlings.problem.values import ProblemValues


@dataclass(frozen=True, eq=False, repr=False)
class ProblemVariants(ProblemValues):
    """What a `Problem` has and computes, and the problems that can be made of it."""

    @classmethod
    def _of_fields(cls, **values: Any) -> Self:
        """A problem from its fields, which are not checked."""
        problem = cls.__new__(cls)
        ProblemValues.__init__(problem, **values)
        return problem

    def _replace(self, **changes: Any) -> Self:
        """This problem with other values of some fields."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return self._of_fields(**{**own, **changes})

    def with_report(self, report: Report) -> Self:
        """This problem with other values saved for its draws."""
        return self._replace(report=report.checked(self.parameters))

    def with_description(self, **description: Any) -> Self:
        """This problem with more entries in its description, in values that JSON has."""
        return self._replace(description={**self.description, **description})

    def with_quadratic(self, quadratic: Quadratic) -> Self:
        """This problem with quadratic potentials that are known, and not computed from the rows."""
        return self._replace(is_quadratic=True, known_quadratic=quadratic)

    def renamed(self, sites: Sequence[str]) -> Self:
        """This problem with other names for its sites, given in the order of its shards."""
        shards = check_shards(dict(zip(sites, self.shards.values(), strict=True)))
        return self._replace(shards=shards, site_names=tuple(shards))

    def part_of(self, sites: Sequence[str]) -> Self:
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

    def with_hub(self, hub: Hub) -> Self:
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

    def without(self, absent: Collection[str]) -> Self:
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

    def with_stand_in(self, mode: tuple[Any, Any], linear: Any, quadratic: Any) -> Self:
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

    def of_site(self, site: str) -> Self:
        """The problem of one site without the others: its rows with the whole prior."""
        if site not in self.shards:
            raise ValueError(f"`site` must be one of {self.sites}, got {site!r}.")
        return self._with_shards({site: self.shards[site]})

    def without_local(self, integrate: Callable[[Agent], Agent]) -> Self:
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

    def pooled(self) -> Self:
        """The same posterior with all rows at one site, for comparison where pooling is allowed.

        A local parameter becomes an array with an entry for each site, (site, ...).
        """
        shards = with_site_numbers(self.shards) if self.num_local else self.shards
        columns = next(iter(shards.values()))
        rows = {c: np.concatenate([s[c] for s in shards.values()]) for c in columns}
        parts = pooled_parts(self) if self.num_local else {}
        return self._with_shards({"pooled": rows})._replace(**parts)

    def _with_shards(self, shards: dict[str, Rows]) -> Self:
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
    ) -> Self:
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

    def _in_frame(self, moved: Frame) -> Self:
        known = None if self.quadratic is None else self.quadratic.in_frame(moved)
        whole = moved if self.frame is None else self.frame.then(moved)
        return self._replace(frame=whole, known_quadratic=known)

"""Sites that a study was made for and whose rows a problem does not have."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from starlings.errors import check_choice, nearest

LEAVE, STAND_IN = "leave", "stand-in"
HOW = (LEAVE, STAND_IN)
"""What becomes of the data of an absent site: nothing, or a Gaussian that stands in for them."""


@dataclass(frozen=True, eq=False)
class Absent:
    """The sites that are absent, and what stands in for their data, if anything does."""

    sites: tuple[str, ...]
    """Their names, in the order of the larger problem."""
    mode: tuple[Any, Any] | None = None
    """c (dim,) and L of `problem.coordinates` at the mode of the larger problem, where a Gaussian
    stands in; None where the sites have left."""

    @classmethod
    def among(cls, every: Sequence[str], absent: Collection[str]) -> Absent:
        """Some of the sites of a problem; unknown ones, none and all are refused.

        Args:
            every: the names of all sites.
            absent: the names of those that are absent.
        """
        names = [absent] if isinstance(absent, str) else list(absent)
        for name in names:
            if name not in every:
                hint = nearest(name, every)
                raise ValueError(f"`absent`: {name!r} is not one of the sites {list(every)}.{hint}")
        if not 0 < len(set(names)) < len(every):
            raise ValueError(
                f"`absent` must name some of the sites {list(every)}, and not all, got {names}."
            )
        return cls(tuple(site for site in every if site in names))

    @property
    def how(self) -> str:
        """One of `HOW`."""
        return LEAVE if self.mode is None else STAND_IN

    def recorded(self) -> dict[str, Any]:
        """What a result says of the absent sites, in types that JSON has."""
        return {"sites": list(self.sites), "how": self.how}


def check_how(how: str) -> None:
    """Refuse anything that cannot become of the data of an absent site."""
    check_choice(HOW, how=how)

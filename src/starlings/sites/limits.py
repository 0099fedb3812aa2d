"""What a run may use and disclose at most: the section [limits] of a trial file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from starlings.privacy.guard_rails import GuardRails
from starlings.problem.absent import HOW

WAIT = "wait"
ABSENT = (WAIT, *HOW)
"""What may be done about a site that does not come back: nothing, or a run of the others."""


@dataclass(frozen=True)
class Limits:
    """What a run may use and disclose; of these and a site's own guard rails the stricter count."""

    rounds: int = 100_000
    """Network rounds of one run, at most."""
    hours: int = 168
    """Hours from the moment when a site first starts the run to its end, at most."""
    fewest_sites: int = GuardRails.fewest_sites
    """Sites that have to take part, also where others are absent."""
    absent: str = WAIT
    """What the others may do without a site: "wait" for it; go on with a Gaussian "stand-in" for
    its rows; or "leave" it out."""
    fewest_rows: int = GuardRails.fewest_rows
    """Rows that every site has to have."""
    most_parameters_per_row: float = GuardRails.most_parameters_per_row
    """Parameters of the model for each row of a site, at most."""
    fewest_neighbours: int = GuardRails.fewest_neighbours
    """Neighbours of every site, for samplers that add up the messages of neighbours."""
    fewest_rows_in_category: int = GuardRails.fewest_rows_in_category
    """Rows of a site in each category of a column."""

    @staticmethod
    def type_of(default: object) -> type:
        """The type of a limit in a manifest, by its default."""
        if isinstance(default, str):
            return str
        return float if isinstance(default, float) else int

    def with_those_of(self, site: GuardRails) -> GuardRails:
        """The stricter of these limits and those of a site, one by one."""
        own = {**asdict(self), "most_rounds": self.rounds, "needs_masks": False}
        names = [field.name for field in fields(GuardRails)]
        stricter = {True: max, False: min}
        is_least = {name: name.startswith(("fewest", "needs")) for name in names}
        return GuardRails(**{n: stricter[is_least[n]](own[n], getattr(site, n)) for n in names})

"""The page about a result that `sample --report` writes, with what its sites say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlings.results.result import Result
    from starlings.study.study import Study


def write_pages(
    plan: Study, result: Result, target: Path, page: Path, overwrite: bool, quiet: bool
) -> Result:
    """Write a page about a result, whose file gets what the sites say of themselves.

    Where messages are masked sites say nothing: the result is not to have more than totals.

    Args:
        plan: the study.
        result: its draws, which are in the file `target`.
        target: that file.
        page: the file of the page.
        overwrite: whether it may be replaced.
        quiet: whether to report no progress.
    """
    if result.attrs.get("privacy") == "totals":
        result.report(page, overwrite=overwrite)
        return result
    from starlings.comparison.predictive_check import predictive_check
    from starlings.sampling.alone import alone
    from starlings.system.progress import spinner

    with spinner("each site alone, and predictive checks", not quiet):
        problem = plan.make_problem()
        check = predictive_check(problem, result)
        tables = {"predictive_check": check.table, "calibration": check.calibration}
        found = result.with_tables(alone=alone(problem), **tables)
    with result.tree:
        found.save(target, overwrite=True)
    found.report(page, overwrite=overwrite)
    return found

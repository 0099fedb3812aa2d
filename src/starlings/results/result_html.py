"""A result as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlings.results.about import about_in_words
from starlings.system.html import block, heading, paragraph

if TYPE_CHECKING:
    from starlings.results.result import Result

MOST_BYTES = 2**26
"""Bytes of draws above which a notebook shows neither table nor verdict, which take seconds."""


def result_html(result: Result) -> str:
    """A result: what was run, the table of the parameters, the verdict, and the rounds it took."""
    sizes, attrs = result.posterior.sizes, result.attrs
    counts = ", ".join(f"{sizes[d]:,} {d}s" for d in ("chain", "draw", "agent"))
    rounds = attrs.get("network_rounds")
    lines = [*about_in_words(attrs), *([f"{int(rounds):,} network rounds"] if rounds else [])]
    if result.interrupted is not None:
        lines.insert(0, f"interrupted {result.interrupted}")
    if result.posterior.nbytes > MOST_BYTES:
        shown = [paragraph("Many draws: call `summary()` and `check()`.")]
    else:
        shown = [result.summary().as_html(), paragraph(result.check())]
    head = heading(f"{attrs.get('sampler')}: {counts}")
    return block(head, *shown, paragraph("\n".join(lines)))

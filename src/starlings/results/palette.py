"""The colours of all figures: those of Okabe and Ito, which colour-blind readers can tell apart."""

from __future__ import annotations

PALETTE = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermilion": "#D55E00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "black": "#000000",
}
"""The colours by name, as hexadecimal RGB."""
SERIES_COLOURS = [PALETTE[name] for name in list(PALETTE)[:6]]
"""The colours of sites, agents or other series, in this order; black is left for references."""
BAND_COLOUR = "0.85"
"""The grey of a reference band, behind the lines of a figure."""

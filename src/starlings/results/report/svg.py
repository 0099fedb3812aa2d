"""Pictures as SVG inside the page: nothing is fetched, and they print sharply.

Colours and widths are those of the style sheet of the page, by classes. Every number in a lane is
beside it as text; a lane is therefore hidden from screen readers. Other pictures have a title.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from starlings.results.report.axes import Axis

LANE_WIDTH, LANE_HEIGHT = 360, 18
"""Size of a lane of a forest plot, in its own units."""
CHECK_WIDTH = 150
"""Width of a lane of a predictive check, in the same units."""
GRAPH_SIZE = 560
"""Width of the picture of the network, in its own units."""
MOST_LABELLED = 60
"""Sites whose names are written around the network, at most."""
LABEL_LETTERS, FEW_LETTERS = 22, 18
"""Letters of a name around the network, and around one of few sites, whose letters are larger; of
longer names the rest is left out."""


def element(tag: str, content: Any = "", **attributes: Any) -> Markup:
    """An element whose attributes and texts are escaped; `class_` is the attribute `class`."""
    own = Markup(" ").join(
        Markup('{}="{}"').format(name.rstrip("_").replace("_", "-"), _text(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Markup("<{} {}>{}</{}>").format(tag, own, content, tag)


def _text(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def joined(parts: Sequence[Markup]) -> Markup:
    """Elements one after the other."""
    return Markup("").join(parts)


def lane(
    axis: Axis,
    interval: tuple[float, float, float],
    kind: str,
    reference: float | None = None,
) -> Markup:
    """One interval: low end, middle, high end; beyond the axis it ends in an arrow.

    Args:
        axis: the axis.
        interval: low end, middle and high end, on the scale of the axis.
        kind: "network", "alone", "observed" or "expected": the class, and the shape of the marker.
        reference: where there is a thin line, such as where nothing changes.
    """
    parts = [] if reference is None else [_rule(axis, reference)]
    low, middle, high = interval
    if all(map(math.isfinite, interval)):
        parts += [_bar(axis, low, high, kind)]
        if 0 <= axis.place(middle) <= 1:
            parts.append(marker(_x(axis, middle), LANE_HEIGHT / 2, kind))
    return _lane(parts)


def dots(axis: Axis, values: Sequence[float], reference: float | None = None) -> Markup:
    """A dot for every value, such as the estimates of many sites."""
    parts = [] if reference is None else [_rule(axis, reference)]
    inside = [value for value in values if math.isfinite(value) and 0 <= axis.place(value) <= 1]
    parts += [
        element("circle", cx=_x(axis, v), cy=LANE_HEIGHT / 2, r=3, class_="dot") for v in inside
    ]
    return _lane(parts)


def check_lane(axis: Axis, expected: tuple[float, float], observed: float) -> Markup:
    """What was observed, on the range that the model expects; all of it is on the axis."""
    low, high, middle = (CHECK_WIDTH * axis.place(value) for value in (*expected, observed))
    y = LANE_HEIGHT / 2
    bar = element("line", x1=low, x2=high, y1=y, y2=y, class_="bar expected")
    box = f"0 0 {CHECK_WIDTH} {LANE_HEIGHT}"
    content = bar + marker(middle, y, "observed")
    return element("svg", content, viewBox=box, class_="lane", aria_hidden="true")


def captioned(caption: str, picture: Markup) -> Markup:
    """A picture with a line of text below it."""
    return element("figure", picture + element("figcaption", caption))


def axis_lane(axis: Axis) -> Markup:
    """The ticks of an axis, with their labels."""
    parts = [element("line", x1=0, x2=LANE_WIDTH, y1=20, y2=20, class_="axis")]
    for place, label in axis.ticks():
        x = place * LANE_WIDTH
        parts.append(element("line", x1=x, x2=x, y1=15, y2=20, class_="axis"))
        parts.append(element("text", label, x=x, y=12, text_anchor="middle", class_="tick"))
    return _lane(parts, 22)


def _lane(parts: list[Markup], height: int = LANE_HEIGHT) -> Markup:
    box = f"0 0 {LANE_WIDTH} {height}"
    return element("svg", joined(parts), viewBox=box, class_="lane", aria_hidden="true")


def _x(axis: Axis, value: float) -> float:
    return LANE_WIDTH * axis.place(value)


def _rule(axis: Axis, value: float) -> Markup:
    x = _x(axis, value)
    return element("line", x1=x, x2=x, y1=0, y2=LANE_HEIGHT, class_="rule")


def _bar(axis: Axis, low: float, high: float, kind: str) -> Markup:
    """The line of an interval, cut off at the ends of the axis with arrows."""
    y, ends = LANE_HEIGHT / 2, (_x(axis, low), _x(axis, high))
    left, right = (min(max(x, 0.0), float(LANE_WIDTH)) for x in ends)
    if left == right:  # all of it is beyond one end
        left, right = (0.0, 8.0) if left == 0 else (LANE_WIDTH - 8.0, float(LANE_WIDTH))
    parts = [element("line", x1=left, x2=right, y1=y, y2=y, class_=f"bar {kind}")]
    if ends[0] < 0:
        parts.append(element("path", d=f"M0 {y}l7 -4v8z", class_=f"mark {kind}"))
    if ends[1] > LANE_WIDTH:
        parts.append(element("path", d=f"M{LANE_WIDTH} {y}l-7 -4v8z", class_=f"mark {kind}"))
    return joined(parts)


def marker(x: float, y: float, kind: str) -> Markup:
    """A diamond for the network and for what was observed, a circle for a site alone."""
    if kind in ("network", "observed"):
        return element("path", d=f"M{x:.4g} {y - 6}l6 6l-6 6l-6 -6z", class_=f"mark {kind}")
    return element("circle", cx=x, cy=y, r=3, class_=f"mark {kind}")


def graph(names: Sequence[str], edges: Sequence[Sequence[str]]) -> Markup:
    """The sites on a circle with a line between those that talk to each other."""
    angles = {n: 2 * math.pi * k / len(names) - math.pi / 2 for k, n in enumerate(names)}
    has_names = len(names) <= MOST_LABELLED
    is_few = len(names) <= 12
    radius = 115 if is_few else GRAPH_SIZE / 2 - (150 if has_names else 20)
    margin = 40 if is_few else GRAPH_SIZE / 2 - radius
    at = {
        name: (GRAPH_SIZE / 2 + radius * math.cos(a), radius * math.sin(a))
        for name, a in angles.items()
    }
    top, bottom = (end(y for _, y in at.values()) for end in (min, max))
    parts = [_edge(at[a], at[b]) for a, b in edges if a in at and b in at]
    for name, (x, y) in at.items():
        parts.append(element("circle", cx=x, cy=y, r=8 if is_few else 5, class_="node"))
        if has_names:
            parts.append(_name(name, x, y, angles[name], is_few))
    title = f"The network: {len(names)} sites, {len(edges)} links between them"
    box = f"0 {top - margin:g} {GRAPH_SIZE} {bottom - top + 2 * margin:g}"
    content = element("title", title) + joined(parts)
    return element("svg", content, viewBox=box, class_="graph", role="img", aria_label=title)


def _edge(one: tuple[float, float], other: tuple[float, float]) -> Markup:
    return element("line", x1=one[0], y1=one[1], x2=other[0], y2=other[1], class_="edge")


def _name(name: str, x: float, y: float, angle: float, is_few: bool) -> Markup:
    """A name outside the circle, along the radius where there are many."""
    most = FEW_LETTERS if is_few else LABEL_LETTERS
    short = name if len(name) <= most else name[: most - 1] + "…"
    text = Markup("{}").format(escape(short)) + element("title", name)
    is_left = math.cos(angle) < -1e-9
    if is_few:
        dx, dy = 16 * math.cos(angle), 24 * math.sin(angle)
        anchor = "middle" if abs(math.cos(angle)) < 0.2 else "end" if is_left else "start"
        place = {"x": x + dx, "y": y + dy + 5, "text_anchor": anchor}
        return element("text", text, class_="name", **place)
    turn = math.degrees(angle) + (180 if is_left else 0)
    moved = f"translate({x + 10 * math.cos(angle):.5g} {y + 10 * math.sin(angle):.5g})"
    anchor = "end" if is_left else "start"
    how = {"transform": f"{moved} rotate({turn:.5g})", "text_anchor": anchor, "dy": "0.35em"}
    return element("text", text, class_="name small", **how)


def calibration(title: str, points: Sequence[Mapping[str, float]]) -> Markup:
    """Observed shares against expected ones, with the range that is expected of chance."""
    size, margin = 240, 46
    axis = Axis(0.0, 1.0)

    def at(value: float, is_y: bool = False) -> float:
        length = (size - 2 * margin) * axis.place(min(max(value, 0.0), 1.0))
        return size - margin - length if is_y else margin + length

    ends = {"x1": at(0), "y1": at(0, True), "x2": at(1), "y2": at(1, True)}
    parts = [element("line", class_="rule", **ends)]
    box = {"x": margin, "y": margin, "width": size - 2 * margin, "height": size - 2 * margin}
    parts.append(element("rect", class_="frame", **box))
    for value, label in ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")):
        y = size - margin + 14
        parts.append(element("text", label, x=at(value), y=y, text_anchor="middle", class_="tick"))
        left = {"x": margin - 4, "y": at(value, True) + 4, "text_anchor": "end"}
        parts.append(element("text", label, class_="tick", **left))
    for point in points:
        x, low, high = at(point["expected"]), at(point["low"], True), at(point["high"], True)
        parts.append(element("line", x1=x, x2=x, y1=low, y2=high, class_="bar expected"))
        parts.append(marker(x, at(point["observed"], True), "observed"))
    content = element("title", title) + joined(parts)
    how = {"viewBox": f"0 0 {size} {size}", "role": "img", "aria_label": title}
    return element("svg", content, class_="calibration", **how)

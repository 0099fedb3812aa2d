"""The figure of a comparison."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.comparison.samplers.comparison import Comparison
from starlings.comparison.samplers.figure import COLOURS, save_figure
from starlings.comparison.samplers.records import CANDIDATES

pytest.importorskip("matplotlib")


def made(families, source="law"):
    """A comparison of made-up curves, with so many samplers in each family."""
    table, curves = [], []
    for family, count in families.items():
        for number in range(count):
            name = f"{family} {number}"
            table.append({"sampler": name, "setting": "best", "family": family, "by": source})
            rounds = np.arange(0.0, 30.0)
            distance = 10.0 / (1 + number + rounds)
            curves.append(
                pd.DataFrame({"round": rounds, "worst_agent": distance, "messages": 2 * rounds})
                .assign(sampler=name, setting="best", source=source, error=0.01)
                .assign(gradients=rounds, bytes=rounds, seconds=np.nan, mean_agent=distance)
                .assign(average=distance, worst_parameter=distance)
            )
    about = {"unit": "posterior radii", "target": 0.05, "floor": 0.02}
    return Comparison(
        pd.DataFrame(table), pd.concat(curves), pd.DataFrame(columns=CANDIDATES), about
    )


def test_every_family_has_a_column_and_every_cost_a_row():
    figure = made({"gradient steps": 3, "other": 1}).plot(costs=("round", "messages", "gradients"))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["gradient steps", "other"] + [""] * 4
    labels = [axes.get_xlabel() for axes in figure.axes[::2]]
    assert labels == ["rounds", "messages of all agents", "gradients of one agent"]
    legend = figure.axes[4].get_legend().get_texts()
    assert [text.get_text() for text in legend] == [f"gradient steps {i}" for i in range(3)]


def test_a_large_family_has_several_columns_without_a_colour_twice():
    many = len(COLOURS) + 3
    figure = made({"hub": many}).plot(costs="round")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["hub, 1 of 2", "hub, 2 of 2"]
    for axes in figure.axes:
        colours = [line.get_color() for line in axes.get_legend().get_lines()]
        assert len(set(colours)) == len(colours) == many / 2


def test_many_families_are_rows():
    families = [f"family {letter}" for letter in "abcde"]
    figure = made(dict.fromkeys(families, 1)).plot()
    assert [axes.get_title(loc="left") for axes in figure.axes[::2]] == families
    assert [axes.get_legend() is None for axes in figure.axes] == [True, False] * 5
    assert figure.get_figheight() > figure.get_figwidth()


def test_curves_have_the_distances_of_the_table():
    found = made({"other": 2})
    (axes,) = found.plot(costs="messages").axes
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) == 29]  # not the start
    curve = found.curves[(found.curves["sampler"] == "other 1") & (found.curves["round"] > 0)]
    drawn = [np.allclose(line.get_ydata(), curve["worst_agent"]) for line in lines]
    assert sum(drawn) == 1
    np.testing.assert_array_equal(lines[drawn.index(True)].get_xdata(), curve["messages"])


def test_simulations_are_points_with_errors():
    figure = made({"other": 1}, "simulation").plot(costs="round")
    (axes,) = figure.axes
    assert len(axes.containers) == 1
    words = [
        [text.get_text() for text in each.legends[0].get_texts()]
        for each in (figure, made({"other": 1}).plot())
    ]
    assert ["samplers of other panels" in each for each in words] == [False, True]  # lines only


def test_a_panel_of_samplers_that_send_nothing_says_so():
    found = made({"one place": 1, "other": 1})
    found.curves.loc[found.curves["sampler"] == "one place 0", "messages"] = 0.0
    found.curves.reset_index(drop=True, inplace=True)
    panels = found.plot(costs=("round", "messages")).axes
    assert [[text.get_text() for text in axes.texts] for axes in panels] == [
        [],
        [],
        ["no messages"],
        [],
    ]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_figure_is_saved(tmp_path, kind):
    path = save_figure(made({"other": 1}).plot(costs="round"), tmp_path / f"figure.{kind}")
    assert path.stat().st_size > 1000


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="`costs` must be"):
        made({"other": 1}).plot(costs="rounds")
    with pytest.raises(ValueError, match="`measure` must be"):
        made({"other": 1}).plot(measure="best_agent")
    empty = st.compare(
        st.models.gaussian([[[1.0]], [[1.0]]]), st.Network.path(2), ["metropolis"], chains=0
    )
    with pytest.raises(ValueError, match="none of the samplers could be compared"):
        empty.plot()

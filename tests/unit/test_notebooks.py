"""What notebooks show: well-formed, small, without colours of its own, and with escaped names."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import networkx as nx
import pytest

import starlings as st

EVIL = "<script>alert('&')</script>"
ROWS = {"y": [1.0, 2.5, 0.3]}


def parsed(html):
    """The texts of HTML that is well-formed, in which no name has become an element."""
    assert "<script" not in html
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|white;|black", html), "a colour of its own"
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    return "".join(ElementTree.fromstring(html).itertext())


def test_a_problem():
    names = {EVIL.replace("/", "."): (), "beta": st.Parameter((2,), labels=("age", "<b>"))}
    shards = {f"{EVIL}{k}": ROWS for k in range(20)}
    built = st.Problem(lambda p, row: p["beta"][0] * row["y"], lambda p: 0.0, names, shards)
    text = parsed(built._repr_html_())
    assert "20 sites, 60 rows, 3 dimensions" in text
    assert f"{EVIL}0" in text
    assert "age, <b>" in text
    assert "and 8 more" in text


@pytest.mark.parametrize("size", [1, 5, 100, 201])
def test_a_network(size):
    graph = nx.relabel_nodes(nx.path_graph(size), lambda k: f"{EVIL}{k}")
    html = st.Network(graph)._repr_html_()
    text = parsed(html)
    assert f"{size} agents, {size - 1} edges" in text
    assert html.count("<line") == (size - 1 if size <= 200 else 0)
    assert (f"{EVIL}0" in text) == (size <= 200)
    assert len(html) < 40_000


def test_a_result_and_its_table():
    name = EVIL.replace("/", ".")
    built = st.Problem(
        lambda p, row: -0.5 * (row["y"] - p[name]) ** 2,
        lambda p: -0.5 * p[name] ** 2,
        {name: ()},
        {f"{EVIL}{k}": ROWS for k in range(3)},
        quadratic=True,
    )
    result = st.sample(built, st.Network.ring(3), draws=200, check=False)
    text = parsed(result._repr_html_())
    assert name in text
    assert f"{result.attrs['network_rounds']:,} network rounds" in text
    assert str(result.check()).splitlines()[0] in text
    table = result.summary()
    assert name in parsed(table._repr_html_())
    assert "R-hat" in parsed(table._repr_html_())
    assert "<table" in table.iloc[:, :2]._repr_html_(), "what is computed from it is of pandas"

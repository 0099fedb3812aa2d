"""The page of a result: what it says, and that names from data can do nothing to it."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.results.report.axes import Axis
from starlings.results.report.labels import label_in_words
from starlings.results.report.page import report_page
from starlings.results.report.question import Question
from tests.answers.reports import HOSTILE, LONG, result_of, with_sites

VOID = {"meta", "col", "br", "img", "link"}


class Checker(HTMLParser):
    """What a page has, and whether every element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.words = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        own = dict(attrs)
        self.ids += [own["id"]] if "id" in own else []
        self.links += [own["href"]] if "href" in own else []
        self.headings += [int(tag[1])] if re.fullmatch(r"h\d", tag) else []
        assert not {name for name in own if name.startswith("on") or name == "src"}
        if tag == "svg":
            assert own.get("aria-hidden") == "true" or own["aria-label"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words += data + " "


def read(result, title=None) -> tuple[str, Checker]:
    page = report_page(result, title)
    return page, Checker(page)


@pytest.fixture(scope="module")
def hostile() -> tuple[str, Checker]:
    sites, labels = [HOSTILE, "B & <b>o"], ["intercept", HOSTILE, "age"]
    return read(with_sites(result_of(sites, labels)), title=HOSTILE)


def test_names_from_data_are_text_and_nothing_else(hostile):
    page, found = hostile
    assert not {"script", "img", "iframe", "link", "object"} & set(found.tags)
    assert found.words.count(HOSTILE) >= 8
    assert not re.search(r"https?://|url\(|@import|javascript:", page)
    assert "default-src 'none'" in page


def test_the_page_can_be_read_by_a_screen_reader(hostile):
    page, found = hostile
    assert '<html lang="en">' in page
    assert len(found.ids) == len(set(found.ids))
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert found.headings[0] == 1
    steps = np.diff(found.headings)
    assert steps.max() <= 1
    assert found.headings.count(1) == 1
    scopes = [cell for cell in re.findall(r"<th\b([^>]*)>", page) if "scope" not in cell]
    assert scopes == []


def test_the_numbers_are_those_of_the_draws():
    result = result_of(["north", "south"], ["intercept", "age"])
    _, found = read(result)
    draws = result.posterior["beta"].sel(beta_dim_0="age").values
    low, middle, high = np.exp(np.quantile(draws, (0.025, 0.5, 0.975)))
    text = " ".join(found.words.split())
    assert f"{middle:.2f} {low:.2f} to {high:.2f}" in text
    assert "age higher odds (probability over 99.9 %)" in text
    assert "240 rows in all" in text
    assert "The computation passed its checks" in text
    assert "What each site would find alone is not in this result." in text
    assert "starlings.predictive_check" in text
    for heading in ("beta[intercept]", "4,812", "potentials and gradients along trajectories"):
        assert heading in text


def test_what_is_wrong_stands_on_top():
    result = result_of(["north", "south"], ["intercept", "age"], apart=4.0)
    result.set_attribute("interrupted", "after 300 of 1000 draws")
    _, found = read(with_sites(result))
    top = " ".join(found.words.split("The question")[0].split())
    assert "Do not rely on these numbers yet: the run was interrupted" in top
    assert "Not converged: R-hat of beta" in top
    assert "after 300 of 1000 draws" in top
    assert "The model does not describe all of the data" in top
    assert "Not described well: share of ones at north." in " ".join(found.words.split())
    answers = re.findall(r'class="answer ([\w-]+)"', report_page(result))
    assert answers == ["no", "yes", "yes"]


def test_many_sites_and_coefficients_are_the_top_part_and_a_complete_table():
    sites = [f"{LONG} {k}" for k in range(40)]
    labels = ["intercept", *(f"{LONG} {k}" for k in range(200))]
    page, found = read(with_sites(result_of(sites, labels)))
    assert page.count('class="network"') == 20
    assert page.count("40 sites, each alone") == 20
    assert all(f"beta[{label}]" in found.words for label in labels)
    assert "Shown are the 20 of 200" in " ".join(found.words.split())
    assert len(page) < 1_500_000


def test_sites_whose_coefficients_differ_are_shown():
    result = result_of(["north", "south"], ["intercept", "age"])
    tree, dims = result.tree.copy(), ("chain", "draw", "agent", "column")
    noise = 0.1 * np.random.default_rng(2).normal(size=(4, 300, 2, 1))
    effect = (dims, noise + np.array([[0.5], [-0.5]]))
    posterior = tree["posterior"].to_dataset().assign(site_effect=effect)
    posterior = posterior.assign(sd_site=(dims, np.abs(noise) + 0.5))
    tree["posterior"] = posterior.assign_coords(column=["age"])
    _, found = read(st.Result(tree))
    assert "What may differ from site to site: age ." in " ".join(found.words.split())
    text = " ".join(found.words.split("How the sites differ")[2].split())
    for site, values in zip(("north", "south"), effect[1].transpose(2, 0, 1, 3), strict=True):
        shown = re.search(rf"{site} ([\d.]+) ([\d.]+) to ([\d.]+)", text).groups()
        exact = np.exp(np.quantile(values, (0.5, 0.025, 0.975)))
        np.testing.assert_allclose([float(number) for number in shown], exact, atol=0.006)
    shown = re.search(r"age standard deviation between sites: ([\d.]+) \(", text)[1]
    assert float(shown) == pytest.approx(np.median(posterior["sd_site"]), abs=0.006)


def test_any_problem_has_a_report():
    page, found = read(result_of(["only"], ["a", "b"], is_regression=False))
    text = " ".join(found.words.split())
    assert "Which values of theta[a] , theta[b] are plausible" in text
    assert "One site was analysed" in text
    assert "odds" not in text
    assert "Who talks to whom" not in page


def test_the_command_writes_the_page_of_a_file(tmp_path):
    saved = result_of(["north", "south"], ["intercept", "age"]).save(tmp_path / "draws.nc")
    page = tmp_path / "page.html"
    arguments = ["report", str(saved), "--output", str(page), "--title", "A <trial>"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "<h1>A &lt;trial&gt;</h1>" in page.read_text("utf-8")
    assert CliRunner().invoke(app, arguments).exit_code == 1
    assert CliRunner().invoke(app, [*arguments, "--overwrite"]).exit_code == 0


def test_the_question_says_which_level_happens_and_where_the_rows_were():
    regression = {
        "encoding": {"outcome": "died", "levels": {"died": ["no", "yes"]}},
        "priors": {"Intercept": "normal(0, 1)"},
        "priors_of_average_row": ["Intercept"],
    }
    about = {"model": json.dumps({"kind": "regression", "regression": regression})}
    question = Question({**about, "processes": 1}, ["north", "south"], xr.Dataset())
    assert question.outcome_levels == "The outcome “happens” where it is yes rather than no"
    assert question.priors == {"Intercept (of an average row)": "normal(0, 1)"}
    assert question.is_in_one_place
    assert not Question({**about, "processes": 0}, ["north", "south"], xr.Dataset()).is_in_one_place


def test_a_coefficient_of_a_small_unit_is_for_a_change_that_can_be_read():
    result = result_of(["north", "south"], ["age", "income"])
    tree = result.tree.copy()
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = posterior.assign(beta=posterior["beta"] * [1.0, 1e-7])
    ratio = np.exp(1e-7 * posterior["beta"][..., 1].values * 1e6)
    words = read(st.Result(tree))[1].words
    assert "income (per 1,000,000)" in words
    assert f"{np.median(ratio):.3f}" in words


def test_labels_of_formulas_are_said_in_words():
    levels = {"ward": ["A", "B:2"], "sex": ["f", "m"]}
    assert label_in_words("C(ward)[T.B:2]", levels) == "ward: B:2 rather than A"
    assert label_in_words("age:sex[T.m]", levels) == "age × sex m"
    assert label_in_words("x[T.1]", {}) == "x[T.1]"


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("span", [1e-3, 0.1, 1.0, 7.0, 300.0])
def test_ticks_are_round_numbers_in_their_places(span, is_log):
    axis = Axis.around(np.array([-0.3 * span, span]), is_log)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    places = [place for place, _ in ticks]
    assert min(np.diff(places)) > 0.05
    for place, label in ticks:
        value = float(label.replace(",", ""))
        assert place == pytest.approx(axis.place(math.log(value) if is_log else value), abs=1e-6)


STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["x"]
standardise = true
[data]
file = "rows.csv"
site = "town"
[network]
graph = "path"
"""


@pytest.mark.slow
def test_a_study_writes_its_report_with_each_site_alone(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    rows = pd.DataFrame({"x": random.normal(100, 20, 120), "town": np.repeat(["a", "b"], 60)})
    rows["y"] = 3 + 0.1 * rows["x"] + random.normal(size=120)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["sample", "study.toml", "-q", "--report", "page.html"])
    assert done.exit_code == 0, done.output
    saved = st.load("study.nc")
    alone = saved.table("alone").set_index(["site", "entry"])["mean"]
    assert alone[("a", "beta[x]")] == pytest.approx(0.1, abs=0.03), "in the original units"
    check = saved.table("predictive_check")
    assert check["tail_probability"].min() > 0.002, "with the columns as the sites have them"
    text = " ".join(Checker((tmp_path / "page.html").read_text("utf-8")).words.split())
    assert "How does y depend on x ?" in text
    assert "a alone" in text
    assert "Nothing stands out." in text
    assert report_page(saved) == (tmp_path / "page.html").read_text("utf-8")

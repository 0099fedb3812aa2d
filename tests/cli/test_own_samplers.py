"""Samplers from outside the package, in studies and on the command line."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.samplers import names
from starlings.study.study import Study

SAMPLER = '''
"""A sampler in a file of its own: gradient steps that are averaged with the neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import starlings as st

if TYPE_CHECKING:
    from collections.abc import Mapping


@st.pytree
@dataclass(frozen=True)
class Plain(st.Sampler):
    step_size: float | st.Decay
    how: Literal["shared", "private"] = st.choice(default="shared")

    card: ClassVar[st.Card] = st.Card("Plain", "position x_i", 1, "of the step", "nobody 2025")

    def init(self, agent, position, round):
        return st.PositionState(position)

    def step(self, agent, state, inbox, round):
        gradient = agent.gradient(state.position)
        x = inbox.mix - self.step_size * gradient + 0.1 * round.shared_noise(inbox.mix)
        return st.PositionState(x), st.no_info(x)


@st.pytree
@dataclass(frozen=True)
class Tunable(Plain):
    @classmethod
    def tuned(cls, unit, **choices):
        return cls(step_size=0.5 * unit.step)


class NoCard(st.Sampler):
    def init(self, agent, position, round): ...
    def step(self, agent, state, inbox, round): ...
'''
STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["x"]
noise_std = 1.0
[data]
file = "rows.csv"
site = "site"
[network]
graph = "path"
[sampler]
{sampler}
[run]
draws = 3
chains = 2
burn_in = 1
check = false
"""
ROWS = "site,x,y\na,1,2\na,2,2.5\nb,3,4\nb,-1,0\nc,5,6\nc,0,1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a sampler and rows; the current folder is another one."""
    place = tmp_path / "study"
    place.mkdir()
    (place / "own_samplers.py").write_text(SAMPLER, encoding="utf-8")
    (place / "rows.csv").write_text(ROWS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield place
    sys.modules.pop("own_samplers", None)


def study(folder: Path, *sampler: str) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(sampler="\n".join(sampler)), encoding="utf-8")
    return path


def starlings(*arguments: object):
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(one) for one in arguments])


def test_a_sampler_in_a_file_beside_the_study(folder):
    path, searched = study(folder, 'name = "own_samplers:Plain"', "step_size = 0.01"), [*sys.path]
    outcome = starlings("sample", path, "--output", "draws.nc")
    assert outcome.exit_code == 0, outcome.output
    assert sys.path == searched
    plan = Study.read(path)
    problem, sampler = plan.make_problem(), plan.make_sampler()
    assert (type(sampler).__name__, sampler.step_size, sampler.how) == ("Plain", 0.01, "shared")
    network = plan.make_network(problem.sites)
    direct = st.sample(problem, network, sampler, **plan.run_settings())
    np.testing.assert_array_equal(st.load("draws.nc").posterior.beta, direct.posterior.beta)


@pytest.mark.slow
def test_a_class_with_a_rule_is_tuned_by_it(folder):
    path = study(folder, 'name = "own_samplers:Tunable"')
    assert Study.read(path).make_sampler().__name__ == "Tunable"
    outcome = starlings("sample", path, "--output", "draws.nc")
    assert outcome.exit_code == 0, outcome.output
    assert st.load("draws.nc").attrs["sampler"] == "Tunable"
    given = Study.read(study(folder, 'name = "own_samplers:Tunable"', "step_size = 0.2"))
    assert given.make_sampler().step_size == 0.2


def test_a_sampler_of_the_library_without_settings_is_tuned_by_its_rule(folder):
    assert Study.read(study(folder, 'name = "dadmms"')).make_sampler() is st.DADMMS


def test_a_schedule_is_a_table_for_any_sampler(folder):
    table = "step_size = {scale = 0.1, exponent = 0.5}"
    plan = Study.read(study(folder, 'name = "own_samplers:Plain"', table))
    assert plan.make_sampler().step_size == st.Decay(0.1, exponent=0.5)


FAULTS = {
    "setting": (["step = 1.0"], "unknown key `step`; expected one of ['name', 'step_size', 'how']"),
    "missing": ([], "needs the key `step_size`"),
    "text": (['step_size = "1"'], "`step_size` must be a number or a table such as"),
    "choice": (["step_size = 1.0", 'how = "no"'], "`how` must be one of ['shared', 'private']"),
}


@pytest.mark.parametrize(("settings", "text"), FAULTS.values(), ids=FAULTS)
def test_its_settings_are_checked(folder, settings, text):
    path = study(folder, 'name = "own_samplers:Plain"', *settings)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Study.read(path).make_sampler()
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"{path}: [sampler] ")


def test_a_field_of_any_type_is_named_by_an_example(folder):
    own = SAMPLER.replace("float | st.Decay", "Any").replace("ClassVar,", "Any, ClassVar,")
    (folder / "own_samplers.py").write_text(own, encoding="utf-8")
    with pytest.raises(ValueError, match=r"needs the key `step_size`, a value such as 0.1; it"):
        Study.read(study(folder, 'name = "own_samplers:Plain"'))


def test_a_class_without_a_card_is_refused(folder):
    with pytest.raises(ValueError, match=r"has no `card`; describe it with a `starlings.Card`"):
        Study.read(study(folder, 'name = "own_samplers:NoCard"'))


def test_a_module_of_the_same_name_is_not_taken_for_the_file(folder):
    (folder / "json.py").write_text(SAMPLER, encoding="utf-8")
    path = study(folder, 'name = "json:JSONDecoder"')
    with pytest.raises(ValueError, match=r"was imported from .* give one of the two files another"):
        Study.read(path)


def test_two_studies_with_files_of_one_name_are_not_mixed_up(folder, tmp_path):
    Study.read(study(folder, 'name = "own_samplers:Plain"', "step_size = 1.0"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "own_samplers.py").write_text(SAMPLER, encoding="utf-8")
    with pytest.raises(ValueError, match="give one of the two files another name"):
        Study.read(study(other, 'name = "own_samplers:Plain"', "step_size = 1.0"))


def test_the_card_of_a_sampler_in_the_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    shown = starlings("samplers", "own_samplers:Plain")
    assert shown.exit_code == 0, shown.output
    for words in ("own_samplers:Plain", "nobody 2025", "step_size (required)", "how (default 's"):
        assert words in shown.stdout
    record = json.loads(starlings("samplers", "own_samplers:Tunable", "--json").stdout)
    assert (record["name"], record["title"]) == ("own_samplers:Tunable", "Plain")
    assert record["settings"]["step_size"] == {"is_required": True, "default": None}
    assert record["is_tunable"]


def test_an_unknown_sampler_has_a_hint():
    outcome = starlings("samplers", "dadms")
    assert outcome.exit_code == 1
    assert "no sampler is called 'dadms'" in outcome.stderr
    assert "Did you mean 'dadmms'?" in outcome.stderr


def announce(monkeypatch, **places: str) -> None:
    """Entry points as if packages that announce them were installed."""
    points = [EntryPoint(name, place, names.ENTRY_POINTS) for name, place in places.items()]
    monkeypatch.setattr(names.importlib.metadata, "entry_points", lambda group: points)


def test_samplers_of_installed_packages_are_listed_and_can_be_named(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    announce(monkeypatch, plain="own_samplers:Plain", dadmms="own_samplers:Plain")
    listed = {card["name"]: card for card in json.loads(starlings("samplers", "--json").stdout)}
    assert list(listed) == [*names.BUILT_IN, "plain"]
    assert listed["plain"]["reference"] == "nobody 2025"
    assert listed["dadmms"]["title"] == "D-ADMMS"
    plan = Study.read(study(folder, 'name = "plain"', "step_size = 0.1"))
    assert type(plan.make_sampler()).__name__ == "Plain"


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_broken_package_hides_no_other_sampler(monkeypatch):
    announce(monkeypatch, broken="no_such_module:Plain")
    outcome = starlings("samplers", "--json")
    assert [card["name"] for card in json.loads(outcome.stdout)] == list(names.BUILT_IN)
    assert "the sampler 'no_such_module:Plain' cannot be imported" in outcome.stderr

"""The commands from end to end: what they print, write and exit with, and what they import."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.results.summary import Summary
from starlings.samplers.names import BUILT_IN as SAMPLERS
from starlings.sampling.request import BURN_IN
from starlings.study.schema import GRAPHS, MODELS
from starlings.study.study import Study

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["x", "z"]
noise_std = 1.0
[data]
file = "rows.csv"
site = "town"
[network]
edges = [["north", "south"], ["south", "west"]]
[sampler]
name = "dadmms"
rho = 5.0
[run]
draws = 6
chains = 2
burn_in = 3
seed = 4
"""


def starlings(*arguments: object):
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(one) for one in arguments])


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    """A study of three towns in a folder of its own, with the current folder elsewhere."""
    random = np.random.default_rng(1)
    rows = pd.DataFrame(random.normal(size=(30, 3)), columns=["x", "z", "y"])
    rows["town"] = random.permutation(np.repeat(["north", "south", "west"], [5, 10, 15]))
    (tmp_path / "study").mkdir()
    rows.to_csv(tmp_path / "study" / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "study" / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    return edited(tmp_path / "study" / "towns.toml")


def edited(path: Path, old: str = "", new: str = "") -> Path:
    assert old in STUDY
    path.write_text(STUDY.replace(old, new, 1) if old else STUDY, encoding="utf-8")
    return path


def run_in_python(study: Path, **overrides) -> st.Result:
    plan = Study.read(study)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    return st.sample(problem, network, plan.make_sampler(), **plan.run_settings(**overrides))


@pytest.mark.slow
def test_sample_saves_the_draws_that_python_makes(study, tmp_path):
    target = tmp_path / "draws.nc"
    outcome = starlings("sample", study, "--output", target)
    assert outcome.exit_code == 0, outcome.output
    saved, made = st.load(target), run_in_python(study)
    np.testing.assert_array_equal(saved.posterior.beta, made.posterior.beta)
    assert saved.posterior.agent.values.tolist() == ["north", "south", "west"]
    assert saved.posterior.beta_dim_0.values.tolist() == ["intercept", "x", "z"]
    assert saved.attrs == made.attrs
    assert not list(tmp_path.rglob("*.partial"))


def test_sample_prints_the_numbers_that_it_saved(study, tmp_path):
    output = starlings("sample", study, "--output", tmp_path / "draws.nc").stdout
    result = st.load(tmp_path / "draws.nc")
    draws = result.posterior.beta.sel(beta_dim_0="z")
    line = next(line for line in output.splitlines() if "beta[z]" in line)
    shown = [float(cell) for cell in line.split()[1:]]
    means = draws.mean(("chain", "draw"))
    apart = float((means.max() - means.min()) / draws.std())
    rhat, ess_bulk, ess_tail = worst_over_agents(draws)
    expected = [draws.mean(), draws.std(), *np.quantile(draws, (0.05, 0.95))]
    np.testing.assert_allclose(shown[:4], np.array(expected, float), rtol=0.01)
    assert shown[4] == pytest.approx(worst_mcse(draws), rel=0.05), "with two digits"
    assert shown[5:] == [round(rhat, 3), round(ess_bulk), round(ess_tail), round(apart, 3)]
    assert f"Disagreement {float(result.sample_stats.disagreement.mean()):.3g}" in output
    assert "2 chains of 6 draws at 3 agents" in output
    assert "11 network rounds in all, and 1.76 kB sent by" in output  # 9 of 4 links
    assert f"Draws saved to {tmp_path / 'draws.nc'}" in output


def test_progress_is_on_stderr_and_json_alone_on_stdout(study, tmp_path):
    target = tmp_path / "draws.nc"
    outcome = starlings("sample", study, "--output", target, "--json")
    record = json.loads(outcome.stdout)
    assert record == Summary(st.load(target), target).record()
    assert [record["run"][name] for name in ("sampler", "draws", "output")] == [
        "DADMMS",
        6,
        str(target),
    ]
    lines = outcome.stderr.splitlines()
    assert lines[0] == f"{study}: linear_regression of y on x, z; rows in rows.csv"
    assert lines[1].startswith("30 rows at 3 sites, 3 parameters, 2 links; D-ADMMS; 2 chains of 6")
    assert lines[2] == "sampling: 9 rounds"
    assert lines[3].startswith("sampling: 9 of 9 rounds in ")


def test_quiet_json_is_nothing_but_json(study, tmp_path):
    outcome = starlings("sample", study, "--output", tmp_path / "draws.nc", "--json", "-q")
    assert outcome.stderr == ""
    assert json.loads(outcome.stdout)["run"]["seed"] == 4


def test_an_error_follows_what_was_begun(study):
    outcome = starlings("sample", edited(study, '"rows.csv"', '"none.csv"'))
    begun, error = outcome.stderr.splitlines()
    assert begun.endswith("rows in none.csv")
    assert error.startswith("Error: no data file at")


def test_the_defaults_in_the_help_are_those_of_python():
    command = next(each for each in app.registered_commands if each.callback.__name__ == "sample")
    shown = {
        name: hint.__metadata__[0].show_default
        for name, hint in get_type_hints(command.callback, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    }
    real = inspect.signature(st.sample).parameters
    for name in ("draws", "seed", "checkpoint_every"):
        assert shown[name] == str(real[name].default)
    assert shown["burn_in"] == str(BURN_IN)


def worst_mcse(draws) -> float:
    """The largest Monte Carlo standard error of a mean by ArviZ, one agent at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces its next version
        import arviz

        by_agent = [draws.isel(agent=i).to_dataset(name="x") for i in range(draws.sizes["agent"])]
        return max(float(arviz.mcse(one, method="mean")["x"]) for one in by_agent)


def worst_over_agents(draws) -> list[float]:
    """R-hat, bulk and tail effective draws by ArviZ, one agent at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces its next version
        import arviz

        by_agent = [draws.isel(agent=i).to_dataset(name="x") for i in range(draws.sizes["agent"])]
        bulk, tail = (
            min(float(arviz.ess(one, method=how)["x"]) for one in by_agent)
            for how in ("bulk", "tail")
        )
        return [max(float(arviz.rhat(one)["x"]) for one in by_agent), bulk, tail]


def test_options_override_the_study(study, tmp_path):
    options = ("--draws", 3, "--chains", 1, "--burn-in", 2, "--thin", 2, "--seed", 9)
    outcome = starlings("sample", study, "--output", tmp_path / "draws.nc", *options, "--quiet")
    assert (outcome.exit_code, outcome.output) == (0, "")
    saved = st.load(tmp_path / "draws.nc")
    made = run_in_python(study, draws=3, chains=1, burn_in=2, thin=2, seed=9)
    assert (saved.attrs["seed"], saved.attrs["thin"], saved.attrs["burn_in"]) == (9, 2, 2)
    np.testing.assert_array_equal(saved.posterior.beta, made.posterior.beta)


def test_where_draws_go_unless_told(study, tmp_path):
    starlings("sample", study, "--draws", 2, "--quiet")
    assert st.load(tmp_path / "towns.nc").posterior.sizes["draw"] == 2
    edited(study, "seed = 4", 'seed = 4\noutput = "mine.nc"')
    starlings("sample", study, "--draws", 2, "--quiet")
    assert (study.parent / "mine.nc").is_file()  # beside the study, not in the current folder


def test_parquet_and_csv_are_the_same_study(study):
    from_csv = run_in_python(study)
    from_parquet = run_in_python(edited(study, "rows.csv", "rows.parquet"))
    np.testing.assert_array_equal(from_csv.posterior.beta, from_parquet.posterior.beta)


def test_standardised_covariates_keep_the_pooled_fit(study):
    """With a flat prior, standardising changes the coordinates and not the prediction."""
    flat = ("noise_std = 1.0", "noise_std = 1.0\nprior_std = 31622.776601683792")
    plain = Study.read(edited(study, *flat)).make_problem()
    scaled = Study.read(edited(study, flat[0], flat[1] + "\nstandardise = true")).make_problem()
    fits = [
        problem.pooled().shards["pooled"]["x"] @ problem.exact_posterior()[0]
        for problem in (plain, scaled)
    ]
    np.testing.assert_allclose(*fits, atol=1e-6)
    X = scaled.pooled().shards["pooled"]["x"][:, 1:]
    np.testing.assert_allclose([X.mean(axis=0), X.std(axis=0)], [[0, 0], [1, 1]], atol=1e-12)


def test_a_schedule_is_a_table(study):
    old = 'name = "dadmms"\nrho = 5.0'
    table = "{scale = 0.01, offset = 2, exponent = 0.5}"
    new = f'name = "dula"\nconsensus_step = 0.1\nbatch_size = 2\nstep_size = {table}'
    sampler = Study.read(edited(study, old, new)).make_sampler()
    assert sampler == st.DULA(st.Decay(0.01, 2, 0.5), consensus_step=0.1, batch_size=2)


FIELD = {
    'name = "gextra"\nstep_size = 0.1\nmemory = 0.2': st.GEXTRA(0.1, 0.2),
    'name = "event-dula"\nstep_size = 0.1\nconsensus_step = 0.2\nthreshold = {scale = 0.3}': (
        st.EventDULA(0.1, 0.2, threshold=st.Decay(0.3))
    ),
    'name = "diging"\nstep_size = 0.1\nnoise = "coherent"': st.DIGing(0.1, noise="coherent"),
    'name = "peer-learning"\nupdates = 3': st.PeerLearning(updates=3),
    'name = "mahmc"\nstep_size = 0.1\nform = "published"': st.MAHMC(0.1, "published"),
    'name = "gibbs"\nrho = 2.0': st.NetworkGibbs(2.0),
    'name = "fa-ld"\nstep_size = 0.1\nweights = [1.0, 2.0]': st.FedAvgLangevin(
        0.1, weights=[1.0, 2.0]
    ),
    'name = "fald"\nstep_size = 0.1\naveraging = 0.2': st.FALD(0.1, averaging=0.2),
    'name = "vr-fald"\nstep_size = 0.1\nrefreshing = 0.2': st.VRFALD(0.1, refreshing=0.2),
    'name = "elf"\nstep_size = 0.1\nform = "primal"\nkeep = 2': st.ELF(0.1, "primal", 2),
    'name = "fedpa"\nclient_step = 0.1\nupdates = 5': st.FedPA(0.1, updates=5),
    'name = "split-gibbs"\nrho = 0.5\nalpha = 0.1': st.SplitGibbs(0.5, 0.1),
    'name = "dg-lmc"\nvariance = [0.1, 0.2]\nlocal_steps = 3': st.DGLMC([0.1, 0.2], 3),
    'name = "gcmc"\nvariance = 0.1': st.GlobalConsensusMC(0.1),
    'name = "distributed-sgld"\nstep_size = 0.1\nlocal_steps = [1, 2, 1]': (
        st.DistributedSGLD(0.1, (1, 2, 1))
    ),
    'name = "fsgld"\nstep_size = 0.1\nlocal_steps = 3\nvisits = "cyclic"': (
        st.FSGLD(0.1, 3, "cyclic")
    ),
    'name = "qlsd"\nstep_size = 0.1\nlevels = 4\nparticipants = 2': (
        st.QLSD(0.1, levels=4, participants=2)
    ),
    'name = "depsgld"\nstep_size = 0.1\nsmoothing = 0.1\npenalty = {kind = "box", lower = 0.0}': (
        st.DEPSGLD(0.1, st.Box(lower=0.0), 0.1)
    ),
    'name = "dadmms"\nrho = 2.0\npenalty = {kind = "lasso", strength = 3.0}': (
        st.DADMMS(2.0, penalty=st.Lasso(3.0))
    ),
    'name = "spla"\nstep_size = 0.1\nhops = 4\nfirst = "gradient"': st.SPLA(0.1, 4, "gradient"),
    'name = "pula"\nstep_size = 0.1': st.PULA(0.1),
    'name = "pmala"\nstep_size = 1\npenalty = {kind = "group-lasso", strength = 1, groups = [0]}': (
        st.PMALA(1, st.GroupLasso(1, (0,)))
    ),
    'name = "myula"\nstep_size = 0.1\nsmoothing = 0.1\npenalty = {kind = "ridge", precision = 2}': (
        st.MYULA(0.1, st.Ridge(2), 0.1)
    ),
}


@pytest.mark.parametrize(("section", "sampler"), FIELD.items())
def test_samplers_of_the_field_and_supports_are_read(study, section, sampler):
    assert (
        Study.read(edited(study, 'name = "dadmms"\nrho = 5.0', section)).make_sampler() == sampler
    )


@pytest.mark.parametrize("graph", [name for name in GRAPHS if name not in ("grid", "no_edges")])
def test_every_graph_by_name(study, graph):
    extra = "\nneighbours = 2" if graph == "small_world" else ""
    edges = 'edges = [["north", "south"], ["south", "west"]]'
    plan = Study.read(edited(study, edges, f'graph = "{graph}"{extra}'))
    network = plan.make_network(["north", "south", "west"])
    assert network.names == ["north", "south", "west"]


@pytest.mark.filterwarnings("default::UserWarning")
def test_warnings_are_lines_and_not_source_code(study, tmp_path):
    edited(study, 'edges = [["north", "south"], ["south", "west"]]', 'graph = "no_edges"')
    options = ("--draws", 1, "--output", tmp_path / "draws.nc", "--quiet")
    outcome = starlings("sample", study, *options)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr.startswith("Warning: The network has 3 agents and no edges")
    assert ".py" not in outcome.stderr


ERRORS = {
    "value": ("rho = 5.0", "rho = -5.0", "[sampler] `rho` must be positive and finite, got -5.0."),
    "key": ("rho = 5.0", "roh = 5.0", "[sampler] unknown key `roh`; expected one of"),
    "run": ("draws = 6", "draws = 0", "Error: `draws` must be a whole number of at least 1"),
    "file": ('"rows.csv"', '"none.csv"', "Error: no data file at"),
    "divergence": (
        'name = "dadmms"\nrho = 5.0',
        'name = "dula"\nconsensus_step = 0.1\nstep_size = {scale = 9.0, exponent = 0.01}',
        "diverged in round",
    ),
    "stability": (
        'name = "dadmms"\nrho = 5.0',
        'name = "dsgld"\nstep_size = 3.0',
        "Error: `step_size` 3.0 is beyond the stability limit",
    ),
}


@pytest.mark.parametrize(("old", "new", "text"), ERRORS.values(), ids=ERRORS)
def test_errors_are_one_line_and_leave_no_file(study, tmp_path, old, new, text):
    outcome = starlings("sample", edited(study, old, new), "-q")
    assert outcome.exit_code == 1
    assert outcome.stderr.count("\n") == 1
    assert text in outcome.stderr
    assert outcome.stdout == ""
    assert not list(tmp_path.rglob("*.nc"))


def test_exactness_is_an_option(study):
    outcome = starlings("sample", study, "--exactness", "midpoint")
    assert outcome.exit_code == 1
    assert "`sampler` and `exactness` both say how draws are made; got DADMMS(" in outcome.stderr


def test_the_output_path_is_checked_before_the_run(study, tmp_path, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("the run began")

    monkeypatch.setattr("starlings.study.run.sample", never)
    outcome = starlings("sample", study, "--output", tmp_path)
    assert outcome.exit_code == 1
    assert "is a folder; name a file" in outcome.stderr


def test_a_traceback_is_there_for_who_asks(study, monkeypatch):
    monkeypatch.setenv("STARLINGS_DEBUG", "1")
    outcome = starlings("sample", edited(study, "rho = 5.0", "rho = -5.0"))
    assert isinstance(outcome.exception, ValueError)


def test_an_unexpected_error_says_how_to_see_more(monkeypatch):
    broken = types.ModuleType("starlings.research.demo.run")
    broken.run = lambda output, progress: {}["key"]
    monkeypatch.setitem(sys.modules, "starlings.research.demo.run", broken)
    outcome = starlings("demo")
    assert outcome.exit_code == 1
    assert outcome.stderr == "Unexpected KeyError: 'key' (STARLINGS_DEBUG=1 shows where)\n"


def test_ctrl_c_has_the_exit_code_of_an_interrupt(monkeypatch):
    def interrupted(output, progress):
        raise KeyboardInterrupt

    stopped = types.ModuleType("starlings.research.demo.run")
    stopped.run = interrupted
    monkeypatch.setitem(sys.modules, "starlings.research.demo.run", stopped)
    assert starlings("demo").exit_code == 130


@pytest.mark.parametrize(
    "arguments",
    [
        ("sampel",),
        ("sample",),
        ("sample", "x.toml", "--draws", "many"),
        ("sample", "x.toml", "--draws", "0"),
        ("sample", "x.toml", "--seed", "-1"),
        ("calibrate", "x.toml", "--replications", "0"),
        ("sample", "."),
        ("show", "."),
        ("samplers", "--fast"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments):
    outcome = starlings(*arguments)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert "Error" in outcome.stderr


def test_an_unknown_command_has_a_hint():
    assert "Did you mean 'sample'" in starlings("sampel").stderr


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_table_of_samplers_has_every_word(columns):
    outcome = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["samplers"])
    assert "…" not in outcome.stdout
    words = set(outcome.stdout.replace("│", " ").split())
    for name, sampler in SAMPLERS.items():
        card = sampler.card
        assert {name, *card.exchanged.split(), *card.reference.split()} <= words
        assert set(card.bias.split()) <= words


def test_demo_writes_where_it_is_told(tmp_path, monkeypatch):
    seen = []
    fake = types.ModuleType("starlings.research.demo.run")
    fake.run = lambda output, progress: seen.append((output, progress))
    monkeypatch.setitem(sys.modules, "starlings.research.demo.run", fake)
    assert starlings("demo", "--output", tmp_path).exit_code == 0
    assert starlings("demo", "--output", tmp_path, "--quiet").exit_code == 0
    assert seen == [(tmp_path, True), (tmp_path, False)]


def test_version():
    assert starlings("--version").stdout == f"starlings {st.__version__}\n"


COMMANDS = ["sample", "show", "samplers", "report", "theory"]
COMMANDS += ["calibrate", "compare", "compare_models"]
COMMANDS += ["provision", "check", "approve", "audit", "join", "relay", "rehearse"]
COMMANDS += ["status", "dashboard"]
COMMANDS += ["demo", "accuracy", "paper", "field"]
WITHOUT_PROGRESS = ("samplers", "report", "theory", "compare_models", "provision")
WITHOUT_PROGRESS += ("check", "approve", "audit", "relay", "status", "dashboard")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_short_help_that_fits(name):
    """And one that prints progress has an option against it."""
    long, short = (
        CliRunner(env={"COLUMNS": "80"}).invoke(app, [name.replace("_", "-"), option])
        for option in ("--help", "-h")
    )
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert max(map(len, short.stdout.splitlines())) <= 80
    assert "…" not in short.stdout
    assert ("-q" in short.stdout) == (name not in WITHOUT_PROGRESS)
    assert f"Example: starlings {name.replace('_', '-')}" in short.stdout


def test_the_commands_are_those_tried_here():
    shown = [each for each in app.registered_commands if not each.hidden]
    assert [each.callback.__name__ for each in shown] == COMMANDS


def test_the_old_command_of_the_benchmarks_says_the_new_one():
    outcome = starlings("bench", "speed", "--quick")
    assert outcome.exit_code == 1
    assert "is now `python -m benchmarks speed --quick`, in a clone" in outcome.stderr


def test_samplers_as_json():
    cards = json.loads(starlings("samplers", "--json").stdout)
    assert [card["name"] for card in cards] == list(SAMPLERS)
    assert {card["bias"] for card in cards} == {sampler.card.bias for sampler in SAMPLERS.values()}
    assert cards[0]["floats_per_parameter"] == 1


@pytest.mark.parametrize(("variable", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color(variable, is_coloured):
    outcome = CliRunner(env=variable).invoke(app, ["show", "nothing.nc"], color=True)
    assert "no result file" in outcome.stderr
    assert ("\x1b[" in outcome.stderr) == is_coloured


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["samplers"], ["samplers", "--json"], ["--help"]])
def test_a_reader_who_leaves_early_is_no_error(arguments):
    """The pipe is closed before anything is written to it."""
    source, target = os.pipe()
    os.close(source)
    command = [sys.executable, "-m", "starlings", *arguments]
    done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, timeout=60)
    os.close(target)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["sample", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    program = (
        "import sys\n"
        "from starlings.cli import app\n"
        f"app({arguments!r}, standalone_mode=False)\n"
        "heavy = {'jax', 'numpy', 'pandas', 'xarray', 'scipy', 'networkx', 'matplotlib'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout


def test_there_are_examples_of_several_models():
    kinds = {Study.read(path).model.kind for path in EXAMPLES}
    assert len(kinds) >= 3
    assert kinds <= set(MODELS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_build(path):
    plan = Study.read(path)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    assert network.names == problem.sites
    sampler = plan.make_sampler()
    if isinstance(sampler, st.Sampler):
        sampler.check(problem, network)

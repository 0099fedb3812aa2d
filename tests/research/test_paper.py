"""The paper's experiments: their data, their curves, the released code, the claims, the runner."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from starlings.research.paper import claims, page, registry, runner
from starlings.research.paper.claims_table import claims_page
from starlings.research.paper.curves import Path, Start, exact_paths, fitted_paths, simulate
from starlings.research.paper.data import TOPOLOGIES, linear_problem, topology
from starlings.research.paper.experiment import Experiment, Settings
from starlings.research.paper.experiments import evolution, linear, released, theorem
from starlings.research.paper.style import METHODS, figure_style, log_axis, panel_grid, save_figure
from starlings.samplers import CADMM, DADMMS
from starlings.theory import gaussian_w2

TRIALS = Settings(quick=True).trials


def unseen(done: int, total: int) -> None:
    """A report that nobody reads."""


@pytest.fixture(scope="module")
def linear_table() -> pd.DataFrame:
    """The quick run of the smallest linear experiment."""
    return linear.compute(5, 50, Settings(quick=True), unseen)


def test_data_are_the_authors():
    _, covariance = linear_problem(5, 50).exact_posterior()
    assert np.sqrt(np.trace(covariance)) == pytest.approx(0.3805457, abs=1e-7)


def test_vectorised_w2_is_the_w2_of_two_gaussians():
    random = np.random.default_rng(0)
    factors = random.normal(size=(6, 2, 2)) * np.array([0, 1e-3, 0.1, 1, 10, 1e4])[:, None, None]
    path = Path(random.normal(size=(6, 2)), factors @ factors.swapaxes(-1, -2))
    target = (np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))
    pairs = zip(path.means, path.covariances, strict=True)
    expected = [gaussian_w2(mean, covariance, *target) for mean, covariance in pairs]
    np.testing.assert_allclose(path.w2(*target), expected, rtol=1e-9)


def test_bootstrap_is_the_law_of_fits_to_draws():
    mean, covariance = np.array([0.3, 0.0]), np.array([[1.0, 0.6], [0.6, 2.0]])
    random, trials, repeats = np.random.default_rng(1), 12, 20_000
    draws = random.multivariate_normal(mean, covariance, size=(repeats, 1, trials))
    fits = Path.fitted(draws).w2(mean, covariance)[:, 0]
    path = Path(mean[None], covariance[None])
    replicates = path.refitted(trials, repeats, random).w2(mean, covariance)[:, 0]
    error = np.hypot(fits.std(), replicates.std()) / np.sqrt(repeats)
    assert abs(fits.mean() - replicates.mean()) < 4 * error
    quantiles = [np.quantile(sample, (0.025, 0.975)) for sample in (fits, replicates)]
    np.testing.assert_allclose(*quantiles, rtol=0.03)


def extreme_points(
    problem, name: str, law_of, run_of, false_alarm: float, rounds=(1, 10, 40)
) -> list[str]:
    """Rounds and targets at which the trials of one sampler are too far out for a law's band."""
    network, posterior = topology(name, problem.num_agents), problem.exact_posterior()
    start = Start().draw((TRIALS, problem.num_agents, problem.dim), 7)
    fits = fitted_paths(simulate(problem, network, run_of, start, 100, seed=7))
    found = []
    for target, exact in exact_paths(problem, network, law_of, max(rounds), Start()).items():
        chosen = Path(exact.means[list(rounds)], exact.covariances[list(rounds)])
        replicates = chosen.refitted(TRIALS, 50_000, np.random.default_rng(2)).w2(*posterior)
        low, high = np.quantile(replicates, (false_alarm / 2, 1 - false_alarm / 2), axis=0)
        estimate = fits[target].w2(*posterior)[list(rounds)]
        outside = (estimate < low - 1e-9) | (estimate > high + 1e-9)
        found += [f"{name}, {target}, round {k}" for k in np.array(rounds)[outside]]
    return found


@pytest.mark.slow
def test_monte_carlo_lies_within_sampling_error_of_the_exact_law():
    """One test of all methods, graphs, targets and rounds at a false-alarm rate of 1 %."""
    problem = linear_problem(5, 50)
    networks = {name: topology(name, 5) for name in TOPOLOGIES}
    pairs = [(n, m, s) for n in networks for m, s in linear.methods(n, networks[n]).items()]
    points = len(pairs) * 2 * 3
    found = [
        f"{method}: {place}"
        for name, method, sampler in pairs
        for place in extreme_points(problem, name, sampler, sampler, 0.01 / points)
    ]
    assert found == []


@pytest.mark.slow
def test_the_band_notices_another_noise():
    problem = linear_problem(5, 50)
    other = DADMMS(rho=linear.RHO, noise="private", output="iterate")
    assert extreme_points(problem, "ring", linear.paper_dadmms(), other, 1e-4)


@pytest.mark.parametrize(
    ("wrong_neighbours", "in_place", "expected"),
    [(True, True, (0.749, 0.379)), (False, True, (0.953, 0.396)), (False, False, (1.388, 0.499))],
)
def test_released_code_is_reproduced(wrong_neighbours, in_place, expected):
    """W2 after 10 and 20 rounds from 4000 trials, against runs of 100 (tolerance 0.04)."""
    problem = linear_problem(5, 50)
    defects = {"wrong_neighbours": wrong_neighbours, "in_place": in_place}
    draws = released.emulate(problem, noise=0.0, rounds=20, trials=4000, seed=0, **defects)
    w2 = Path.fitted(draws).w2(*problem.exact_posterior())
    np.testing.assert_allclose(w2[[10, 20]], expected, atol=0.04)


@pytest.mark.parametrize(("noise", "sampler"), [(0.0, CADMM(5.0)), (1.0, linear.paper_dadmms())])
def test_emulation_without_defects_is_algorithm_1(noise, sampler):
    problem = linear_problem(5, 50)
    sizes = {"rounds": 20, "trials": 4000, "seed": 0}
    draws = released.emulate(problem, noise=noise, wrong_neighbours=False, in_place=False, **sizes)
    exact = exact_paths(problem, topology("ring", 5), sampler, 20, Start())["average"]
    posterior = problem.exact_posterior()
    error = exact.refitted(4000, 500, np.random.default_rng(0)).w2(*posterior).std(axis=0)
    apart = np.abs(Path.fitted(draws).w2(*posterior) - exact.w2(*posterior))
    assert np.all(apart < 4.5 * error + 1e-6)


def test_published_numbers_are_the_released_code_and_not_algorithm_1():
    ring = "N = 5, n = 50"
    numbers = np.array(released.PUBLISHED[ring, "D-ADMMS"])
    held = {}
    for name, curve in released.estimated_curves(ring, "D-ADMMS", seed=10).items():
        band = curve.loc[list(released.PUBLISHED_ROUNDS)]
        held[name] = int(np.sum((numbers > band["low"]) & (numbers < band["high"])))
    assert held["Algorithm 1"] == 0
    assert held["released code"] >= 5


def judged(table: pd.DataFrame, start: str) -> bool:
    rows = registry.judge_all({"fig-linear-100-50": table})
    return bool(rows[rows["claim"].str.startswith(start)]["holds"].all())


def linear_rows(**finals: float) -> pd.DataFrame:
    """A made-up table: every method falls from 10 in two steps, to 5 and to its final W2."""
    methods = {"D-ADMMS": 0.1, "ADMM": 0.1, "D-SGLD": 3.0, "D-SGHMC": 3.0, "D-ULA": 3.0} | finals
    rows = [
        {"topology": name, "target": target, "method": method, "round": k, "exact": w2}
        for name in TOPOLOGIES
        for target in ("agent", "average")
        for method, last in methods.items()
        for k, w2 in enumerate((10.0, last if name == "ring" else 5.0, last))
    ]
    return pd.DataFrame(rows).assign(radius=0.01, largest_entry=1e-4)


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("On rings D-ADMMS converges faster", {"D-SGLD": 0.05}),
        ("On rings an agent of D-ADMMS is nearer", {"D-ULA": 0.01}),
        ("D-ADMMS is slower on complete graphs than", {"D-ADMMS": 2.0}),
        ("Without edges", {"ADMM": 0.2}),
        ("With 100 agents ADMM is nearer", {"D-SGHMC": 0.01}),
    ],
)
def test_verdict_turns_with_the_numbers(claim, change):
    assert judged(linear_rows(), claim)
    assert not judged(linear_rows(**change), claim)


def test_speed_is_judged_for_the_average_too():
    table = linear_rows()
    slow = (table["target"] == "average") & (table["method"] == "D-ADMMS")
    table.loc[slow, "exact"] = 9.0
    rows = registry.judge_all({"fig-linear-100-50": table})
    speeds = rows[rows["claim"].str.startswith("On rings D-ADMMS converges faster")]
    assert dict(zip(speeds["setting"], speeds["holds"], strict=True)) == {
        "ring, agent": True,
        "ring, average": False,
    }


def test_small_entries_are_judged_by_the_largest():
    claim = "With 100 agents the entries"
    assert judged(linear_rows(), claim)
    assert not judged(linear_rows().assign(largest_entry=1.1e-3), claim)


def test_claims_page_names_the_settings_that_fail():
    columns = ["claim", "criterion", "experiment", "setting", "numbers", "holds"]
    rows = [
        ("It is fast.", "Quick.", "fig-a", "ring", "x: 1", True),
        ("It is fast.", "Quick.", "fig-b", "ring", "x: 2", False),
        ("It is fast.", "Quick.", "fig-b", "complete", "x: 3", False),
    ]
    text = claims_page(pd.DataFrame(rows, columns=columns), Settings())
    assert text.startswith("Made by `starlings paper` (100 trials)")
    assert text.splitlines()[-1] == (
        "| It is fast.<br>*Quick.* | holds in 1 of 3 settings; not in b (ring; complete) "
        "| b (ring): x: 2<br>a (ring): x: 1 |"
    )


@pytest.fixture(scope="module")
def theorem_table() -> pd.DataFrame:
    return theorem.compute(Settings(quick=True), unseen)


def test_distance_from_the_own_limit_is_below_its_guarantee(theorem_table):
    assert (theorem_table["own"] <= theorem_table["envelope"]).all()
    assert theorem_table.groupby("case")["own"].last().max() < 0.01


def test_theorem_applies_to_the_worked_examples_and_says_little(theorem_table):
    rows = registry.judge_all({"fig-theorem": theorem_table})
    applies, useful = (rows[rows["claim"].str.startswith(f"The {s}")] for s in ("conv", "theorem"))
    assert applies["holds"].tolist() == [True, True, False]
    assert useful["holds"].tolist() == [False, False]


def test_theorem_figure_has_no_colour_of_another_method(theorem_table):
    with figure_style():
        figure = theorem.draw(theorem_table)
    used = {line.get_color() for axis in figure.axes for line in axis.lines}
    assert used & {style.colour for style in METHODS.values()} == {METHODS["D-ADMMS"].colour}


def test_log_axis_has_labels_on_two_decades_and_a_half():
    _, axes = panel_grid(1, 1)
    axes[0, 0].set_ylim(0.015, 6.0)
    log_axis(axes[0, 0])
    ticks = axes[0, 0].get_yticks()
    assert np.sum((ticks > 0.015) & (ticks < 6)) >= 5


def test_summary_counts_settings():
    rows = pd.DataFrame({"claim": list("aabbc"), "criterion": "x", "holds": [1, 0, 1, 1, 0]})
    verdicts = claims.summarise(rows.astype({"holds": bool}))["verdict"].tolist()
    assert verdicts == ["holds in 1 of 2 settings", "holds", "does not hold"]


@pytest.mark.slow
def test_claims_of_the_small_network(linear_table):
    rows = registry.judge_all({"fig-linear-5-50": linear_table}).set_index("claim")["holds"]
    assert rows["On rings D-ADMMS converges faster than D-SGLD, D-SGHMC and D-ULA."].all()
    assert rows["Without edges ADMM and D-ADMMS are the same."].all()
    assert not rows[
        "On rings the average of D-ADMMS is nearer than a baseline's (shown, not stated)."
    ]
    assert claims.coverage(linear_table) > 0.85


@pytest.mark.slow
def test_linear_figure_marks_what_diverges(linear_table):
    exploded = linear_table.copy()
    exploded.loc[exploded["method"] == "D-ULA", "exact"] *= 1e3
    with figure_style():
        figure = linear.draw(exploded)
    texts = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert len(texts) == 6
    assert all("diverges" in text for text in texts)


@pytest.mark.slow
def test_animation_is_small(tmp_path):
    table = evolution.compute(Settings(quick=True), unseen)
    evolution.animate(table[table["round"] < 3], tmp_path / "film")
    assert 1_000 < (tmp_path / "film.gif").stat().st_size < 150_000


def tiny(name: str, calls: list[str], in_quick: bool = True) -> Experiment:
    """An experiment that counts how often it is computed."""

    def compute(settings, report):
        calls.append(name)
        report(1, 2)
        return pd.DataFrame({"round": [0, 1], "w2": [1.0, 0.5 / settings.trials]})

    def draw(table):
        figure, axes = panel_grid(1, 1, xlabel="round", ylabels=["W2"])
        axes[0, 0].plot(table["round"], table["w2"])
        return figure

    return Experiment(name, f"Title of {name}", "a <claim>", compute, draw, in_quick)


@pytest.fixture
def tiny_registry(monkeypatch) -> list[str]:
    calls: list[str] = []
    parts = [tiny("fig-one", calls), tiny("fig-two", calls, in_quick=False)]
    monkeypatch.setattr(registry, "experiments", lambda: {e.name: e for e in parts})
    return calls


def test_runner_writes_everything_and_computes_once(tiny_registry, tmp_path):
    page = runner.run(None, tmp_path, progress=False)
    made = {path.name for path in tmp_path.iterdir()}
    files = {f"fig-{n}.{kind}" for n in ("one", "two") for kind in ("csv", "json", "png", "svg")}
    assert made == files | {"claims.csv", "claims.md", "index.html"}
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 2
    assert "a &lt;claim&gt;" in text
    runner.run(None, tmp_path, progress=False)
    assert tiny_registry == ["fig-one", "fig-two"]


def test_runner_draws_a_lost_figure_from_the_table(tiny_registry, tmp_path):
    runner.run(["fig-one"], tmp_path, progress=False)
    (tmp_path / "fig-one.png").unlink()
    runner.run(["fig-one"], tmp_path, progress=False)
    assert (tmp_path / "fig-one.png").exists()
    assert tiny_registry == ["fig-one"]


def test_runner_recomputes_when_forced_or_changed(tiny_registry, tmp_path):
    runner.run(["fig-one"], tmp_path, progress=False)
    runner.run(["fig-one"], tmp_path, force=True, progress=False)
    runner.run(["fig-one"], tmp_path, seed=11, progress=False)
    assert tiny_registry == ["fig-one"] * 3


def test_runner_recomputes_when_the_module_changed(tiny_registry, tmp_path, monkeypatch):
    runner.run(["fig-one"], tmp_path, progress=False)
    monkeypatch.setattr(runner.inspect, "getsource", lambda module: "other code")
    runner.run(["fig-one"], tmp_path, progress=False)
    assert tiny_registry == ["fig-one"] * 2


def test_quick_run_does_not_write_over_a_full_one(tiny_registry, tmp_path):
    runner.run(["fig-two"], tmp_path, progress=False)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="holds a full run"):
        runner.run(None, tmp_path, quick=True, progress=False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_log_says_what_is_computed_and_what_is_done(tiny_registry, tmp_path, capsys):
    runner.run(None, tmp_path, progress=True)
    began_and_done = ["fig-one ...", "fig-one: done", "fig-two ...", "fig-two: done"]
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "pieces" not in line] == began_and_done
    assert lines[1] == "fig-one: 2 pieces"
    assert lines[2].startswith("fig-one: 1 of 2 pieces in ")  # the last that it reports
    runner.run(None, tmp_path, progress=True)  # nothing is left to compute
    assert capsys.readouterr().err.splitlines() == began_and_done[1::2]
    runner.run(None, tmp_path, force=True)
    assert capsys.readouterr() == ("", "")


def test_full_run_follows_a_quick_one(tiny_registry, tmp_path):
    page = runner.run(None, tmp_path, quick=True, progress=True)
    assert "a quick run" in page.read_text()
    runner.run(None, tmp_path, progress=False)
    assert tiny_registry == ["fig-one", "fig-one", "fig-two"]
    assert "a quick run" not in page.read_text()


def test_page_says_what_is_ours(tmp_path):
    (large,) = (e for e in linear.EXPERIMENTS if e.name == "fig-linear-100-50")
    text = page.write(
        tmp_path, [large], {large.name: linear_rows()}, registry.judge_all({}), Settings()
    )
    assert "exponents of D-ULA, 0.9 and 0.9, are ours" in text.read_text()


def test_unknown_name_is_refused_with_the_nearest(tiny_registry, tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'fig-one'"):
        runner.run(["fig-on"], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_quick_run_of_a_real_experiment(tmp_path):
    page = runner.run(["fig-evolution"], tmp_path, quick=True, progress=False)
    assert "does not hold" in page.read_text()
    film = tmp_path / "fig-evolution.gif"
    assert film.stat().st_size < 1_500_000
    film.unlink()
    runner.run(["fig-evolution"], tmp_path, quick=True, progress=False)
    assert film.exists()


def test_same_table_gives_the_same_svg(tmp_path):
    figures = [tiny("x", []).draw(pd.DataFrame({"round": [0], "w2": [1.0]})) for _ in range(2)]
    for number, figure in enumerate(figures):
        save_figure(figure, tmp_path / f"figure{number}")
    first, second = ((tmp_path / f"figure{n}.svg").read_bytes() for n in range(2))
    assert first == second

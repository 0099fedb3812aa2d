"""Methods on the command line and in studies, and `starlings compare-models`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app

STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = [{covariates}]
noise_std = 0.5
prior_std = 2.0

[data]
file = "rows.csv"
site = "site"

[network]
graph = "ring"

[run]
draws = 200
{method}
"""


def starlings(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def rows(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    y = X @ [1.0, 0.1] + 0.5 * random.normal(size=40)
    lines = [f"{a!r},{b!r},{c!r},s{k % 4}" for k, (a, b, c) in enumerate(np.c_[X, y].tolist())]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y,site", *lines]))
    return X, y


def study(folder, name, covariates, method=""):
    path = folder / f"{name}.toml"
    path.write_text(STUDY.format(covariates=covariates, method=method))
    return path


def sampled(folder, name, covariates, *options, method=""):
    path, output = study(folder, name, covariates, method), folder / f"{name}.nc"
    outcome = starlings("sample", path, "--output", output, "--quiet", *options)
    assert outcome.exit_code == 0, outcome.stderr
    return output


def exact_evidence(X, y):
    X = np.column_stack([np.ones(len(y)), X])
    covariance = 0.25 * np.eye(len(y)) + 4.0 * X @ X.T
    return stats.multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("options", "key", "method"),
    [
        ((), "", "weights"),
        (("--method", "weights-metropolis"), "", "weights-metropolis"),
        ((), 'method = "hmc"\nchains = 8', "hmc"),
        (("--method", "curvature", "--chains", 2), 'method = "hmc"', "curvature"),
        (("--chains", 2, "--burn-in", 90, "--thin", 17), "", "half-noise"),
    ],
    ids=["auto", "option", "study", "option over study", "rounds"],
)
def test_the_method_is_an_option_and_a_key(options, key, method, rows, tmp_path):
    output = sampled(tmp_path, "study", '"a"', *options, method=key)
    assert st.load(output).attrs["method"] == method


@pytest.mark.usefixtures("rows")
def test_an_unknown_method_is_refused_with_the_names(tmp_path):
    outcome = starlings("sample", study(tmp_path, "study", '"a"'), "--method", "weight")
    assert outcome.exit_code == 1
    assert "`method` must be one of ['auto', 'weights'" in outcome.stderr
    assert "Did you mean 'weights'?" in outcome.stderr


@pytest.mark.usefixtures("rows")
def test_two_names_for_one_thing_are_refused(tmp_path):
    keys = 'method = "hmc"\nexactness = "midpoint"'
    outcome = starlings("sample", study(tmp_path, "study", '"a"', keys))
    assert outcome.exit_code == 1
    assert "[run] `method` and `exactness` both say how draws are made" in outcome.stderr


def test_models_are_compared_by_their_evidence(rows, tmp_path):
    X, y = rows
    one, both = sampled(tmp_path, "one", '"a"'), sampled(tmp_path, "both", '"a", "b"')
    outcome = starlings("compare-models", one, both, "--json")
    found = json.loads(outcome.stdout)
    exact = {str(one): exact_evidence(X[:, :1], y), str(both): exact_evidence(X, y)}
    assert list(found) == sorted(exact, key=exact.__getitem__, reverse=True)
    for name, value in exact.items():
        assert found[name]["log_evidence"] == pytest.approx(value, abs=0.01)
    table = starlings("compare-models", one, both).stdout
    assert "probability" in table


@pytest.mark.slow
def test_files_that_cannot_be_compared_are_named(rows, tmp_path):
    one = sampled(tmp_path, "one", '"a"')
    assert "name at least two files" in starlings("compare-models", one).stderr
    assert "name at least two files" in starlings("compare-models", one, one).stderr
    by_rounds = sampled(tmp_path, "rounds", '"a"', "--method", "dadmms", "--chains", 2)
    outcome = starlings("compare-models", one, by_rounds)
    assert outcome.exit_code == 1
    assert "rounds.nc': this result has no log-evidence" in outcome.stderr

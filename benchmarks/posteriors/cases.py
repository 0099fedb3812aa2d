"""The cases by name: a model, its rows in one of two fixed divisions, and the reference.

A folder holds NAME.json (columns, constants, splits) and NAME.reference.json for each case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import starlings as st

from . import models
from .models import Model, regression

DIVISIONS = ("random", "sorted")
"""The two ways in which rows are divided among agents."""

BUILDERS: dict[str, Callable[[dict[str, Any]], Model]] = {
    "kidscore_momiq": regression(models.kidscore_prior),
    "kilpisjarvi": models.kilpisjarvi,
    "nes_logit": models.nes_logit,
    "glm_poisson": models.glm_poisson,
    "logearn_height_male": regression(models.flat),
    "logmesquite_logvash": regression(models.flat),
    "nes1980": regression(models.flat),
    "sblri": regression(models.sblri_prior),
    "arK": regression(models.autoregression_prior),
    "eight_schools_noncentered": models.eight_schools,
    "gp_pois_regr": models.gaussian_process,
    "lotka_volterra": models.lotka_volterra,
    "radon_mn_partially_pooled": models.radon,
}

HARD = ("eight_schools_noncentered", "gp_pois_regr", "lotka_volterra", "radon_mn_partially_pooled")
"""The cases that are not log-concave on the bulk of the posterior."""


@dataclass(frozen=True)
class Case:
    """One posterior, divided among agents, with its reference."""

    name: str
    division: str
    problem: st.Problem
    model: Model
    parameters: list[str]
    """Names of what is reported, in the order of the reference."""
    reference: dict[str, Any]


def load(folder: str | Path, name: str, division: str) -> Case:
    """Read one case and build its problem."""
    if name not in BUILDERS:
        raise ValueError(f"`name` must be one of {list(BUILDERS)}, got {name!r}.")
    data, reference = read(folder, f"{name}.json"), read(folder, f"{name}.reference.json")
    model = BUILDERS[name](data)
    problem = st.Problem(
        model.log_likelihood, model.log_prior, model.parameters, divide(data, division)
    )
    return Case(name, division, problem, model, data["parameters"], reference)


def divide(data: dict[str, Any], division: str) -> list[dict[str, np.ndarray]]:
    """The rows of each agent under one of the two fixed divisions."""
    if division not in data["splits"]:
        raise ValueError(f"`division` must be one of {list(data['splits'])}, got {division!r}.")
    rows = {name: np.asarray(column) for name, column in data["rows"].items()}
    return [{k: column[part] for k, column in rows.items()} for part in data["splits"][division]]


def read(folder: str | Path, file: str) -> dict[str, Any]:
    """The content of one JSON file of the folder."""
    path = Path(folder) / file
    if not path.is_file():
        raise FileNotFoundError(
            f"no file {file} in the folder {folder}; name the folder that has the posteriors."
        )
    return json.loads(path.read_text())

"""Hierarchical problems, and the closed form of a Gaussian one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import starlings as st

SIZES = (1, 12, 3, 30)
"""Rows of the sites."""
PRIOR_SD, LOCAL_SD = 2.0, np.array([1.5, 0.5])


def sites_rows(sizes=SIZES, seed=2, logistic=False):
    """Rows with two covariates, whose coefficients differ between sites."""
    random, shards = np.random.default_rng(seed), {}
    for number, size in enumerate(sizes):
        x = np.column_stack([np.ones(size), random.normal(size=size)])
        eta = x @ ([0.5, -1.0] + LOCAL_SD * random.normal(size=2))
        noise = random.logistic(size=size) if logistic else random.normal(size=size)
        y = (eta + noise > 0).astype(float) if logistic else eta + noise
        shards[f"site {number}"] = {"x": x, "y": y}
    return shards


def normal_row(p, row):
    return -0.5 * (row["y"] - row["x"] @ (p["beta"] + p["u"])) ** 2


def beta_prior(p):
    return -0.5 * jnp.sum((p["beta"] / PRIOR_SD) ** 2)


def u_prior(p):
    return -0.5 * jnp.sum((p["u"] / LOCAL_SD) ** 2)


def gaussian_problem(sizes=SIZES) -> st.Problem:
    """y ~ N(x'(beta + u_i), 1) at site i."""
    parameters = {"u": st.Parameter((2,), labels=("base", "slope"), local=True), "beta": (2,)}
    rows = sites_rows(sizes)
    return st.Problem(normal_row, beta_prior, parameters, rows, True, local_prior=u_prior)


def joint_posterior(sizes=SIZES):
    """Mean and covariance of (beta, u_0, u_1, ...), typed in."""
    shards, count = list(sites_rows(sizes).values()), 2 + 2 * len(sizes)
    precision, linear = np.zeros((count, count)), np.zeros(count)
    precision[:2, :2] = np.eye(2) / PRIOR_SD**2
    for number, rows in enumerate(shards):
        own = slice(2 + 2 * number, 4 + 2 * number)
        gram, target = rows["x"].T @ rows["x"], rows["x"].T @ rows["y"]
        precision[:2, :2] += gram
        precision[:2, own] = precision[own, :2] = gram
        precision[own, own] = gram + np.diag(LOCAL_SD**-2.0)
        linear[:2] += target
        linear[own] = target
    covariance = np.linalg.inv(precision)
    return covariance @ linear, covariance


def joint_draws(result) -> np.ndarray:
    """Draws of (beta, u_0, u_1, ...), (chain, draw, entry)."""
    beta, u = (result.posterior[name].values for name in ("beta", "u"))
    np.testing.assert_array_equal(beta, np.repeat(beta[:, :, :1], beta.shape[2], axis=2))
    return np.concatenate([beta[:, :, 0], u.reshape(*u.shape[:2], -1)], axis=2)


def logistic_row(p, row):
    eta = row["x"] @ (p["beta"] + p["sd"] * p["u"])
    return row["y"] * eta - jnp.logaddexp(0.0, eta)


def logistic_problem(sites=6, rows=25) -> st.Problem:
    """A logistic regression whose coefficients vary by site, with unknown standard deviations."""
    parameters = {
        "beta": (2,),
        "sd": st.Parameter((2,), "positive"),
        "u": st.Parameter((2,), local=True),
    }
    return st.Problem(
        logistic_row,
        lambda p: beta_prior(p) - 0.5 * jnp.sum(p["sd"] ** 2),
        parameters,
        sites_rows((rows,) * sites, logistic=True),
        local_prior=lambda p: -0.5 * jnp.sum(p["u"] ** 2),
        derived=lambda p: {"effect": p["sd"] * p["u"], "odds": jnp.exp(p["beta"][1])},
    )

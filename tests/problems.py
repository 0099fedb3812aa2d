"""Problems, graphs and rows that several tests share."""

from __future__ import annotations

import jax.numpy as jnp
import networkx as nx
import numpy as np

import starlings as st


def paper_problem(agents: int, rows: int = 50) -> st.Problem:
    """The paper's linear regression from its own seed: d = 2, noise sd 4, prior variance 10."""
    random = np.random.RandomState(10)
    truth = random.multivariate_normal(np.zeros(2), 10 * np.eye(2))
    X, y = [], []
    for _ in range(agents):
        X.append(random.multivariate_normal(np.zeros(2), np.eye(2), size=(rows,)))
        y.append(X[-1] @ truth + random.normal(0, 4.0, size=rows))
    sites = np.repeat(np.arange(agents), rows)
    return st.models.linear_regression(
        np.vstack(X), np.hstack(y), sites, noise_std=4.0, prior_std=10**0.5, intercept=False
    )


def irregular_graph() -> nx.Graph:
    """Six agents with degrees 1 to 4."""
    return nx.Graph([(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 4), (4, 5)])


def unequal_linear_problem(seed: int = 3) -> st.Problem:
    """Linear regression in three dimensions with shards of 1 to 40 rows at six sites."""
    random = np.random.default_rng(seed)
    sizes = [1, 40, 3, 7, 20, 2]
    sites = np.repeat(np.arange(6), sizes)
    X = random.normal(size=(len(sites), 3))
    y = X @ [1.0, -2.0, 0.5] + random.normal(size=len(sites))
    return st.models.linear_regression(
        X, y, sites, noise_std=1.0, prior_std=5**0.5, intercept=False
    )


def logistic_rows(rows: int = 240, seed: int = 5):
    """A design, labels and site names with very unequal sites."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3)) * [1.0, 2.0, 0.5] + [0.3, 0.0, 0.0]
    y = (random.logistic(size=rows) < X @ [1.0, -0.7, 0.4]).astype(float)
    sites = random.choice(["a", "b", "c", "d", "e"], size=rows, p=[0.02, 0.1, 0.18, 0.3, 0.4])
    return X, y, sites


def skewed_problem():
    """Two events of a Poisson variable with one coefficient, at five very unequal sites.

    The posterior has a skewness of -0.51. The third derivatives of two sites have the other sign,
    so that their changes differ in sign even when tilted.
    """
    sizes = [1, 4, 3, 2, 5]
    x, sites = np.repeat([1.0, -0.3, 2.0, -0.2, 1.5], sizes), np.repeat(np.arange(5), sizes)
    y = np.zeros(15)
    y[[0, 5]] = 1.0
    return st.models.poisson_regression(x[:, None], y, sites, intercept=False)


def unequal_poisson_problem():
    """Three coefficients at six sites with 1 to 25 rows."""
    random = np.random.default_rng(8)
    sites = np.repeat(np.arange(6), [1, 25, 2, 9, 14, 3])
    X = np.column_stack([np.ones(len(sites)), random.normal(size=(len(sites), 2))])
    y = random.poisson(np.exp(X @ [0.3, 0.5, -0.4])).astype(float)
    return st.models.poisson_regression(X, y, sites, intercept=False)


def wavy(p, row):
    """Minus x^2 / 2N and a wave."""
    x, frequency = p["x"], 1.5
    return -0.5 * x**2 * row["share"] - row["wave"] * jnp.cos(frequency * x) / frequency**2


def flat(p):
    return 0.0


def wavy_problem(waves):
    """N(0, 1) of which agent i holds 1/N and a wave of its own; the waves sum to zero."""
    assert sum(waves) == 0
    share = 1 / len(waves)
    shards = [{"share": [share], "wave": [float(wave)]} for wave in waves]
    return st.Problem(wavy, flat, {"x": ()}, shards)

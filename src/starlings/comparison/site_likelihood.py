"""The log-likelihood of a site's own rows at the draws of its own agent.

Draws are saved as constrained values. A likelihood takes the model's flat vector, so the
constraints are inverted first. Rows are taken in blocks, so that memory does not grow with them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from starlings.errors import PrivacyError, nearest
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.likelihood import Likelihood
from starlings.problem.parameters import Parameter
from starlings.problem.shards import Rows, count_rows, padded_length
from starlings.results.kinds import RESULT
from starlings.results.result import Result, as_arviz

MAX_DRAWS = 4000
"""Draws of an agent that are used, over all chains: longer runs are thinned to this number."""
BLOCK_BYTES = 32 * 2**20
"""Bytes of the log-likelihoods of a block of rows. Smoothing takes a few arrays of this size."""
DRAWS_AT_ONCE = 64
"""Number of draws whose log-likelihoods are computed at once."""


def site_log_likelihood(problem: Problem, result: Result, site: str) -> Any:
    """Return one site's draws and the log-likelihood of its rows, for ArviZ at that site.

    The groups are `posterior`, the draws of the site's own agent, and `log_likelihood`, with one
    number for each (chain, draw, row), so that `arviz.loo` takes it. Runs of more than 4000 draws
    are thinned. What is returned is an xarray DataTree for ArviZ 1.x and InferenceData for 0.x.

    It contains numbers for each row, and all of them are in memory at once: it is for that site
    alone, and not to be sent anywhere. `starlings.loo` sends sums over the rows only.

    Args:
        problem: the model and the rows of every site, or of this one.
        result: draws of this problem.
        site: the name of the site, such as "north".
    """
    if site not in problem.shards:
        raise ValueError(
            f"`site` must be one of {list(problem.shards)}, got {site!r}."
            f"{nearest(site, problem.shards)}"
        )
    draws = site_draws(result, site)
    vectors = flat_vectors(problem, draws)
    rows = np.concatenate(list(log_likelihood_blocks(problem, site, vectors)))
    values = np.moveaxis(rows.reshape(-1, *vectors.shape[:2]), 0, -1)
    own = {"log_likelihood": (["chain", "draw", "row"], values)}
    likelihood = xr.Dataset(own, {"chain": draws["chain"], "draw": draws["draw"]})
    groups = {"posterior": draws, "log_likelihood": likelihood}
    return as_arviz(xr.DataTree.from_dict(groups), "`site_log_likelihood`")


def local_vectors(
    problem: Problem, network: Network, result: Result | None
) -> dict[str, np.ndarray]:
    """Return the flat vectors (chain, draw, dim) of every local site's own agent.

    Process 0 has the result; the others get the draws from it, site by site. Where messages are
    masked, these have to be the same at all agents: else they are what masks hide.
    """
    if network.secrecy is not None and network.is_distributed:
        _refuse_own_draws(network, result)
    found = {}
    for site in problem.sites:
        own: Any = None
        if network.communicator.rank == 0:
            own = flat_vectors(problem, site_draws(result, site))
        own = network.communicator.broadcast(own)
        if site in problem.shards:
            found[site] = own
    return found


def _refuse_own_draws(network: Network, result: Result | None) -> None:
    """Refuse a result with draws that each agent made by itself; all processes call this."""
    is_shared = True
    if isinstance(result, Result) and network.communicator.rank == 0:
        is_shared = RESULT not in json.loads(result.attrs.get("disclosed", f'["{RESULT}"]'))
    if not network.communicator.broadcast(is_shared):
        raise PrivacyError(
            "`result` has draws that every agent made by itself, and process 0 would show them to "
            "all other processes, masked or not. Take draws by method='weights' or method='hmc', "
            "which are the same at all agents, or let every site use `site_log_likelihood`."
        )


def site_draws(result: Result | None, site: str) -> xr.Dataset:
    """Return the draws of one site's agent, at most `MAX_DRAWS` over all chains."""
    if not isinstance(result, Result):
        raise TypeError(f"`result` must be what `sample` returned, got {type(result).__name__}.")
    posterior = result.posterior
    agents = posterior["agent"].values.astype(str).tolist()
    if site not in agents:
        raise ValueError(
            f"`result` must have draws of every site of `problem`, got agents {agents} and no "
            f"{site!r}; give the result of this problem."
        )
    own = posterior.isel(agent=agents.index(site))
    few = own.isel(chain=slice(None, None, -(-own.sizes["chain"] // MAX_DRAWS)))
    step = -(-few.sizes["chain"] * few.sizes["draw"] // MAX_DRAWS)
    return few.isel(draw=slice(None, None, step))


def flat_vectors(problem: Problem, draws: xr.Dataset) -> np.ndarray:
    """Return the model's flat vector at draws of one agent, with shape (chain, draw, dim)."""
    saved_names = {} if problem.report is None else problem.report.names
    lead = (draws.sizes["chain"], draws.sizes["draw"])
    parts = []
    with jax.enable_x64(True):
        for name, block in problem.parameters.blocks.items():
            values = _saved_values(draws, saved_names.get(name, name), block)
            free = np.asarray(jax.vmap(block.bijection._inverse)(jnp.asarray(values)))
            _check_finite(name, free)
            parts.append(free.reshape(*lead, block.size))
    return np.concatenate(parts, axis=-1)


def _saved_values(draws: xr.Dataset, name: str, block: Parameter) -> np.ndarray:
    """Return the values of one parameter, (chain and draw, ...), in its own shape."""
    wanted = (draws.sizes["chain"], draws.sizes["draw"], *block.shape)
    if name not in draws or draws[name].shape != wanted:
        found = {str(known): values.shape[2:] for known, values in draws.items()}
        raise ValueError(
            f"`result` must have draws of {name!r} of shape {block.shape}, got {found}; give the "
            "result of this problem."
        )
    return draws[name].values.reshape(-1, *block.shape).astype(float)


def _check_finite(name: str, free: np.ndarray) -> None:
    if not np.isfinite(free).all():
        raise ValueError(
            f"`result` has draws of {name!r} that are not finite, or at the edge of the constraint "
            "of the parameter; sample it with precision='float64'."
        )


def log_likelihood_blocks(problem: Problem, site: str, vectors: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the log-likelihoods of a site's rows, some rows at a time, each (row, draw).

    Args:
        problem: the model and the rows.
        site: the name of the site.
        vectors: (chain, draw, dim); the draws of all chains follow each other.
    """
    flat, rows = vectors.reshape(-1, problem.dim), problem.shards[site]
    count = count_rows(rows)
    size = min(padded_length(count), max(1, BLOCK_BYTES // (8 * len(flat))))
    for first in range(0, count, size):
        index = np.minimum(np.arange(first, first + size), count - 1)  # blocks of one shape
        with jax.enable_x64(True):
            block = {name: _as_float64(column[index]) for name, column in rows.items()}
            found = np.asarray(_log_likelihoods(problem.log_likelihoods, flat, block))
        found = found[: count - first]
        _check_rows(site, found)
        yield found


@functools.partial(jax.jit, static_argnums=0)
def _log_likelihoods(likelihood: Likelihood, vectors: jax.Array, rows: Rows) -> jax.Array:
    """Return the log-likelihood of every row at every draw, (row, draw)."""
    by_draw = jax.lax.map(lambda x: likelihood(x, rows), vectors, batch_size=DRAWS_AT_ONCE)
    return by_draw.T


def _as_float64(column: np.ndarray) -> np.ndarray:
    """Return a column of floating-point numbers in double precision, and others as they are."""
    return column.astype(float) if column.dtype.kind == "f" else column


def _check_rows(site: str, found: np.ndarray) -> None:
    if not np.isfinite(found).all():
        count = int((~np.isfinite(found)).any(axis=1).sum())
        raise ValueError(
            f"the log-likelihood must be finite at every draw; at site {site!r} it is not for "
            f"{count} of the next {len(found)} rows. Check that `result` has draws of this problem."
        )

"""The potentials of all local agents at many candidates, block by block.

One block has some rows of some agents, and some candidates z_s. With D_ib the rows of agent i in
its b-th block,

    f_i(z_s) = - sum_b sum_{r in D_ib} log p(r | z_s) - (1/N) log p(z_s)                    (1)

A block takes the memory of a few numbers for each of its rows and candidates, and where the
likelihood has a linear predictor, it is one product of matrices. On a CPU it should fit into the
cache; for other devices it should be large, since each block is a program to start. A block that
fits into the cache is too small to occupy many cores, so that several are computed at a time there.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.agent import Agent
from starlings.runtime.buckets import Agents

FEWEST_CANDIDATES = 256
"""Candidates of a block, if there are as many, before rows are divided too: with fewer of them a
product of matrices would spend its time on reading rows."""
CORES_OF_A_BLOCK, MOST_AT_ONCE = 4, 4
"""On a CPU, the cores for each block that is computed at a time, and the most of such blocks."""
ACCELERATOR_AT_ONCE = 2
"""Blocks at a time on other devices: one is computed, and the next one is waiting for it."""


def potentials_at(
    agents: Agents, points: np.ndarray, num_rows: int, block_bytes: int
) -> np.ndarray:
    """f_i of every local agent at points (candidate, dim), as (agent, candidate).

    Args:
        agents: the local agents, in the coordinates of the points.
        points: (candidate, dim).
        num_rows: rows of all local agents together, without padding.
        block_bytes: bytes of one number for every row and candidate of a block, at most; a block
            has at least one row of one agent and `FEWEST_CANDIDATES` candidates.
    """
    numbers, total, device = block_bytes // 8, len(points), device_of(agents)
    count = math.ceil(total / max(FEWEST_CANDIDATES, numbers // num_rows))
    blocks = np.resize(np.arange(total), (count, math.ceil(total / count)))  # of one shape
    is_double = points.dtype == np.float64

    def at_block(block: np.ndarray) -> np.ndarray:
        with jax.enable_x64(is_double), jax.default_device(device):  # which threads do not inherit
            return np.asarray(_at_block(agents, points[block], numbers))

    with ThreadPoolExecutor(_blocks_at_once(device)) as pool:
        found = [at_block(blocks[0]), *pool.map(at_block, blocks[1:])]  # the first one compiles
    return np.concatenate(found, axis=1)[:, :total]


def device_of(agents: Agents) -> jax.Device:
    """The device that has the agents' rows."""
    return next(iter(jax.tree.leaves(agents)[0].devices()))


def _blocks_at_once(device: jax.Device) -> int:
    """The number of threads, each of which computes a block."""
    if device.platform != "cpu":
        return ACCELERATOR_AT_ONCE
    return min(MOST_AT_ONCE, max(1, (os.cpu_count() or 1) // CORES_OF_A_BLOCK))


@partial(jax.jit, static_argnames="numbers")
def _at_block(agents: Agents, points: Any, numbers: int) -> jax.Array:
    """The potentials at one block of candidates, with at most `numbers` numbers at a time."""

    def rows_at_once(stack: Agent) -> int:
        return largest_divisor(stack.row_weights.shape[-1], numbers // len(points))

    def agents_at_once(stack: Agent) -> int:
        return max(1, numbers // (len(points) * rows_at_once(stack)))

    def of_agent(agent: Agent) -> jax.Array:
        return _in_blocks(agent, points, rows_at_once(agent))

    return agents.each_in_turn(of_agent, agents_at_once)


def _in_blocks(agent: Agent, points: Any, rows_at_once: int) -> jax.Array:
    """The potential of one agent at points (candidate, dim), eq. (1)."""
    if not agent.is_sum_over_rows:
        at_once = max(1, rows_at_once * len(points) // agent.row_weights.shape[-1])
        return jax.lax.map(agent.potential, points, batch_size=at_once)

    def of_block(block: Any) -> jax.Array:
        rows, weights = block
        logs = jax.vmap(lambda z: agent.row_log_likelihoods(z, rows), out_axes=1)(points)
        return jnp.sum(weights[:, None] * logs, axis=0)

    blocks = jax.tree.map(
        lambda column: column.reshape(-1, rows_at_once, *column.shape[1:]),
        (agent.rows, agent.row_weights),
    )
    log_likelihoods = jax.lax.map(of_block, blocks).sum(axis=0)
    return jax.vmap(agent.prior_potential)(points) - log_likelihoods  # (1)


def largest_divisor(length: int, most: int) -> int:
    """The largest divisor of a number of rows that is at most `most`.

    Padded numbers of rows (see `padded_length`) have one above half of `most`, from 16 on.

    >>> largest_divisor(13 * 2**13, 2048), largest_divisor(52, 2048)
    (2048, 52)
    """
    least = math.ceil(length / max(1, most))
    return next(length // parts for parts in range(least, length + 1) if length % parts == 0)

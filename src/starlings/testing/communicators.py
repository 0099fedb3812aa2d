"""The contract of communicators: what every runtime has to do, tried at all its processes.

The numbers that are sent are known functions of the number of an agent or of a process, so that
every process can tell by itself what has to arrive.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.network.communicator import Communicator
from starlings.samplers import DSGLD
from starlings.sampling import sample
from starlings.testing.trial import logistic_problem, require

TRIED_WIDTHS = (1, 7)
"""Floats of a message in the exchanges that are tried."""
EXCHANGES = 5
"""Exchanges, one after the other, inside one compiled loop."""
PAUSE = 0.5
"""Seconds that process 0 comes late to a barrier; the others have to wait at least half of them."""
DRAWS_ROUNDING = 1e-10
"""Largest difference of draws from those of one process, as a share of their spread: sums over
neighbours and rows are made in another order where arrays have other shapes."""


def check_communicator(network: Network) -> None:
    """Raise a `ContractError` where a communicator does not do what every runtime has to.

    All processes have to call it. Those of a network of six agents are tried with a short run of a
    sampler too, whose draws have to be those of one process.

    Args:
        network: as this process sees it, see `Network.distributed`.
    """
    communicator = network.communicator
    _check_processes(network, communicator)
    _check_lists(network, communicator)
    _check_exchange(communicator, network.local)
    _check_broadcast(communicator)
    _check_sum(communicator)
    _check_first(communicator)
    _check_gather(network, communicator)
    _check_barrier(communicator)
    if network.size == logistic_problem().num_agents:
        _check_draws(network)


def _check_processes(network: Network, communicator: Communicator) -> None:
    """Every process has a number, and every agent one process."""
    rank, size = communicator.rank, communicator.size
    require(0 <= rank < size, f"`rank` must be from 0 to {size - 1} (`size` - 1), got {rank}.")
    ranks = communicator.sum(np.eye(size)[rank])
    require((ranks == 1).all(), f"every `rank` must belong to one process, got {ranks} of each.")
    owners = communicator.sum(np.isin(np.arange(network.size), network.local).astype(float))
    require((owners == 1).all(), f"every agent must be local at one process, got {owners} of each.")
    is_sorted = (np.diff(network.local) > 0).all()
    require(is_sorted, f"`local` must be in ascending order, got {network.local}.")


def _check_lists(network: Network, communicator: Communicator) -> None:
    """Whoever has a neighbour at another process is heard there."""
    around = np.unique(network.adjacency[network.local].indices)
    wanted, found = np.setdiff1d(around, network.local), np.sort(communicator.incoming)
    require(
        np.array_equal(wanted, found),
        f"`incoming` must name the agents elsewhere with a neighbour here, {wanted}, once each, "
        f"got {found}.",
    )
    places = np.asarray(communicator.outgoing)
    is_inside = ((places >= 0) & (places < len(network.local))).all()
    require(
        is_inside,
        f"`outgoing` must be indices into the {len(network.local)} local agents, {places}.",
    )


def _check_exchange(communicator: Communicator, local: np.ndarray) -> None:
    """In every round, inside a compiled loop, the messages of that round arrive in their order."""
    for dtype in ("float64", "float32"):
        with jax.enable_x64(dtype == "float64"):
            for width in TRIED_WIDTHS:
                _check_one_width(communicator, local, width, np.dtype(dtype))


def _check_one_width(
    communicator: Communicator, local: np.ndarray, width: int, dtype: np.dtype
) -> None:
    sending = jnp.asarray(local[communicator.outgoing])

    def messages(agents: Any, index: Any) -> Any:  # another number for every agent, entry, round
        entries = agents[:, None] + 0.01 * np.arange(width) + 1000.0 * index
        return entries.astype(dtype)

    def turn(index: Any, found: jax.Array) -> jax.Array:
        return found.at[index].set(communicator.exchange(messages(sending, index)))

    empty = jnp.zeros((EXCHANGES, len(communicator.incoming), width), dtype)
    found = np.asarray(jax.jit(lambda start: jax.lax.fori_loop(0, EXCHANGES, turn, start))(empty))
    for index in range(EXCHANGES):
        wanted = messages(communicator.incoming, index)
        require(
            np.allclose(found[index], wanted, rtol=1e-6, atol=0),
            f"`exchange` of {width} floats ({dtype}) in round {index} must return the messages of "
            f"the agents {communicator.incoming}, {wanted[:, 0]}, got {found[index][:, 0]}.",
        )


def _check_broadcast(communicator: Communicator) -> None:
    """Everybody gets the value of process 0, whatever it is."""
    values: tuple[Any, ...] = (17, None, "text", {"a": (1.5, [True])})
    for value in values:
        own = value if communicator.rank == 0 else "another value"
        found: Any = communicator.broadcast(own)
        require(found == value, f"`broadcast` must return {value!r} of process 0, got {found!r}.")
    array = np.arange(6.0).reshape(2, 3)
    found = communicator.broadcast(array if communicator.rank == 0 else None)
    require(np.array_equal(found, array), f"`broadcast` must return arrays too, got {found!r}.")


def _check_sum(communicator: Communicator) -> None:
    """The total of all processes, with the same bits at each."""
    ranks = range(communicator.size)
    for shape in ((), (4,), (2, 3)):
        parts = [np.random.default_rng(rank).normal(size=shape) for rank in ranks]
        own = np.asarray(parts[communicator.rank])
        before, found = own.copy(), communicator.sum(own)
        require(
            np.allclose(found, sum(parts), rtol=1e-12) and np.shape(found) == shape,
            f"`sum` must add arrays of shape {shape} to {sum(parts)}, got {found}.",
        )
        require(np.array_equal(own, before), "`sum` must not change the array that it is given.")
        first = communicator.broadcast(np.asarray(found).tobytes())
        require(
            first == np.asarray(found).tobytes(),
            "`sum` must return the same bits in every process, and those of process "
            f"{communicator.rank} differ from those of process 0.",
        )


def _check_first(communicator: Communicator) -> None:
    """The smallest value that is not None."""
    rank, last = communicator.rank, communicator.size - 1
    cases = {
        "None everywhere": (None, None),
        "a value at the last process": ((3, "text") if rank == last else None, (3, "text")),
        "a value at every process": ((last - rank, f"process {rank}"), (0, f"process {last}")),
    }
    for name, (value, wanted) in cases.items():
        found = communicator.first(value)
        require(found == wanted, f"`first` with {name} must return {wanted!r}, got {found!r}.")


def _check_gather(network: Network, communicator: Communicator) -> None:
    """Entries of all agents in the order of the agents, along any axis, at process 0 single.

    A runtime that does not collect them returns those of the local agents as they are.
    """
    for axis in range(3):
        for dtype in (np.float64, np.float32, np.int64):
            shape = np.insert([2, 3], axis, network.size)
            everything = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
            own = np.take(everything, network.local, axis)
            found: Any = communicator.gather(own, axis)
            if not communicator.collects:
                require(np.array_equal(found, own), "`gather` must return the process's own.")
                continue
            if communicator.rank != 0:
                require(found is None, "`gather` must return None except at process 0.")
                continue
            is_right = found is not None and np.array_equal(found, everything)
            require(
                is_right and found.dtype == dtype,
                f"`gather` along axis {axis} must put agents in the order of their numbers.",
            )


def _check_barrier(communicator: Communicator) -> None:
    """Nobody goes on before process 0 has come."""
    communicator.barrier()
    communicator.broadcast(None)
    began = time.monotonic()
    if communicator.rank == 0:
        time.sleep(PAUSE)
    communicator.barrier()
    waited = time.monotonic() - began
    require(
        waited > PAUSE / 2,
        f"`barrier` must wait for all processes, process {communicator.rank} went on after "
        f"{waited:.3f} s while process 0 came after {PAUSE} s.",
    )


def _check_draws(network: Network) -> None:
    """A run over all processes has the draws of a run in one process."""
    sampler = DSGLD(step_size=0.01)
    settings: dict[str, Any] = {"draws": 20, "chains": 2, "burn_in": 5, "check": False}
    part = logistic_problem(network.local.tolist())
    result = sample(part, network.matched_to(part.sites), sampler, progress=False, **settings)
    if network.communicator.rank != 0:
        require(result is None, "`sample` must return None except at process 0.")
        return
    single = sample(logistic_problem(), Network(network.graph), sampler, progress=False, **settings)
    found, wanted = (each.posterior["beta"].values for each in (result, single))
    atol = DRAWS_ROUNDING * wanted.std()
    np.testing.assert_allclose(found, wanted, rtol=DRAWS_ROUNDING, atol=atol, err_msg=str(sampler))

"""What one agent of every sampler has to do, whatever its algorithm: rules about single rounds."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import ContractError, DisconnectedNetworkWarning
from starlings.network import Inbox, Network
from starlings.problem import Agent
from starlings.random.addresses import Drawn, Round
from starlings.samplers import Card, Sampler
from starlings.testing.trial import (
    Trial,
    delivered,
    draws_of,
    first_states,
    one_round,
    require,
    stepped,
)

Rule = Callable[[Trial, Sampler], str | None]
"""Raises a `ContractError` if a sampler breaks it; returns None, or why it could not be tried."""
NOISES = ("private", "shared")
"""The kinds of noise that `Sampler.noises` can name; see `Round` for how a step gets them."""
COUNTED_ROUNDS = 6
"""Rounds in which messages and their counts are compared."""
COMPILED_ROUNDING, COMPILED_ROUNDING_AT_ZERO = 1e-12, 1e-13
"""Largest difference, relative and absolute, between compiled and eager float64 numbers."""


def is_a_frozen_dataclass_with_a_card(trial: Trial, sampler: Sampler) -> None:
    """A sampler is a frozen dataclass that JAX takes apart, with a card for its users."""
    given: Any = sampler
    require(
        not isinstance(given, type),
        f"give an instance, `{getattr(given, '__name__', '')}(...)`, not the class.",
    )
    name = type(sampler).__name__
    require(isinstance(sampler, Sampler), f"{name} must be a subclass of starlings.Sampler.")
    is_frozen = dataclasses.is_dataclass(sampler) and type(sampler).__dataclass_params__.frozen
    require(is_frozen, f"{name} must be a frozen dataclass: use `@dataclass(frozen=True)`.")
    leaves = jax.tree.leaves(sampler)
    require(
        all(leaf is not sampler for leaf in leaves),
        f"JAX cannot take {name} apart: write `@starlings.pytree` above `@dataclass`.",
    )
    texts = [leaf for leaf in leaves if isinstance(leaf, str)]
    require(not texts, f"{name} has text {texts} in a field: make it with `starlings.choice`.")
    card = getattr(type(sampler), "card", None)
    require(isinstance(card, Card), f"{name} has no `card`; describe it with a `starlings.Card`.")


def class_attributes_agree_with_the_step(trial: Trial, sampler: Sampler) -> None:
    """`step_field` is a field, and every round draws the noise that `noises` names."""
    fields = [field.name for field in dataclasses.fields(sampler)]  # type: ignore[arg-type]
    name = sampler.step_field
    require(
        name is None or name in fields,
        f"`step_field` must be None or one of the fields {fields}, got {name!r}.",
    )
    named = sampler.noises
    is_known = isinstance(named, tuple) and set(named) <= set(NOISES)
    require(is_known, f"`noises` must be a tuple of some of {NOISES}, got {named!r}.")
    unused = [kind for kind in named if not _uses(trial, sampler, kind)]
    require(
        not unused,
        f"`noises` names {unused}, which neither `step` nor `draw` uses in round 1: name the noise "
        "that every round draws, or leave `noises` out.",
    )


def _uses(trial: Trial, sampler: Sampler, kind: str) -> bool:
    """Whether the first round or its draw changes with noise that was drawn beforehand."""

    def state_and_draw(agent: Agent, state: Any, inbox: Inbox, key: jax.Array) -> Any:
        round = Round(1, key, keys.network, drawn)
        state, _ = stepped(sampler, agent, state, inbox, round)
        return state, sampler.draw(agent, state, round._replace(index=2))

    with jax.enable_x64(True):
        agents, keys = trial.agents(sampler), trial.keys()
        states = first_states(sampler, agents, trial.positions(sampler)[0], keys)
        inboxes = delivered(trial.network, jax.vmap(sampler.message)(states))
        drawn = Drawn(**{kind: jnp.full(trial.problem.dim, np.nan)})
        found = jax.vmap(state_and_draw)(agents, states, inboxes, keys.agents)
    return any(bool(np.isnan(leaf).any()) for leaf in jax.tree.leaves(found))


def check_refuses_with_a_value_error(trial: Trial, sampler: Sampler) -> None:
    """`check` accepts the problem, and has no other way to refuse than a `ValueError`."""
    refusal = _refusal(trial, sampler, trial.network)
    require(
        refusal is None,
        f"`check` refuses the problem or the network on which it is tried ({refusal}): give "
        "`problem` and `network` on which it can run.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedNetworkWarning)
        without = Network.no_edges(trial.network.size).matched_to(trial.problem.sites)
    refusal = _refusal(trial, sampler, without)
    require(refusal != "", "`check` refuses a network without edges and does not say why.")


def _refusal(trial: Trial, sampler: Sampler, network: Network) -> str | None:
    """The text with which `check` refuses a network; None if it accepts it."""
    try:
        sampler.check(trial.problem, network)
    except ValueError as error:
        return str(error)
    except Exception as error:
        kind = type(error).__name__
        raise ContractError(
            f"`check` must refuse with a ValueError, it raised {kind}: {error}."
        ) from error
    return None


def shapes_and_dtypes_survive_a_round(trial: Trial, sampler: Sampler) -> None:
    """In float64 and in float32, a round keeps the shapes and types of the state."""
    for dtype in (np.dtype("float64"), np.dtype("float32")):
        with jax.enable_x64(dtype == np.float64):
            _check_shapes(trial, sampler, dtype)


def _check_shapes(trial: Trial, sampler: Sampler, dtype: np.dtype) -> None:
    positions, keys = trial.positions(sampler, dtype=dtype)[0], trial.keys()
    agents = trial.agents(sampler, dtype)
    states = first_states(sampler, agents, positions, keys)
    after, info = one_round(sampler, trial, agents, states, 1, keys)
    draws = draws_of(sampler, agents, after, 2, keys)
    before, now = (jax.tree.map(_described, each) for each in (states, after))
    require(before == now, f"`step` changes the state from {before} to {now} ({dtype}).")
    wanted = {
        "position": (states.position, positions.shape),
        "what `draw` returns": (draws, positions.shape),
        "`Info.residual`": (info.residual, positions.shape[:1]),
    }
    for name, (array, shape) in wanted.items():
        is_right = array.shape == shape and array.dtype == dtype
        require(
            is_right,
            f"{name} must be {shape} of {dtype}, with agents first, got {_described(array)}.",
        )
    require(np.all(np.isfinite(draws)), f"draws are not finite after one round ({dtype}).")
    kinds = [leaf.dtype for leaf in jax.tree.leaves(states)]
    require(
        not any(jnp.issubdtype(kind, jax.dtypes.prng_key) for kind in kinds),
        "a state must hold no key: every round has its own, see `starlings.Round`.",
    )


def _described(array: Any) -> str:
    return f"{array.shape} of {array.dtype}"


def message_has_the_size_on_the_card(trial: Trial, sampler: Sampler) -> None:
    """A message is one flat vector of floats, as many as `floats` says, or one a neighbour."""
    with jax.enable_x64(True):
        agents, keys = trial.agents(sampler), trial.keys()
        states = first_states(sampler, agents, trial.positions(sampler)[0], keys)
        message = sampler.message(jax.tree.map(lambda array: array[0], states))
    floats = sampler.floats(trial.problem.dim)
    slots = agents.slots if sampler.reads_each and message.ndim == 2 else None
    shape = (floats,) if slots is None else (slots, floats)
    is_right = message.shape == shape and message.dtype == np.float64
    require(
        is_right,
        f"`message` must be {shape} of float64, as the card says, got {_described(message)}.",
    )


def messages_that_are_not_counted_repeat_the_last_one(trial: Trial, sampler: Sampler) -> None:
    """Where `broadcasts` counts, it counts the first message, and all that differ from the last."""
    with jax.enable_x64(True):
        agents, keys = trial.agents(sampler), trial.keys()
        states = first_states(sampler, agents, trial.positions(sampler)[0], keys)
        message, count = _sent(sampler, states)
        if count is None:
            return
        require(sampler.card.masked_as is None, "silence cannot be masked: set `masked_as=None`.")
        is_count = jnp.issubdtype(count.dtype, jnp.integer) and not count.any()
        require(is_count, f"`broadcasts` must be a whole number, 0 in round 0, got {count}.")
        last = np.full_like(message, np.nan)  # before the first round nothing was sent
        for index in range(1, COUNTED_ROUNDS + 1):
            states = _next(trial, sampler, agents, states, index, keys)
            new, now = _sent(sampler, states)
            rises = now - count
            require(np.isin(rises, (0, 1)).all(), f"`broadcasts` rises by {rises} in a round.")
            differs = np.any(message != last, axis=1)
            require(
                not np.any(differs & (rises == 0)),
                f"the message of round {index} differs from the last one, and `broadcasts` does "
                "not count it: repeat the last message where an agent is silent.",
            )
            last, message, count = message, new, now


def _sent(sampler: Sampler, states: Any) -> tuple[Any, Any]:
    """The messages of all agents, and how often they were sent."""
    return jax.vmap(sampler.message)(states), jax.vmap(sampler.broadcasts)(states)


def compiled_rounds_can_be_replayed_eagerly_from_any_round(trial: Trial, sampler: Sampler) -> None:
    """The rounds of a cycle, compiled, and then one by one without `jit`, the last one first.

    A step that remembers anything outside its state, or that a compiler changes, differs.
    """
    count = sampler.cycle + 1
    with jax.enable_x64(True):
        agents, keys = trial.agents(sampler), trial.keys()
        states = [first_states(sampler, agents, trial.positions(sampler)[0], keys)]
        compiled = jax.jit(lambda states, index: _next(trial, sampler, agents, states, index, keys))
        for index in range(1, count + 1):
            states.append(compiled(states[-1], index))
        for index in range(count, 0, -1):
            again = _next(trial, sampler, agents, states[index - 1], index, keys)
            for one, other in zip(*map(jax.tree.leaves, (states[index], again)), strict=True):
                np.testing.assert_allclose(
                    *(one, other),
                    rtol=COMPILED_ROUNDING,
                    atol=COMPILED_ROUNDING_AT_ZERO,
                    err_msg=f"round {index} of {sampler}, compiled and eager",
                )


def _next(trial: Trial, sampler: Sampler, agents: Any, states: Any, index: Any, keys: Any) -> Any:
    return one_round(sampler, trial, agents, states, index, keys)[0]

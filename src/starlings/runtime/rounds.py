"""One round of all local agents and all chains: the methods of a sampler under `jax.vmap`.

States have the shape (chain, agent, ...), or, inside a loop over rounds, (agent, ..., chain), as
`axis` says. With the chains last, the messages of an agent in all chains are one row, which is
gathered, or sent to another process, as a whole.
"""

from __future__ import annotations

from typing import Any

import jax

from starlings.network.delivery import Wiring
from starlings.problem.agent import Agent
from starlings.random.addresses import Drawn, Round
from starlings.runtime._layout import entries_last_but_one, full_precision_products, in_order
from starlings.runtime.buckets import Agents, grouped
from starlings.samplers import Sampler

NOTHING = Drawn()
"""No noise drawn ahead: every agent draws its own."""


def prepared(sampler: Sampler, agents: Agent) -> Agents:
    """The agents by number of rows, after `Sampler.prepare` of each."""
    return grouped(_prepared(sampler, agents))


@jax.jit
def _prepared(sampler: Sampler, agents: Agent) -> Agent:
    with full_precision_products():
        return jax.vmap(sampler.prepare)(agents)


@jax.jit
def first_states(sampler: Sampler, agents: Agents, positions: jax.Array, keys: Any) -> Any:
    """The states of round 0 at positions (chain, agent, dim)."""

    def one_chain(positions, agent_keys, network_key):
        def one(agent, position, agent_key):
            return sampler.init(agent, position, Round(0, agent_key, network_key))

        return agents.each(one, positions, agent_keys)

    return jax.vmap(one_chain)(positions, *keys)


def one_round(
    sampler: Sampler,
    agents: Agents,
    wiring: Wiring,
    states: Any,
    index: Any,
    keys: Any,
    drawn: Drawn = NOTHING,
    axis: int = 0,
):
    """The states after round `index`, and the reports of the steps, with the chains on `axis`."""

    def one_chain(states, inboxes, agent_keys, network_key, shared, private):
        def one(agent, state, inbox, agent_key, private):
            round = Round(index, agent_key, network_key, Drawn(shared, private))
            return sampler.step(agent, state, inbox, round)

        return agents.each(one, states, inboxes, agent_keys, private)

    messages = jax.vmap(jax.vmap(sampler.message), in_axes=axis, out_axes=-1)(states)
    inboxes = wiring.inboxes(messages, index)
    every_chain: Any = jax.vmap(one_chain, in_axes=(axis, -1, 0, 0, -1, -1), out_axes=axis)
    return every_chain(states, inboxes, *keys, *_noise_by_agent(drawn, keys))


def draws_of(
    sampler: Sampler,
    agents: Agents,
    states: Any,
    upcoming: Any,
    keys: Any,
    drawn: Drawn = NOTHING,
    axis: int = 0,
) -> jax.Array:
    """What is recorded, (chain, agent, dim); `upcoming` is the number of the next round."""

    def one_chain(states, agent_keys, network_key, shared, private):
        def one(agent, state, agent_key, private):
            round = Round(upcoming, agent_key, network_key, Drawn(shared, private))
            return sampler.draw(agent, state, round)

        return agents.each(one, states, agent_keys, private)

    every_chain: Any = jax.vmap(one_chain, in_axes=(axis, 0, 0, -1, -1))
    return every_chain(states, *keys, *_noise_by_agent(drawn, keys))


def broadcasts_of(sampler: Sampler, states: Any, axis: int = 0) -> jax.Array | None:
    """How often agents have sent their messages, (chain, agent); None if that is not counted."""
    return jax.vmap(jax.vmap(sampler.broadcasts), in_axes=axis)(states)


def noise_ahead(sampler: Sampler, index: Any, keys: Any, like: Any) -> Drawn:
    """The noise of a whole round: shared, (dim, chain), and private, (dim, agent x chain).

    A loop that carries it from one round to the next draws every number once. Otherwise the
    compiler would make it a part of whatever uses it, and draw it again at every use: shared noise
    by every agent, private noise by every entry of a product. With agents and chains on the last
    axis, CPU instructions draw for several of them at once.
    """
    kinds = sampler.noises
    shared = jax.vmap(lambda key: Round(index, key, key).shared_noise(like), out_axes=-1)
    private = jax.vmap(lambda key: Round(index, key, key).private_noise(like), out_axes=-1)
    return Drawn(
        in_order(shared(keys[1])) if "shared" in kinds else None,
        in_order(private(keys[0].T.ravel())) if "private" in kinds else None,
    )


def _noise_by_agent(drawn: Drawn, keys: Any) -> tuple[Any, Any]:
    """Shared noise, (dim, chain), and private noise, (agent, dim, chain); None if not drawn."""
    if drawn.private is None:
        return drawn.shared, None
    by_chain = keys[0].shape[::-1]
    return drawn.shared, entries_last_but_one(drawn.private.reshape(-1, *by_chain))

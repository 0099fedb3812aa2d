"""Samplers of one's own, as somebody outside of the package writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import starlings as st
from starlings.theory import Law, Recursion, register_law


@st.pytree
@dataclass(frozen=True)
class Slow(st.Sampler):
    """Gossip and a Langevin step, without a law."""

    step_size: Any
    step_field = "step_size"
    card = st.Card("Slow", "position x_i", 1, "that of D-SGLD", "an example")

    def init(self, agent, position, round):
        return st.PositionState(position)

    def step(self, agent, state, inbox, round):
        noise = jnp.sqrt(2 * self.step_size) * round.private_noise(state.position)
        moved = inbox.mix - self.step_size * agent.gradient(state.position) + noise
        return st.PositionState(moved), st.no_info(moved)


def law_of_slow(s, sampler):
    """The exact law of `Slow`, and of its subclasses here."""
    eta = float(sampler.step_size)
    noise = np.sqrt(2 * eta) * s.private_noise
    return Law.constant(s.shape, Recursion(s.lift(s.W) - eta * s.H, eta * s.b, noise))


@st.pytree
@dataclass(frozen=True)
class Lawful(Slow):
    """The same with a law."""


@st.pytree
@dataclass(frozen=True)
class AroundHub(Slow):
    """The same, on a star around a hub."""

    needs_hub = True


@st.pytree
@dataclass(frozen=True)
class HubWithPrior(AroundHub):
    """The same, with the prior at the hub."""

    prior_at = "hub"


@st.pytree
@dataclass(frozen=True)
class AtOnePlace(Slow):
    """The same, with all rows at one place."""

    needs_one_place = True


@st.pytree
@dataclass(frozen=True)
class Refusing(Lawful):
    """The same, on no network with more than two agents."""

    def check(self, problem, network):
        if network.size > 2:
            raise ValueError("it takes two.")


@st.pytree
@dataclass(frozen=True)
class Demanding(Lawful):
    """The same, with a setting that nobody else knows."""

    taste: Any


for kind in (Lawful, AroundHub, HubWithPrior, AtOnePlace, Refusing, Demanding):
    register_law(kind, law_of_slow)

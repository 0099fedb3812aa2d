"""QLSD: Langevin steps of a hub with quantised gradients (Vono, Plassier, Durmus et al. 2022).

The hub has the iterate x, and each of the b sites estimates the gradient of its own potential f_i.
In each cycle a set A of sites quantises what it found and sends it, and with w ~ N(0, I)

    v_i = C(h_i(x) - m_i)                                       at the sites in A           (1)
    x'  = x - eta (sum_i m_i + (b / |A|) sum_{i in A} v_i) + sqrt(2 eta) w    at the hub    (2)
    m_i' = m_i + a v_i      for i in A, and so the sum of the m_i, which the hub keeps      (3)

A is any set of that size, drawn by all from shared randomness. C rounds every coordinate at random
to one of s levels on each side of zero, unbiased, with u_j uniform between 0 and 1:

    C(v)_j = |v| sign(v_j) floor(s |v_j| / |v| + u_j) / s                                   (4)
    E |C(v) - v|^2 <= omega |v|^2,      omega = min(d / s^2, sqrt(d) / s)                   (5)

With g_i the gradient of f_i, or its estimate from one minibatch at both points, the forms are

    plain                h_i(x) = g_i(x),             m_i = 0                QLSD           (6)
    fixed-point          h_i(x) = g_i(x) - g_i(y),    m_i = 0                QLSD*          (7)
    variance-reduced     h_i(x) = g_i(x) - g_i(z) + grad f_i(z),  with m_i   QLSD++         (8)

where y is the mode of the posterior, known from the start, and z the iterate of the last of every
l-th cycle, beginning with the first. m_i is zero at the start, and a is at most 1 / (1 + omega).

By (5) the noise of quantised gradients is relative to what is quantised. In (6) that does not
vanish at the mode if sites differ, and widens the draws. In (7) and (8) it does: there h_i - m_i
comes to what the gradient differs by from that at the mode, or from its own mean.
Without quantisation, with all sites and all rows, every form is the unadjusted Langevin algorithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.hub import HubSampler, HubState, num_sites
from starlings.samplers.local_steps import check_part

QLSD_FORMS = ("plain", "fixed-point", "variance-reduced")
"""What sites quantise, eqs. (6) to (8)."""
NORM_BITS = 32
"""The size of a number that is not quantised, in bits."""


class QLSDMemory(NamedTuple):
    """What sites remember; the hub keeps the sum of the first."""

    shift: Any
    """m_i, at the hub sum_i m_i."""
    anchor: Any
    """y or z."""
    slope: Any
    """grad f_i at that point."""


@pytree
@dataclass(frozen=True)
class QLSD(HubSampler):
    """The hub makes Langevin steps with what sites send of their gradients: few bits of each.

    Args:
        step_size: eta.
        form: "plain", "fixed-point" (QLSD*) or "variance-reduced" (QLSD++).
        levels: s, the number of levels above zero; None for gradients that are not quantised.
        participants: |A|, the number of sites that take part in a cycle; all of them if None.
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
        mode: y, as many numbers as parameters, in unconstrained coordinates; for "fixed-point".
        refresh: l, the cycles from one reference point z to the next.
        memory_rate: a; by default 1 / (1 + omega), the largest that is known to be stable. 0 for
            "variance-reduced" without memory.
    """

    step_size: Any
    form: str = choice(default="variance-reduced")
    levels: int | None = choice(default=16)
    participants: int | None = choice(default=None)
    batch_size: int | None = choice(default=None)
    mode: Any = None
    refresh: int = choice(default=100)
    memory_rate: Any = None

    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="QLSD",
        exchanged="position x; quantised gradient",
        floats_per_parameter=1,
        bias="first order in the step, and too wide by the noise of quantised gradients, most of "
        "all in the plain form where sites differ",
        reference="Vono, Plassier, Durmus, Dieuleveut, Moulines 2022",
        public_code="quantises a vector that is quantised already, and starts the memory at the "
        "parameters instead of zero",
        not_masked="masks need all bits of numbers, which quantised gradients do without",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_choice(QLSD_FORMS, form=self.form)
        for name in ("levels", "participants", "batch_size"):
            if getattr(self, name) is not None:
                check_count(1, **{name: getattr(self, name)})
        check_count(1, refresh=self.refresh)
        if (self.form == "fixed-point") != (self.mode is not None):
            raise ValueError(
                '`form` "fixed-point" needs `mode`, and no other form does: give the mode of the '
                "posterior, such as `starlings.theory.posterior_mode(problem)`."
            )
        if self.memory_rate is not None:
            check_part(memory_rate=self.memory_rate)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse problems without a hub, and numbers that do not fit them."""
        super().check(problem, network)
        sites = network.size - 1
        if self.participants is not None and self.participants > sites:
            raise ValueError(
                f"`participants` must be at most the number of sites, {sites}, got "
                f"{self.participants}."
            )
        if self.mode is not None and np.shape(self.mode) != (problem.dim,):
            raise ValueError(
                f"`mode` must have {problem.dim} numbers, got the shape {np.shape(self.mode)}."
            )

    def omega(self, dim: int) -> float:
        """omega of eq. (5): the largest relative variance of a quantised vector."""
        s = self.levels
        return 0.0 if s is None else min(dim / s**2, math.sqrt(dim) / s)

    def bits_per_message(self, dim: int) -> int:
        """Bits of a site's message: its norm, and a sign and a level for every coordinate.

        This is the plain code, in which all levels are equally long. Elias codes, which are short
        for low levels, need less where s is below sqrt(dim). The hub's message is not quantised
        and has 32 bits for every parameter, and so has that of a site without `levels`. Results
        count bytes of numbers, as if nothing were quantised.
        """
        if self.levels is None:
            return NORM_BITS * dim
        return NORM_BITS + dim * (1 + math.ceil(math.log2(self.levels + 1)))

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> QLSDMemory:
        """No shift yet, and the reference point with the site's gradient."""
        anchor = position if self.mode is None else jnp.asarray(self.mode, position.dtype)
        return QLSDMemory(jnp.zeros_like(position), anchor, agent.gradient(anchor))

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Eqs. (1) and (3) at a site."""
        for_batch, for_levels = jax.random.split(round.batch_key())
        memory = self._refreshed(agent, heard, state.memory, round)
        change = self._estimate(agent, memory, heard, for_batch) - memory.shift
        sent = change if self.levels is None else quantised(change, self.levels, for_levels)  # (1)
        sent = jnp.where(self._takes_part(agent, round), sent, jnp.zeros_like(sent))
        return HubState(heard, sent, self._shifted(memory, sent))

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eqs. (2) and (3) at the hub."""
        x, eta, memory = state.position, self.step_size, state.memory
        weight = 1 if self.participants is None else num_sites(agent) / self.participants
        slope = memory.shift + weight * total
        x = x - eta * slope + jnp.sqrt(2 * eta) * round.private_noise(x)  # (2)
        return HubState(x, x, self._shifted(memory, total))

    def _refreshed(
        self, agent: Agent, x: jax.Array, memory: QLSDMemory, round: Round
    ) -> QLSDMemory:
        """The memory with a new reference point z of eq. (8), if it is time for one."""
        if not self._has_points:
            return memory  # all rows make the two terms with z equal
        is_due = ((round.index - 1) // 2) % self.refresh == 0
        anchor, slope = jax.lax.cond(
            is_due, lambda: (x, agent.gradient(x)), lambda: (memory.anchor, memory.slope)
        )
        return QLSDMemory(memory.shift, anchor, slope)

    def _estimate(
        self, agent: Agent, memory: QLSDMemory, x: jax.Array, key: jax.Array
    ) -> jax.Array:
        """h_i(x), eqs. (6) to (8)."""
        if self.batch_size is None:
            slope = agent.gradient(x)
            return slope - memory.slope if self.form == "fixed-point" else slope  # (6), (7), (8)
        batch = jax.random.randint(key, (self.batch_size,), 0, agent.num_rows)
        slope = jax.grad(agent.batch_potential)(x, batch)
        if self.form == "plain":
            return slope  # (6)
        apart = slope - jax.grad(agent.batch_potential)(memory.anchor, batch)
        return apart if self.form == "fixed-point" else apart + memory.slope  # (7), (8)

    def _takes_part(self, agent: Agent, round: Round) -> Any:
        """Whether the site is in A, a uniformly drawn set (Floyd's algorithm)."""
        if self.participants is None:
            return True
        count, sites = self.participants, jnp.asarray(num_sites(agent), int)
        chosen = jnp.full(count, -1)
        for k, key in enumerate(jax.random.split(round.shared_key(), count)):
            last = sites - count + k
            drawn = jax.random.randint(key, (), 0, last + 1)
            is_new = jnp.all(chosen != drawn)
            chosen = chosen.at[k].set(jnp.where(is_new, drawn, last))
        return jnp.any(chosen == agent.index - 1)

    def _shifted(self, memory: QLSDMemory, change: jax.Array) -> QLSDMemory:
        """The memory after eq. (3)."""
        if self.form != "variance-reduced":
            return memory
        largest = 1 / (1 + self.omega(change.size))
        rate = largest if self.memory_rate is None else self.memory_rate
        return memory._replace(shift=memory.shift + rate * change)  # (3)

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """One message to and from every site in A in each cycle, (round, agent).

        A reference point goes to all sites. Other sites hear the iterate too, to have draws; that
        is not counted, since no step needs it. Where A is not all sites, messages of a site are
        the expected ones, since chains have different sets.
        """
        down, up = (np.asarray(rounds) + 1) // 2, np.asarray(rounds) // 2
        sites = network.size - 1
        if self.participants is None:
            return super().messages_until(rounds, network)
        points = (down - 1) // self.refresh + 1 if self._has_points else 0
        sent = np.multiply.outer(up, np.full(network.size, self.participants / sites))
        sent[..., network.centre] = self.participants * (down - points) + sites * points
        return sent

    @property
    def _has_points(self) -> bool:
        """Whether reference points of eq. (8) are used."""
        return self.form == "variance-reduced" and self.batch_size is not None

    def gradients_per_round(self, problem: Problem) -> float:
        """Half of what a site computes in a cycle: one gradient, or two of minibatches."""
        sites = problem.num_agents - 1
        share = 1.0 if self.participants is None else self.participants / sites
        if self.batch_size is None:
            return share / 2
        rows = self.batch_size * sites / float(problem.num_rows.sum())
        points = 1 / self.refresh if self._has_points else 0.0
        return (share * rows * (1 if self.form == "plain" else 2) + points) / 2


def quantised(vector: jax.Array, levels: int, key: jax.Array) -> jax.Array:
    """C(v), eq. (4); zero for the vector zero."""
    norm = jnp.linalg.norm(vector)
    parts = jnp.abs(vector) / jnp.where(norm > 0, norm, 1.0)
    uniform = jax.random.uniform(key, vector.shape, vector.dtype)
    return norm * jnp.sign(vector) * jnp.floor(levels * parts + uniform) / levels  # (4)

"""ELF: Langevin dynamics with compressed messages and error feedback (Karagulyan, Richtarik 2025).

With b sites and F_i = b f_i, so that the target is exp(-F) with F the mean of all F_i, a hub takes
Langevin steps with an estimate g of the gradient of F, which is the mean of memories g_i,

    x' = x - gamma g + sqrt(2 gamma) z,     z ~ N(0, I)                                     (1)

The point w at which sites have gradients, and their memories, follow by compressed differences,

    w'   = w + P(x' - w)                                                                    (2)
    g_i' = g_i + Q(grad F_i(w') - g_i),     g' = g + (1/b) sum_i Q(grad F_i(w') - g_i)      (3)

and what compression leaves out of one message is made up for in later ones. P and Q are

    D-ELF    "dual"             P is the identity: sites send less
    P-ELF    "primal"           Q is the identity: the hub sends less
    B-ELF    "bidirectional"    both are compressed

A compressed vector has k of its entries, the largest or random ones, and zeros elsewhere. Both are
contractions, E|Q(v) - v|^2 <= (1 - k/d) |v|^2; random entries are not scaled up. At the start w = x
and g_i = grad F_i(x), so that the first message of everybody is whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.hub import IN_ONE_PROCESS, HubSampler, HubState, num_sites

ELF_FORMS = ("dual", "primal", "bidirectional")
"""Who compresses messages: the sites, the hub, or both."""
ENTRIES = ("largest", "random")
"""Which entries of a vector are kept."""


class Feedback(NamedTuple):
    """What the hub and all sites remember."""

    point: Any
    """w."""
    slope: Any
    """g at the hub, g_i at a site."""


@pytree
@dataclass(frozen=True)
class ELF(HubSampler):
    """Langevin steps with sparse messages.

    Args:
        step_size: gamma, the step on the whole potential.
        form: "dual" (sites compress), "primal" (the hub does) or "bidirectional".
        keep: k, the number of entries of a compressed vector; all of them if None, which makes it
            unadjusted Langevin dynamics.
        entries: "largest", in absolute value, or "random".
    """

    step_size: Any
    form: str = choice(default="dual")
    keep: int | None = choice(default=None)
    entries: str = choice(default="largest")

    step_field = "step_size"
    card: ClassVar[Card] = Card(
        title="ELF",
        exchanged="change of the point, and of a gradient, of which some entries are zero",
        floats_per_parameter=1,
        bias="too wide, first order in the step, by more the fewer entries are kept",
        reference="Karagulyan, Richtarik 2025",
        not_masked=IN_ONE_PROCESS,
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_choice(ELF_FORMS, form=self.form)
        check_choice(ENTRIES, entries=self.entries)
        if self.keep is not None:
            check_count(1, keep=self.keep)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse other networks than a star, and more entries than there are parameters."""
        super().check(problem, network)
        if self.keep is not None and self.keep > problem.dim:
            raise ValueError(
                f"`keep` is {self.keep}, and there are {problem.dim} parameters: take less, or "
                "leave it out."
            )

    def sparse_floats(self, dim: int) -> tuple[int, int]:
        """Numbers in a message of the hub and of a site, where entries that are zero are not sent.

        Each entry that is kept then needs its place too. Messages here have all entries, and are
        counted so in results.
        """
        less = dim if self.keep is None else min(dim, 2 * self.keep)
        return (dim if self.form == "dual" else less), (dim if self.form == "primal" else less)

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> Feedback:
        """Zeros, to which whole messages are added first."""
        nothing = jnp.zeros_like(position)
        return Feedback(nothing, nothing)

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Eq. (2) with the hub's message, then the site's part of (3)."""
        memory = state.memory
        point = memory.point + heard  # (2)
        change = num_sites(agent) * agent.gradient(point) - memory.slope
        kept = self._compressed(change, self.form != "primal", round)
        sent = jnp.where(round.index == 1, change, kept)
        return HubState(point, sent, Feedback(point, memory.slope + sent))  # (3)

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eq. (3) with the messages of all sites, then (1), and the hub's part of (2)."""
        gamma, memory, x = self.step_size, state.memory, state.position
        known = jnp.where(round.index == 2, x, memory.point)
        slope = memory.slope + total / num_sites(agent)  # (3)
        x = x - gamma * slope + jnp.sqrt(2 * gamma) * round.private_noise(x)  # (1)
        sent = self._compressed(x - known, self.form != "dual", round)
        return HubState(x, sent, Feedback(known + sent, slope))  # (2)

    def _compressed(self, vector: jax.Array, compresses: bool, round: Round) -> jax.Array:
        """P or Q of a vector."""
        if not compresses or self.keep is None:
            return vector
        if self.entries == "largest":
            places = jax.lax.top_k(jnp.abs(vector), self.keep)[1]
        else:
            places = jax.random.permutation(round.batch_key(), vector.size)[: self.keep]
        return jnp.zeros_like(vector).at[places].set(vector[places])

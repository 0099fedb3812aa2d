"""DP-SGLD: D-SGLD whose messages are differentially private (Wang, Fienberg and Smola 2015).

Agent i has the rows D_i, and C is the norm to which the gradient of every row is clipped:

    c_r(x) = v_r(x) min(1, C / |v_r(x)|),       v_r(x) = grad log p(r | x)                  (1)
    x_i' = sum_j W_ij x_j + eta (sum_{r in D_i} c_r(x_i) + (1/N) grad log p(x_i)) + s w_i   (2)
    s^2 = max(2 eta, (eta sigma C)^2),          w_i ~ N(0, I)                               (3)

with Metropolis weights W and step eta. The noise s w_i is all the noise there is: for the posterior
it is the noise of a Langevin step, of variance 2 eta, and for a neighbour it hides the rows. From
x_i' a neighbour can learn the sum in eq. (2) with noise of standard deviation s / eta, of which one
row more or less changes the norm by C at most. This is the Gaussian mechanism with the multiplier

    m = s / (eta C) = max(sigma, sqrt(2 / eta) / C)                                         (4)

and K chains of R rounds are K R of them, on the same rows. Where sigma is the smaller number in
eq. (4), privacy costs no exactness: the Langevin noise suffices. Otherwise the noise has

    T = s^2 / (2 eta) = max(1, eta (sigma C)^2 / 2)                                         (5)

as its temperature: draws have a density with the power 1 / T of the posterior's, so that their
standard deviations are larger by sqrt(T). To this comes the bias of D-SGLD, first order in the
step, and that of clipping: rows with |v_r| > C pull less than the model says.

A row whose gradient is not finite is left out of the sum, and changes it by less than C too.

The noise must be unknown to all others. It does not follow from the seed, which all sites know, but
from a secret that every process draws for itself when a run starts, see `random.secret_keys`. The
same seed therefore gives other draws in every run, unless `secret` is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import PrivacyError, check_choice, check_positive
from starlings.network import Inbox, Network
from starlings.privacy.accounting import check_delta, epsilon
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.random.secret_keys import SECRET_BYTES, secret_keys
from starlings.samplers.base import Card, Info, PositionState, Sampler, no_info
from starlings.samplers.units import Units
from starlings.solvers.pooled.mode import local_mode

ADJACENCY = "one row more or less at one site"
"""The data sets between which a neighbour cannot tell, in words."""


@pytree
@dataclass(frozen=True)
class DPSGLD(Sampler):
    """Gossip, then a Langevin step with clipped gradients and noise that only its site knows.

    All rows are used in every round: there are no minibatches.

    Args:
        step_size: eta.
        clip: C, the largest norm of the gradient of one row, in unconstrained coordinates.
        noise_multiplier: sigma, the least standard deviation of the noise in the sum of gradients,
            in units of `clip`; eq. (4) may give more.
        delta: the delta at which a result says epsilon, far below one over the number of rows.
        noise: "private"; there is no other.
        secret: 32 random bytes from which the noise is drawn, for tests that have to repeat a run.
            Whoever has them can subtract the noise. A second run with the same secret, seed and
            network, but other rows, has the same noise: the difference shows the rows.
    """

    step_size: Any
    clip: Any
    noise_multiplier: Any
    delta: Any = 1e-5
    noise: str = choice(default="private")
    secret: bytes | None = choice(default=None, repr=False, compare=False)

    step_field = "step_size"
    is_private = True
    noises = ("private",)
    card: ClassVar[Card] = Card(
        title="DP-SGLD",
        exchanged="position x_i, differentially private",
        floats_per_parameter=1,
        bias="clipped rows; over-dispersed by the noise of privacy; that of D-SGLD",
        reference="Wang, Fienberg, Smola 2015",
        masked_as="mix",
    )

    def __post_init__(self) -> None:
        positive = ("step_size", "clip", "noise_multiplier")
        check_positive(**{name: getattr(self, name) for name in positive})
        check_delta(self.delta)
        if self.noise == "coherent":
            raise PrivacyError(
                "`noise` must be 'private', got 'coherent': noise that all agents draw from one "
                "seed hides nothing, since every neighbour can draw it too and subtract it."
            )
        check_choice(("private",), noise=self.noise)
        if self.secret is not None and len(self.secret) != SECRET_BYTES:
            raise ValueError(
                f"`secret` must be {SECRET_BYTES} bytes, got {len(self.secret)}; leave it out, or "
                f"take `secrets.token_bytes({SECRET_BYTES})`."
            )

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[DPSGLD]:
        """Steps g / M, a clip that no row reaches at the mode, and as much privacy as is free.

        Free are multipliers up to sqrt(2 / eta) / C, with which eq. (5) is 1. The clip is found
        with all rows, as only a comparison can: it is not differentially private itself.
        """
        clip = fixed["clip"] if "clip" in fixed else largest_pull(units.problem)
        check_positive(clip=clip)

        def one(eta: float) -> DPSGLD:
            own: dict[str, Any] = {"noise_multiplier": math.sqrt(2 / eta) / clip}
            own |= {"step_size": eta, "clip": clip}
            return cls(**(own | fixed))

        return [one(float(eta)) for eta in units.steps]

    def settings(self) -> dict[str, Any]:
        """The hyper-parameters by name, which are saved with the draws, without the secret."""
        return {name: value for name, value in super().settings().items() if name != "secret"}

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse potentials to which more was added than clipped rows and the prior."""
        frame = problem.frame
        if frame is not None and (frame.linear_tilt.any() or frame.quadratic_tilt.any()):
            raise PrivacyError(
                "DP-SGLD cannot run on a tuned problem: its tilts are gradients and Hessians of "
                "the sites, which are not clipped. Give the original problem."
            )

    def private_keys(self, keys: jax.Array) -> jax.Array:
        """Keys that follow from a secret of this process."""
        return secret_keys(keys, self.secret)

    def attributes(self, chains: int, rounds: int) -> dict[str, Any]:
        """Epsilon of all rounds of all chains, and what it refers to."""
        eta, clip, sigma, delta = map(
            float, (self.step_size, self.clip, self.noise_multiplier, self.delta)
        )
        multiplier, releases = max(sigma, math.sqrt(2 / eta) / clip), chains * rounds  # (4)
        return {
            "privacy_epsilon": epsilon(releases, multiplier, delta),
            "privacy_delta": delta,
            "privacy_adjacency": ADJACENCY,
            "privacy_noise_multiplier": multiplier,
            "privacy_releases": releases,
            "temperature": max(1.0, eta * (sigma * clip) ** 2 / 2),  # (5)
        }

    @property
    def kick(self) -> Any:
        """s, the standard deviation of the noise in a step, eq. (3)."""
        eta, least = self.step_size, self.noise_multiplier * self.clip
        return jnp.maximum(jnp.sqrt(2 * eta), eta * least)  # (3)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (2)."""
        x, eta = state.position, self.step_size
        pull = clipped_sum(agent, x, self.clip) - jax.grad(agent.prior_potential)(x)
        position = inbox.mix + eta * pull + self.kick * round.private_noise(x)  # (2)
        return PositionState(position), no_info(x)


def clipped_sum(agent: Agent, x: jax.Array, clip: Any) -> jax.Array:
    """The sum of the clipped gradients of an agent's rows, eq. (1), (dim,)."""
    slopes = row_slopes(agent, x)
    norms = jnp.linalg.norm(slopes, axis=1)
    is_finite = jnp.isfinite(norms)
    factors = agent.row_weights * clip / jnp.maximum(norms, clip)
    return jnp.where(is_finite, factors, 0) @ jnp.where(is_finite[:, None], slopes, 0)  # (1)


def row_slopes(agent: Agent, x: jax.Array) -> jax.Array:
    """v_r of every row of an agent, eq. (1), (row, dim)."""

    def log_likelihood(x: jax.Array, row: Any) -> jax.Array:
        single = jax.tree.map(lambda column: column[None], row)  # sees no other row
        return agent.row_log_likelihoods(x, single)[0]

    return jax.vmap(jax.grad(log_likelihood), in_axes=(None, 0))(x, agent.rows)


def largest_pull(problem: Problem) -> float:
    """The largest |v_r| of any row at the mode of all of them: at this clip nothing is clipped."""
    with jax.enable_x64(True):
        mode = jnp.asarray(local_mode(problem).point)

        def norms(agent: Agent) -> jax.Array:
            lengths = jnp.linalg.norm(row_slopes(agent, mode), axis=1)
            return jnp.where(agent.row_weights > 0, lengths, 0)

        return float(jax.jit(jax.vmap(norms))(problem.agents()).max())

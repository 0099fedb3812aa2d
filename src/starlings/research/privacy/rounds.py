"""The gradients of a site from the messages of a sampler, by solving its equations for them.

A neighbour of site i has i's messages x_i, the sum of all that i receives (its own message, if i
has no other neighbour), and the seed, from which all noise of all agents is drawn: shared noise,
and what is called private noise too (see `starlings.random.addresses`), except that of DP-SGLD.
With d_i, rho and the noise n_i, the optimality condition of the proximal step, eq. (2) of
`starlings.samplers.dadmms`,

    grad f_i(x_i') = rho (d_i x_i + sum_j x_j) - p_i - n_i - 2 rho d_i x_i'                 (1)

has nothing on its right that the neighbour lacks: p_i adds up what was received before. So have,
for the gradient at x_i itself,

    D-SGLD     grad = (sum_j W_ij x_j + sqrt(2 eta) u_i - x_i') / eta                       (2)
    D-SGHMC    grad = ((1 - eta gamma) v_i + sqrt(2 gamma eta) u_i - v_i') / eta,           (3)
               v_i' = (x_i' - sum_j W_ij x_j) / eta
    D-ULA      grad = (x_i - zeta (d_i x_i - sum_j x_j) + sqrt(2 alpha N) u_i - x_i')       (4)
                      / (alpha N)
    GEXTRA     grad = (sum_j W_ij x_j + sqrt(2 eta) u_i + m_i - x_i') / eta,                (5)
               m_i = h sum over earlier rounds of (sum_j W_ij x_j - x_i)
    DIGing     grad = y_i at the start, then grad' = grad + y_i' - sum_j W_ij y_j           (6)

DE-PSGLD is (2) with the pull of the penalty, which is known, taken off. Event-triggered D-ULA is
(4) for two rounds in a row in which the site has sent its position.

Gibbs over networks is (1) without duals; its private noise is taken for zero, since what the step
makes of it depends on the rows.

Decentralised MAHMC sends tracked slopes s as DIGing does, with the sign of grad turned, and only in
the rounds in which they are not mixed yet; positions b are their mixes.

SPLA sends a token with a point y, which comes to a site and leaves it as y', without noise:

    grad f_i(y') = (y - y') / gamma                                                         (7)

For peer-to-peer learning see `beliefs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.problem.penalties import envelope_pull
from starlings.random.addresses import Round, chain_keys
from starlings.samplers import (
    CADMM,
    DADMMS,
    DEPSGLD,
    DPSGLD,
    DSGHMC,
    DSGLD,
    DULA,
    GEXTRA,
    MAHMC,
    SPLA,
    DIGing,
    EventDULA,
    MidpointADMMS,
    NetworkGibbs,
)
from starlings.samplers.dadmms import coherent_noise
from starlings.samplers.langevin import LangevinSampler


class Known(NamedTuple):
    """What all sites know of one site."""

    number: int
    """Its number, counted from 0."""
    degree: int
    """d_i."""
    total_degree: int
    """sum_j d_j."""
    share: float
    """Its part of the posterior, see `Network.shares`."""
    num_agents: int
    """N."""
    neighbours: np.ndarray
    """The numbers of its neighbours."""

    @classmethod
    def of(cls, network: Network, number: int) -> Known:
        """What the graph tells of a site."""
        degrees, share = network.degrees, float(network.shares[number])
        near = network.adjacency[[number]].indices
        return cls(number, int(degrees[number]), int(degrees.sum()), share, network.size, near)


class Heard(NamedTuple):
    """What was heard in rounds 0, 1, ...: messages (round, floats)."""

    own: Any
    """Those of the site."""
    received: Any
    """The sums of all that the site received."""
    mixed: Any
    """The same with Metropolis weights, and with the site's own message."""

    @classmethod
    def of(cls, messages: np.ndarray, network: Network, number: int) -> Heard:
        """What all neighbours of a site hear, from messages (round, agent, floats).

        It needs the messages of the site and of its neighbours only.
        """
        links, weights = (a.toarray()[number] for a in (network.adjacency, network.mixing))
        received, mixed = (np.einsum("j,rjf->rf", w, messages) for w in (links, weights))
        return cls(messages[:, number], received, mixed)


class Slopes(NamedTuple):
    """Gradients that a neighbour has computed."""

    points: Any
    """Where, (round, dim)."""
    gradients: Any
    """(round, dim), the prior's part included."""


def noise_of(sampler: Any, known: Known, seed: int, rounds: int, dim: int) -> np.ndarray:
    """The noise n_i or u_i of a site in rounds 1, 2, ..., (round, dim), from the seed alone.

    What eqs. (7) and (8) of `starlings.samplers.dadmms` add depends on the rows, and is left out.
    """
    return by_round(partial(_noise, sampler, known), known, seed, rounds, dim)


def by_round(
    draw: Callable[[Round, jax.Array], jax.Array], known: Known, seed: int, rounds: int, dim: int
) -> np.ndarray:
    """What a site draws at random in rounds 1, 2, ..., drawn again by somebody else.

    Args:
        draw: the random numbers of a round, from the round and an array (dim,) of the shape.
        known: the site.
        seed: of the run.
        rounds: the number of rounds.
        dim: parameters of the model.
    """
    with jax.enable_x64(True):
        private, shared = chain_keys(seed, 1, [known.number])
        like = jnp.zeros(dim)

        def of_round(index: Any) -> jax.Array:
            return draw(Round(index, private[0, 0], shared[0]), like)

        return np.asarray(jax.vmap(of_round)(jnp.arange(1, rounds + 1)))


def _noise(sampler: Any, known: Any, round: Round, like: jax.Array) -> jax.Array:
    """The noise of one round."""
    if isinstance(sampler, (CADMM, MAHMC, SPLA)):  # messages of the last two say all without it
        return jnp.zeros_like(like)
    if isinstance(sampler, NetworkGibbs):
        return -jnp.sqrt(sampler.rho) * round.edge_noise(known.number, known.neighbours, like)
    if isinstance(sampler, LangevinSampler):
        return sampler.unit_noise(known, round, like)
    if isinstance(sampler, MidpointADMMS):
        return coherent_noise(sampler.rho, known, round, like) / jnp.sqrt(2.0)
    if sampler.noise == "paper":
        return jnp.sqrt(2.0) * known.degree * round.private_noise(like)
    if sampler.noise == "private":
        return 2 * jnp.sqrt(sampler.rho * known.degree) * round.private_noise(like)
    return coherent_noise(sampler.rho, known, round, like)


def slopes(sampler: Any, heard: Heard, known: Known, noise: Any) -> Slopes:
    """The gradients of a site from what was heard, with the noise (round, dim) of its rounds.

    For D-ADMMS with curvature noise, these are gradients plus that noise.
    """
    if isinstance(sampler, (DADMMS, CADMM)):
        return of_proximal_steps(sampler.rho, known.degree, heard, heard, noise)
    if isinstance(sampler, MidpointADMMS):
        position, midpoint = (Heard(*parts) for parts in zip(*map(_halves, heard), strict=True))
        return of_proximal_steps(sampler.rho, known.degree, position, midpoint, noise)
    if isinstance(sampler, DSGHMC):
        return _of_sghmc(sampler, heard, noise)
    if isinstance(sampler, EventDULA):
        return _of_event_ula(sampler, heard, known, noise)
    if isinstance(sampler, DULA):
        return _of_ula(sampler, heard, known, noise)
    if isinstance(sampler, GEXTRA):
        return _of_gextra(sampler, heard, noise)
    if isinstance(sampler, DEPSGLD):
        return _of_depsgld(sampler, heard, known, noise)
    if isinstance(sampler, DIGing):
        return _of_diging(heard)
    if isinstance(sampler, NetworkGibbs):
        return _of_gibbs(sampler.rho, known.degree, heard, noise)
    if isinstance(sampler, MAHMC):
        return _of_mahmc(sampler, heard)
    if isinstance(sampler, SPLA):
        return _of_spla(sampler, heard)
    return _of_sgld(sampler, heard, noise)


def _halves(messages: np.ndarray) -> list[np.ndarray]:
    return np.split(messages, 2, axis=1)


def of_proximal_steps(
    rho: Any, degree: int, position: Heard, solution: Heard, noise: Any
) -> Slopes:
    """Eq. (1), which is linear in what was heard: sums of sites may be given as one site.

    Args:
        rho: the penalty.
        degree: d_i.
        position: what was heard of positions.
        solution: what was heard of solutions of proximal steps: the same, except for midpoints.
        noise: n_i of every round, (round, dim).
    """
    apart = rho * (degree * solution.own - solution.received)[:-1]
    dual = (apart * (np.arange(len(apart)) > 0)[:, None]).cumsum(axis=0)  # 0 in the first round
    around = rho * (degree * position.own + position.received)[:-1]
    points = solution.own[1:]
    return Slopes(points, around - dual - noise - 2 * rho * degree * points)  # (1)


def _of_sgld(sampler: DSGLD | DPSGLD | GEXTRA | DEPSGLD, heard: Heard, noise: Any) -> Slopes:
    eta = sampler.step_size
    return Slopes(
        heard.own[:-1],
        (heard.mixed[:-1] + np.sqrt(2 * eta) * noise - heard.own[1:]) / eta,  # (2)
    )


def _of_sghmc(sampler: DSGHMC, heard: Heard, noise: Any) -> Slopes:
    """Eq. (3), from the second round on: the first velocity is known after the first one."""
    eta, gamma = sampler.step_size, sampler.friction
    velocity = (heard.own[1:] - heard.mixed[:-1]) / eta
    kick = np.sqrt(2 * gamma * eta) * noise[1:]
    return Slopes(
        heard.own[1:-1],
        ((1 - eta * gamma) * velocity[:-1] + kick - velocity[1:]) / eta,  # (3)
    )


def _of_ula(sampler: DULA | EventDULA, heard: Heard, known: Known, noise: Any) -> Slopes:
    x, n = heard.own[:-1], known.num_agents
    alpha, zeta = (
        np.broadcast_to(step, len(x))[:, None] for step in sampler.steps_at(np.arange(len(x)))
    )
    apart = known.degree * x - heard.received[:-1]
    kick = np.sqrt(2 * alpha * n) * noise
    return Slopes(x, (x - zeta * apart + kick - heard.own[1:]) / (alpha * n))  # (4)


def _of_event_ula(sampler: EventDULA, heard: Heard, known: Known, noise: Any) -> Slopes:
    """Eq. (4) where x_i and x_i' were sent: elsewhere a message is that of the round before."""
    is_sent = np.append(True, np.any(heard.own[1:] != heard.own[:-1], axis=1))
    found, both = _of_ula(sampler, heard, known, noise), is_sent[:-1] & is_sent[1:]
    return Slopes(found.points[both], found.gradients[both])


def _of_depsgld(sampler: DEPSGLD, heard: Heard, known: Known, noise: Any) -> Slopes:
    """Eq. (2), less the pull of the penalty."""
    plain = _of_sgld(sampler, heard, noise)
    with jax.enable_x64(True):
        one = partial(envelope_pull, sampler.penalty, smoothing=sampler.smoothing)
        pull = np.asarray(jax.vmap(one)(jnp.asarray(plain.points)))
    return plain._replace(gradients=plain.gradients - pull / known.num_agents)


def _of_gextra(sampler: GEXTRA, heard: Heard, noise: Any) -> Slopes:
    """Eq. (5)."""
    changes = sampler.memory * (heard.mixed - heard.own)
    memory = np.concatenate([np.zeros_like(changes[:1]), changes.cumsum(axis=0)[:-2]])
    plain = _of_sgld(sampler, heard, noise)
    return plain._replace(gradients=plain.gradients + memory / sampler.step_size)  # (5)


def _of_diging(heard: Heard) -> Slopes:
    """Eq. (6)."""
    points, trackers = _halves(heard.own)
    _, mixed = _halves(heard.mixed)
    changes = np.concatenate([trackers[:1], trackers[1:] - mixed[:-1]])
    return Slopes(points, changes.cumsum(axis=0))  # (6)


def _of_gibbs(rho: Any, degree: int, heard: Heard, noise: Any) -> Slopes:
    """Eq. (1) with p_i = 0."""
    around = rho * (degree * heard.own + heard.received)[:-1]
    points = heard.own[1:]
    return Slopes(points, around - noise - 2 * rho * degree * points)  # (1)


def _of_mahmc(sampler: MAHMC, heard: Heard) -> Slopes:
    """Eq. (6) of every cycle but the first, whose base all others may not know."""
    cycle, tracking = sampler.cycle, sampler.tracking_rounds
    sent, tracked, bases = (
        part[first::cycle, :-1]
        for part, first in ((heard.own, 0), (heard.mixed, tracking - 1), (heard.mixed, cycle - 1))
    )
    changes = np.concatenate([sent[:1], sent[1:] - tracked[: len(sent) - 1]])
    gradients = -changes.cumsum(axis=0)[1:]
    return Slopes(bases[: len(gradients)], gradients[: len(bases)])  # (6)


def _of_spla(sampler: SPLA, heard: Heard) -> Slopes:
    """Eq. (7) for a site to which the token comes once in a tour."""
    own, received = (_halves(part)[0] for part in (heard.own, heard.received))
    first = int(np.flatnonzero(own.any(axis=1))[0])
    points, before = own[first :: sampler.hops], received[first - 1 :: sampler.hops]
    return Slopes(points, (before[: len(points)] - points) / sampler.step_size)  # (7)

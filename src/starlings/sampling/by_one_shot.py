"""Runs in one shot: every agent draws by itself, and one sum combines the draws of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from starlings.diagnostics.statistics import convergence
from starlings.errors import PrivacyError, SubposteriorError
from starlings.methods import one_shot
from starlings.methods.cards import OneShot, SumTraffic
from starlings.methods.one_shot import BY_ALL_DRAWS, Gaussian, Randomness
from starlings.problem.agent import Agent
from starlings.problem.local import refuse_local
from starlings.problem.shards import padded_length
from starlings.random.addresses import shared_uniforms
from starlings.results.gather import Run
from starlings.runtime.buckets import cut
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.recording import Schedule
from starlings.runtime.unreliable import check_links
from starlings.sampling.on_sums import Outcome, SumsRun
from starlings.sampling.request import Request
from starlings.solvers.proximal import proximal_point
from starlings.system.extras import check_installed
from starlings.system.progress import Progress

WEIGHTED, MOMENTS = "draws weighted by precision", "mean and precision of draws"
SINGLE = "draws of the site alone"
"""What leaves a site, by the combination that needs it."""
RIDGE = 1e-12
"""Curvature that is added to an agent's potential where its mode is looked for, in units of one
over the squares of unconstrained coordinates."""
LEAST_CURVATURE = 1e-10
"""Curvature of an agent's potential at its mode below which it determines no posterior."""
LARGEST_R_HAT = 1.05
"""The largest R-hat of the chains of one agent."""
NO_POSTERIOR = "its rows determine no posterior by themselves"
MOST_NUMBERS = 2**28
"""Numbers that agents with a copy of everybody's draws may hold in one process, 2 GiB."""


@dataclass(frozen=True)
class InOneShot:
    """A combination of the draws of agents by themselves, see `starlings.methods.one_shot`."""

    method: str

    @property
    def title(self) -> str:
        """What is said before the run."""
        return f"{self.method} combination of the draws of each site"

    def identity(self) -> dict[str, str]:
        """The name of the method."""
        return {"method": self.method}

    def check(self, request: Request) -> None:
        """Refuse lengths in rounds, starts, and what cannot be masked or held."""
        refuse_local(request.problem, f"method={self.method!r}")
        check_links(request.network)
        request.schedule.refuse_rounds(self.method)
        if request.start is not None:
            raise ValueError(
                f"method={self.method!r} takes no `initial`: each site starts at its own mode. "
                "Leave it out."
            )
        if self.method in BY_ALL_DRAWS:
            self._check_all_draws(request)

    def _check_all_draws(self, request: Request) -> None:
        network = request.network
        if network.secrecy is not None:
            raise PrivacyError(
                f"method={self.method!r} cannot be masked: every site needs the draws of each "
                "other one. Take method='consensus' or method='parametric', which need sums."
            )
        numbers = len(network.local) * network.size * request.wanted * request.problem.dim
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"method={self.method!r} gives all {network.size} sites the draws of each, "
                f"{8 * numbers / 2**30:.1f} GiB, and {8 * MOST_NUMBERS / 2**30:.0f} GiB are the "
                "limit. Ask for fewer `draws`, or take method='consensus'."
            )

    def num_candidates(self, request: Request) -> int:
        """It has none."""
        return 0

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Make the draws, unless a resumed run has them all; more draws are all new ones."""
        with jax.enable_x64(True):
            run = SumsRun.begun(request, checkpoint, progress)
            if checkpoint is not None and 0 < run.recording.count < request.schedule.draws:
                checkpoint.remove_states()
                run = SumsRun.begun(request, checkpoint, progress)
            if run.recording.count < request.schedule.draws:
                positions = self._combined(run, _own_draws(run))
                run.record(np.swapaxes(positions, 0, 1))
                run.save()
        return run.finished(self._outcome(run))

    def _combined(self, run: SumsRun, own: np.ndarray) -> np.ndarray:
        """The draws of all sites as one, (chain, draw, dim), from those of the local ones."""
        dim, gossip = own.shape[-1], run.gossip
        if self.method == "consensus":
            total = gossip.sum(np.array([one_shot.weighted(one) for one in own]), WEIGHTED)
            return one_shot.consensus(total[0], own.shape[1:])
        standard = _uniforms(run, own.shape[1], own.shape[2] * dim)
        if self.method == "parametric":
            total = gossip.sum(np.array([Gaussian.of(one).sums for one in own]), MOMENTS)
            return Gaussian.product(total[0], dim).at(ndtri(standard).reshape(own.shape[1:]))
        every = _all_draws(run, own)
        chains = [_randomness(run, every, chain) for chain in range(own.shape[1])]
        is_corrected = self.method == "semiparametric"
        return np.array([one_shot.mixture(every, chain, is_corrected) for chain in chains])

    def _outcome(self, run: SumsRun) -> Outcome:
        request, ledger = run.request, run.gossip.ledger
        return Outcome(
            self.method,
            OneShot(self.method, request.wanted),
            Schedule(request.schedule.draws),
            request.usual_chains,
            SumTraffic.of(run.gossip, ledger.messages, ledger.floats),
            {},
            {},
        )


def _own_draws(run: SumsRun) -> np.ndarray:
    """Draws of the local agents from their own potentials, (agent, chain, draw, dim)."""
    check_installed("blackjax", purpose="NUTS at each site", extra="nuts")
    from starlings.methods.nuts import nuts

    request, dim = run.request, run.problem.dim
    chains, draws = request.usual_chains, request.schedule.draws
    agents = _one_by_one(run.problem.agents(request.network))
    modes = [_mode(agent, dim) for agent in agents]
    _refuse(run, ["" if mode.is_proper else NO_POSTERIOR for mode in modes])
    found = np.empty((len(agents), chains, draws, dim))
    with run.progress.progress_bar("NUTS at each site by itself", len(agents), "sites") as report:
        for number, (agent, mode) in enumerate(zip(agents, modes, strict=True)):
            found[number] = nuts(agent, dim, draws, chains, request.seed, start=mode.point[None])[0]
            if report is not None:
                report(number + 1)
    _refuse(run, [_disagreement(own) for own in found])
    return found


def _one_by_one(agents: Agent) -> list[Agent]:
    """Stacks of one agent, padded alike wherever they run, so that their draws are the same."""
    counts = np.asarray(agents.num_rows)
    return [cut(agents, np.array([i]), padded_length(int(n))) for i, n in enumerate(counts)]


def _disagreement(drawn: np.ndarray) -> str:
    """What is wrong with draws (chain, draw, dim) of one agent, in words; nothing if they agree."""
    r_hat = float(convergence(drawn).rhat.max()) if np.isfinite(drawn).all() else np.nan
    is_fine = r_hat <= LARGEST_R_HAT
    return "" if is_fine else f"its chains have not found the same law, R-hat {r_hat:.2f}"


class _Mode(NamedTuple):
    """Where an agent's potential is least, and its least curvature there; NaN if not found."""

    point: np.ndarray
    curvature: float

    @property
    def is_proper(self) -> bool:
        """Whether the agent has a posterior of its own, as far as its mode shows."""
        return self.curvature > LEAST_CURVATURE


@jax.jit
def _mode_and_curvature(agent: Agent, origin: jax.Array) -> tuple[jax.Array, jax.Array]:
    one = jax.tree.map(lambda array: array[0], agent)
    mode = proximal_point(one, jnp.asarray(RIDGE), linear=origin, start=origin).point
    return mode, jnp.linalg.eigvalsh(one.hessian(mode))[0]


def _mode(agent: Agent, dim: int) -> _Mode:
    point, least = _mode_and_curvature(agent, jnp.zeros(dim))
    return _Mode(np.asarray(point), float(least))


def _refuse(run: SumsRun, faults: list[str]) -> None:
    """Raise at all processes if the draws of some site are of no use; no text is no fault."""
    network = run.request.network
    named = zip(network.local_names, faults, strict=True)
    fault = next((f"site {name!r}: {text}" for name, text in named if text), None)
    if fault is not None and network.secrecy is not None:
        fault = "some site: its own draws cannot be used (masked runs do not say which site)"
    found: Any = network.communicator.first(fault)
    if found is not None:
        raise SubposteriorError(
            f"{found}. One-shot combinations need a posterior at every site alone: give a proper "
            "prior or merge small sites, or take method='weights' or method='hmc'."
        )


def _all_draws(run: SumsRun, own: np.ndarray) -> np.ndarray:
    """The draws of all agents, (agent, draws of all chains, dim): a sum of one place for each."""
    local, size = run.request.network.local, run.request.network.size
    places = np.zeros((len(local), size, own[0].size))
    places[np.arange(len(local)), local] = own.reshape(len(local), -1)
    return run.gossip.sum(places, SINGLE)[0].reshape(size, -1, own.shape[-1])


def _uniforms(run: SumsRun, chains: int, count: int) -> np.ndarray:
    """Uniform numbers that all sites draw alike, (chain, count)."""
    found = shared_uniforms(run.request.seed, "combination", chains * count)
    return found.reshape(chains, count)


def _randomness(run: SumsRun, every: np.ndarray, chain: int) -> Randomness:
    """The random numbers of one chain of a mixture."""
    sites, candidates, dim = every.shape
    draws, chains = run.request.schedule.draws, run.request.usual_chains
    numbers = _uniforms(run, chains, draws * (2 * sites + dim))[chain].reshape(draws, -1)
    proposed, chances, standard = np.split(numbers, [sites, 2 * sites], axis=1)
    return Randomness((candidates * proposed).astype(int), np.log(chances), ndtri(standard))

"""Runs by lock-step Hamiltonian Monte Carlo."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from starlings.diagnostics.statistics import least_effective_draws
from starlings.errors import TuningError
from starlings.methods import lockstep
from starlings.methods.cards import LockStepHMC, SumTraffic
from starlings.methods.lockstep import ChainState, LockStep, superchain_labels
from starlings.methods.warmup import first_settings
from starlings.random.addresses import shared_uniforms
from starlings.results.gather import Run
from starlings.runtime.recording import Schedule
from starlings.sampling.by_quadrature import integrals_at, sums_of
from starlings.sampling.on_sums import Outcome, SumsRun
from starlings.sampling.starts import mean_position
from starlings.sampling.undefined import in_words, undefined_sites
from starlings.system.interrupts import DeferredInterrupt

ANYWHERE = 0.5
"""Standard deviation, in unconstrained coordinates, of the points at which chains start where no
Gaussian approximation is known."""
FARTHEST = 1e12
"""Largest unconstrained coordinate of a chain in its warm-up; beyond it a posterior is taken to be
improper."""
START_TRIES = 8
"""Points tried for each start, of which the best are taken."""
FEWEST_DRAWS = 16
"""Draws of each chain by which their autocorrelation is known at least: by eight, it is not seen
that a third of the draws are effective."""
LONGEST = 20
"""A run makes at most this many times the draws that are wanted effective."""
ESS_MARGIN = 1.05
"""Factor by which predicted draws are increased, so that one more prediction is seldom needed."""
UNLIMITED = 10**6
"""Leapfrogs from one checkpoint to the next of a run that has none."""
DRAWS_PER_FILE = 64
"""Draws of each chain in one file of a checkpoint."""


def run_hmc(run: SumsRun, method: str = "hmc") -> Run:
    """The run whose draws are made by lock-step HMC: of all parameters, or of the shared ones."""
    is_marginal = method == "marginal-hmc"
    chains = lockstep.CHAINS if run.request.chains is None else run.request.chains
    labels = superchain_labels(chains)
    chain = LockStep(
        sums_of(run, chains, is_marginal),
        lockstep.shared_keys(run.request.seed, chains),
        labels,
        lockstep.window_lengths(chains, run.coordinates is not None),
    )
    run.recording.room = DRAWS_PER_FILE
    made = _Draws(run, chain, chains)
    state = made.restored() or _first_state(run, chain, labels)
    made.warm_up(state)
    made.draw(state)
    run.recording = run.recording.cut(made.target)
    integrals = integrals_at(run, made.shared_draws()) if is_marginal else {}
    outcome = Outcome(
        method,
        LockStepHMC(state.settings.step, state.settings.length),
        Schedule(made.target),
        chains,
        SumTraffic.of(run.gossip, *np.array(made.sent).T),
        made.statistics(),
        {
            "divergent_share": float(np.mean(made.divergent)),
            "undefined_share": min(1.0, state.undefined / (chains * max(1, len(made.acceptance)))),
            **_recorded(labels),
            **made.reached(),
            **integrals,
        },
    )
    return run.finished(outcome)


def _recorded(labels: np.ndarray) -> dict[str, list[int]]:
    """What a result says of superchains, if there are any with several chains."""
    return {"superchains": labels.tolist()} if len(set(labels)) < len(labels) else {}


def _first_state(run: SumsRun, chain: LockStep, labels: np.ndarray) -> ChainState:
    """The chains at their starts: near the Gaussian approximation, or anywhere."""
    is_known, dim = run.coordinates is not None, run.problem.num_shared
    groups = int(labels.max()) + 1
    uniforms = shared_uniforms(run.request.seed, "starts", START_TRIES * groups * dim)
    normal = ndtri(uniforms).reshape(START_TRIES * groups, dim)
    tried = normal if is_known else _anywhere(run) + ANYWHERE * normal
    potentials = np.asarray(chain.chains.at(jnp.asarray(tried))[0])
    if not np.isfinite(potentials).any():
        run.gossip.refuse_far()
        sites = undefined_sites(run.request.network, chain.chains.own(jnp.asarray(tried)))
        raise TuningError(
            f"the log-posterior is not finite at any of {len(tried)} points at which chains were "
            f"to start; say with `initial` where it is.{in_words(sites)}"
        )
    starts = tried[_best_starts(potentials, normal, groups)][labels]
    step = lockstep.FIRST_STEP if is_known else lockstep.FIRST_STEP_ANYWHERE
    return chain.begun(starts, first_settings(step, np.ones(dim)))


def _anywhere(run: SumsRun) -> np.ndarray:
    """The point around which chains start where there is no mode."""
    start, problem = run.request.start, run.request.problem
    where = np.zeros(problem.dim) if start is None else mean_position(problem, start)
    return where[: problem.num_shared]


def _best_starts(potentials: np.ndarray, normal: np.ndarray, groups: int) -> np.ndarray:
    """The numbers of the points that the posterior prefers to N(0, I) most.

    A chain that starts far outside of the posterior's bulk may never move: its gradients there are
    too steep for steps that suit the other chains.
    """
    log_weights = -potentials + 0.5 * np.sum(normal**2, axis=1)
    order = np.argsort(-np.where(np.isfinite(potentials), log_weights, -np.inf), kind="stable")
    return np.resize(order[: min(groups, int(np.isfinite(potentials).sum()))], groups)


@dataclass
class _Draws:
    """Trajectories of the chains, recorded, saved, and interrupted by Ctrl-C."""

    run: SumsRun
    chain: LockStep
    chains: int
    acceptance: list[np.ndarray] = field(default_factory=list)
    divergent: list[np.ndarray] = field(default_factory=list)
    potential: list[np.ndarray] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)
    """Messages and numbers of all agents until each draw."""
    target: int = 0
    """Draws of each chain that are wanted, as far as is known yet."""
    saved_at: int = 0
    """Leapfrogs at which the run was last saved."""
    effective: float | None = None
    """Effective draws of all chains, when they were last counted."""

    @property
    def count(self) -> int:
        """Draws of each chain so far."""
        return self.run.recording.count

    def statistics(self) -> dict[str, np.ndarray]:
        """Statistics of every draw, (draw, chain), by the names that ArviZ has for them."""
        return {
            "acceptance_rate": np.array(self.acceptance),
            "diverging": np.array(self.divergent),
            "lp": -np.array(self.potential),
        }

    def reached(self) -> dict[str, Any]:
        """Effective draws that were wanted and found, if their number ends a run that is over."""
        if self.effective is None or self.count < self.target:
            return {}
        return {"wanted_draws": self.run.request.wanted, "effective_draws": self.effective}

    def warm_up(self, state: ChainState) -> None:
        """Trajectories until the warm-up is over; Ctrl-C ends the run, which can be resumed."""
        if state.is_warm:
            return
        total = sum(self.chain.windows)
        with (
            DeferredInterrupt(not self.run.request.network.is_distributed) as interrupts,
            self.run.progress.progress_bar("warm-up of HMC", total, "trajectories") as report,
        ):
            for _ in self.chain.trajectories(state, self._pause(interrupts)):
                if report is not None:
                    report(min(state.iteration - 1, total))
                self._refuse_runaway(state)
                if state.is_warm:
                    return

    def _refuse_runaway(self, state: ChainState) -> None:
        """Refuse a posterior whose chains go farther and farther, as they do if it is improper."""
        positions = self.run.unscaled(np.asarray(state.phase.position))
        farthest = np.abs(positions).max(axis=0)
        if farthest.max() <= FARTHEST:
            return
        name = self.run.request.problem.coordinate_names[int(farthest.argmax())]
        raise TuningError(
            f"the chains run away: {name} has come to {farthest.max():.1g}, in unconstrained "
            "coordinates. The posterior seems to be improper: give every parameter a proper prior, "
            "or other units if such values are right."
        )

    def draw(self, state: ChainState) -> None:
        """Draws until there are enough; Ctrl-C ends the run with the draws so far.

        It has been saved then, in `_pause`. Where Ctrl-C came twice, at any moment, the state may
        be halfway between two draws: the last one that was saved stays.
        """
        is_single = not self.run.request.network.is_distributed
        try:
            with DeferredInterrupt(is_single) as interrupts:
                self.target = self._next_target()
                while self.count < self.target:
                    self._draw_until(self.target, state, interrupts)
                    self.target = self._next_target()
        except KeyboardInterrupt:
            if self.count == 0 or not is_single:
                raise
            return
        self.run.save(self._arrays(state))

    def _draw_until(self, target: int, state: ChainState, interrupts: DeferredInterrupt) -> None:
        with self.run.progress.progress_bar(
            "sampling by HMC", target, "draws of each chain"
        ) as report:
            for acceptance, divergent in self.chain.trajectories(state, self._pause(interrupts)):
                self._record(state, acceptance, divergent)
                if report is not None:
                    report(self.count)
                if self.count >= target:
                    return

    def _record(self, state: ChainState, acceptance: np.ndarray, divergent: np.ndarray) -> None:
        """Record a draw of each chain: its statistics first, since draws are counted by positions.

        An interruption in between leaves one statistic too many, and nothing missing.
        """
        ledger = self.run.gossip.ledger
        self.sent.append((ledger.messages, ledger.floats))
        self.acceptance.append(acceptance)
        self.divergent.append(divergent)
        self.potential.append(np.asarray(state.phase.value))
        positions = np.asarray(state.phase.position)
        self.run.record(self.chain.chains.draws(state.phase, self.count)[None])
        self.run.report_draw(positions[0])

    def _next_target(self) -> int:
        """Draws of each chain: as asked for, or as many as their autocorrelation needs."""
        request = self.run.request
        if request.chains is not None:
            return request.schedule.draws
        if self.count < self.target:
            return self.target
        least = max(FEWEST_DRAWS, math.ceil(request.wanted / self.chains))
        if self.count < least:
            return least
        effective = self.effective = float(least_effective_draws(self.shared_draws()))
        needed = math.ceil(ESS_MARGIN * self.count * request.wanted / max(effective, 1.0))
        is_enough = effective >= request.wanted or self.count >= LONGEST * least
        return self.count if is_enough else min(needed, 3 * self.count, LONGEST * least)

    def shared_draws(self) -> np.ndarray:
        """All draws of the shared parameters, which every site has, (chain, draw, shared)."""
        draws = np.moveaxis(self.run.recording.joined().position[:, :, 0], 0, 1)
        problem = self.run.problem
        return draws[..., : problem.num_shared] if problem.num_local else self.run.unscaled(draws)

    def _pause(self, interrupts: DeferredInterrupt) -> Callable[[ChainState], int]:
        """What trajectories call between leapfrogs: it saves the run now and then."""
        checkpoint, per_sum = self.run.checkpoint, max(1, self.run.gossip.rounds_per_sum)
        every = UNLIMITED if checkpoint is None else math.ceil(checkpoint.every / per_sum)

        def pause(state: ChainState) -> int:
            if state.sums - self.saved_at >= every or interrupts.is_pending:
                self.run.save(self._arrays(state))
                self.saved_at = state.sums
            interrupts.raise_if_pending()
            return every - (state.sums - self.saved_at)

        return pause

    def _arrays(self, state: ChainState) -> dict[str, np.ndarray]:
        """The state of the chains, and the statistics of the draws so far."""
        kept = {name: np.array(getattr(self, name)) for name in _SAVED}
        return {**state.arrays(), **self.chain.chains.arrays(), **kept}

    def restored(self) -> ChainState | None:
        """The state of a run that is resumed; None for a new one."""
        arrays = self.run.chain_arrays
        if arrays is None:
            return None
        for name in _SAVED:
            setattr(self, name, arrays[name].tolist() if name == "target" else list(arrays[name]))
        state = ChainState.from_arrays(arrays)
        self.chain.chains.restore(arrays)
        self.saved_at = state.sums
        return state


_SAVED = ("acceptance", "divergent", "potential", "sent", "target")
"""Fields of `_Draws` that are saved."""

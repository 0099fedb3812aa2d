"""A run of lock-step HMC: warm-up, then draws, with what is needed to go on after an interruption.

Chains start in groups, the superchains: the chains of a group begin at the same point, so that
nested R-hat can tell whether many short chains have forgotten where they began. It cannot tell if
all of them began in the same wrong place, such as a mode far from the bulk of the posterior; so it
is also tested whether they all drift. With D_c the mean of a parameter in the second half of a
window less that in the first half, in chain c of C,

    t = mean_c D_c / sqrt(var_c D_c / C)                                                    (1)

has Student's distribution with C - 1 degrees of freedom, about, once the chains are stationary. The
last window of the warm-up is repeated, twice as long, until neither is found; then step, trajectory
length and metric are fixed, and every further iteration makes one draw of every chain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

from starlings.diagnostics.nested_rhat import nested_rhat
from starlings.methods.hmc import SummedChains, ended
from starlings.methods.phase import Phase, SplitPhase
from starlings.methods.warmup import (
    FIRST_LEAPFROGS,
    MOST_LEAPFROGS,
    Settings,
    first_settings,
    length_fraction,
    pooled_metric,
)
from starlings.random.addresses import chain_keys
from starlings.runtime.checkpoint import OWN

CHAINS = 128
"""Number of chains by default: more would hardly save rounds, since all wait for a warm-up."""
SUPERCHAINS, FEWEST_SUPERCHAINS = 16, 4
"""Largest and smallest number of points at which chains begin in groups."""
FEWEST_GROUPED = 32
"""Number of chains from which on they begin in groups."""
WINDOWS = (15, 15, 25, 40)
"""Iterations of the windows of a warm-up from the Gaussian approximation."""
WINDOWS_FROM_ANYWHERE = (15, 15, 25, 40, 60)
"""Iterations of the windows of a warm-up that begins anywhere."""
ROUGH_WINDOWS = 2
"""Windows, the first ones, in which the step has to suit the chains that move least."""
SHORT_STEP, SHORT_STEP_EVERY = 0.3, 5
"""Every this many iterations, the part of the step that is taken; see `step_fraction`."""
SHORT_LEAPFROGS = 2
"""Leapfrogs of a trajectory of short steps, as a multiple of what whole steps would need."""
FORGOTTEN = 1.02
"""Nested R-hat of the second half of a window below which the chains have forgotten their start."""
DRIFT_LEVEL = 0.01
"""Probability with which stationary chains seem to drift, over all parameters."""
MORE_WINDOWS = 4
"""Further windows, each twice as long as the last, until the chains are stationary."""
FIRST_STEP, FIRST_STEP_ANYWHERE = 0.5, 0.05
"""First steps: in the coordinates of the Gaussian approximation, and in those of the model."""


@dataclass
class ChainState:
    """What a run of lock-step HMC needs to go on; equal at all sites, but for local parts."""

    phase: Phase | SplitPhase
    """Where the chains are: at the beginning of a trajectory, or within it."""
    beginning: Phase | SplitPhase
    """Where the present trajectory began, with its momenta."""
    settings: Settings
    iteration: int = 1
    """The number of the present trajectory, which addresses its random numbers."""
    leapfrogs: int = 0
    """Leapfrogs of the present trajectory so far."""
    sums: int = 0
    """Leapfrogs of all trajectories so far."""
    window: int = 0
    """The window of the warm-up; beyond the last one the draws are kept."""
    in_window: int = 0
    """Trajectories of the window so far."""
    history: list[np.ndarray] = field(default_factory=list)
    """Positions (chain, dim) at the ends of the trajectories of this window."""
    is_warm: bool = False
    """Whether the warm-up is over."""
    undefined: int = 0
    """How often trajectories after the warm-up came to where a site's potential is undefined."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The state as named arrays."""
        named = {name: np.array(getattr(self, name)) for name in _KEPT}
        named |= self.phase.arrays("phase") | self.beginning.arrays("beginning")
        return named | {f"settings_{k}": np.asarray(v) for k, v in asdict(self.settings).items()}

    @classmethod
    def from_arrays(cls, named: dict[str, np.ndarray]) -> ChainState:
        """The state of which these are the `arrays`."""
        kind: Any = SplitPhase if f"{OWN}phase_position" in named else Phase
        phase, beginning = (kind.from_arrays(name, named) for name in ("phase", "beginning"))
        found = {k.removeprefix("settings_"): v for k, v in named.items() if k[:9] == "settings_"}
        plain: dict[str, Any] = {k: v if v.ndim else v.item() for k, v in found.items()}
        numbers: dict[str, Any] = {name: named[name].tolist() for name in _KEPT}
        numbers["history"] = list(named["history"])
        return cls(phase, beginning, Settings(**plain), **numbers)


_KEPT = ("iteration", "leapfrogs", "sums", "undefined", "window", "in_window", "history", "is_warm")
"""Fields of `ChainState` that are saved as they are."""


@dataclass(frozen=True)
class LockStep:
    """Chains of lock-step HMC over one network."""

    chains: SummedChains
    keys: Any
    """The keys that all agents share, one for each chain."""
    superchains: np.ndarray
    """The label of the superchain of every chain."""
    windows: tuple[int, ...]
    """Iterations of the windows of the warm-up."""

    def begun(self, starts: np.ndarray, settings: Settings) -> ChainState:
        """The state before the first trajectory, at positions (chain, dim)."""
        phase = self.chains.begun(jnp.asarray(starts))
        if not np.isfinite(np.asarray(phase.value)).all():
            raise FloatingPointError("a chain starts where the potential is not finite.")
        state = ChainState(phase, phase, settings)
        self._next_trajectory(state, phase)
        return state

    def trajectories(
        self, state: ChainState, pause: Callable[[ChainState], int]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Trajectory after trajectory: acceptance probabilities and divergences, (chain,) each.

        `pause` is called between leapfrogs and says how many may be made before the next call; it
        may save the state, or raise.
        """
        while True:
            wanted, step = self._plan(state)
            while state.leapfrogs < wanted:
                number = min(wanted - state.leapfrogs, pause(state))
                metric = jnp.asarray(state.settings.metric)
                state.phase = self.chains.leapfrogs(number, state.phase, step, metric)
                state.undefined += self.chains.met_undefined() * state.is_warm
                state.leapfrogs, state.sums = state.leapfrogs + number, state.sums + number
            found = ended(state.beginning, state.phase, self.keys, state.iteration)
            acceptance, phase = np.asarray(found.acceptance), found.phase
            if not state.is_warm:
                phase = self._adapt(state, acceptance, phase)
            state.iteration += 1
            self._next_trajectory(state, phase)
            yield acceptance, np.asarray(found.is_divergent)

    def _plan(self, state: ChainState) -> tuple[int, float]:
        """The number of leapfrogs of the present trajectory, and their step."""
        most = FIRST_LEAPFROGS if state.window < ROUGH_WINDOWS else MOST_LEAPFROGS
        part = step_fraction(state.iteration)
        longer = length_fraction(state.iteration) * (SHORT_LEAPFROGS if part < 1 else 1)
        return state.settings.num_leapfrogs(longer, most), part * state.settings.step

    def _next_trajectory(self, state: ChainState, phase: Any) -> None:
        """Draw the momenta of the next trajectory."""
        phase = self.chains.refreshed(phase, self.keys, state.iteration)
        state.beginning = state.phase = phase
        state.leapfrogs = 0

    def _adapt(self, state: ChainState, acceptance: np.ndarray, phase: Any) -> Any:
        """Better settings and, after a window, a new metric; the phase in the coordinates then."""
        if step_fraction(state.iteration) == 1:
            state.settings = self._better(state, acceptance)
        state.history.append(np.asarray(phase.position))
        state.in_window += 1
        length = self._window_length(state.window)
        if 2 * state.in_window > length:
            self.chains.observe(phase)
        return phase if state.in_window < length else self._end_window(state, phase)

    def _better(self, state: ChainState, acceptance: np.ndarray) -> Settings:
        """Step and length after a trajectory of whole steps."""
        is_rough = state.window < ROUGH_WINDOWS
        settings = state.settings.with_step(
            self._worst_acceptance(acceptance) if is_rough else acceptance.mean(), is_rough
        )
        if state.window == 0:
            return settings
        before, after, fraction = state.beginning, state.phase, length_fraction(state.iteration)
        return settings.with_length(before, after, acceptance, fraction, pace(len(acceptance)))

    def _worst_acceptance(self, acceptance: np.ndarray) -> float:
        """The mean acceptance probability of the superchain in which it is least.

        By their mean over all chains, a step could be chosen with which some of them never move.
        """
        counts = np.bincount(self.superchains)
        return float((np.bincount(self.superchains, acceptance) / counts).min())

    def _window_length(self, window: int) -> int:
        beyond = max(0, window - len(self.windows) + 1)
        return self.windows[min(window, len(self.windows) - 1)] * 2**beyond

    def _end_window(self, state: ChainState, phase: Any) -> Any:
        """Go on to the next window with a new metric, or end the warm-up."""
        window = np.array(state.history)
        late = window[len(window) // 2 :].reshape(-1, window.shape[-1])
        metric = pooled_metric(late)
        further = state.window - len(self.windows) + 1
        if further >= MORE_WINDOWS or (further >= 0 and self._is_stationary(window)):
            state.settings, state.is_warm = state.settings.fixed(), True
        elif state.window == 0:  # the units change
            state.settings = first_settings(FIRST_STEP, metric)
        else:
            state.settings = state.settings.with_metric(metric)
        state.window, state.in_window, state.history = state.window + 1, 0, []
        return phase if state.is_warm else self.chains.adapted(phase, late.mean(axis=0))

    def _is_stationary(self, window: np.ndarray) -> bool:
        """Whether chains seem stationary, by their positions (iteration, chain, dim)."""
        return self._has_forgotten(window[len(window) // 2 :]) and not is_drifting(window)

    def _has_forgotten(self, positions: np.ndarray) -> bool:
        """Whether nested R-hat of positions (iteration, chain, dim) is near 1; True if unknown."""
        if len(self.superchains) == 1:
            return True
        draws = np.moveaxis(positions, 0, 1)
        return bool(np.max(nested_rhat(draws, self.superchains)) < self._limit(len(positions)))

    def _limit(self, iterations: int) -> float:
        """`FORGOTTEN`, plus what is expected by chance of chains of which half the draws count."""
        per_superchain = iterations * np.bincount(self.superchains).min() / 2
        return FORGOTTEN - 1 + math.sqrt(1 + 1 / per_superchain)


def is_drifting(positions: np.ndarray) -> bool:
    """Whether all chains move into one direction, eq. (1), by positions (iteration, chain, dim)."""
    chains, dim = positions.shape[1:]
    if chains == 1:
        return False
    half = len(positions) // 2
    drift = positions[half:].mean(axis=0) - positions[:half].mean(axis=0)
    error = drift.std(axis=0, ddof=1) / math.sqrt(chains)
    largest = stdtrit(chains - 1, 1 - DRIFT_LEVEL / (2 * dim))
    return bool(np.any(np.abs(drift.mean(axis=0)) > largest * error))  # (1)


def pace(chains: int) -> float:
    """How fast a warm-up goes: 1, and slower by a root where chains are few.

    A compromise between equally many draws and equally many rounds for each decision.

    >>> pace(128), pace(32), pace(1000)
    (1.0, 0.5, 1.0)
    """
    return min(1.0, math.sqrt(chains / CHAINS))


def window_lengths(chains: int, is_known: bool) -> tuple[int, ...]:
    """Iterations of the windows; `is_known` if there is a Gaussian approximation to begin from.

    Few chains have longer windows, see `pace`.

    >>> window_lengths(128, True), window_lengths(8, True)
    ((15, 15, 25, 40), (60, 60, 100, 160))
    """
    windows = WINDOWS if is_known else WINDOWS_FROM_ANYWHERE
    return tuple(math.ceil(window / pace(chains)) for window in windows)


def step_fraction(iteration: int) -> float:
    """The part of the step that an iteration takes: 1, and every few iterations much less.

    A chain in a region so steep that whole steps are always refused there moves on by short ones.
    """
    return SHORT_STEP if iteration % SHORT_STEP_EVERY == 0 else 1.0


def superchain_labels(chains: int) -> np.ndarray:
    """The superchain of every chain: up to `SUPERCHAINS` groups of equal size.

    Fewer than `FEWEST_GROUPED` chains, and numbers that cannot be divided, have no groups: every
    chain is a superchain of its own.

    >>> superchain_labels(32).tolist()[:5], len(set(superchain_labels(7).tolist()))
    ([0, 0, 1, 1, 2], 7)
    """
    groups = max(g for g in range(1, SUPERCHAINS + 1) if chains % g == 0)
    if chains < FEWEST_GROUPED or groups < FEWEST_SUPERCHAINS:
        groups = chains
    return np.arange(chains) * groups // chains


def shared_keys(seed: int, chains: int) -> jax.Array:
    """The keys that all agents share, one for each chain."""
    return chain_keys(seed, chains, 1)[1]

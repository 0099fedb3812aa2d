"""Runs in rounds whose sampler the agents tune themselves.

Unless the caller says how many chains to run, a tuned run has many short ones. They start from the
Gaussian approximation, N(0, I) in tuned coordinates, so that

    burn-in = 5 tau,   thin = tau / 2,   draws of each chain = n / (EFFECTIVE_SHARE C)      (1)

rounds are enough for n effective draws of C chains, with tau the autocorrelation time in rounds:
the more chains, the fewer rounds. Chains start in groups, the superchains, each at one point, so
that nested R-hat tells whether they have forgotten where they started.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from starlings.errors import check_choice
from starlings.methods.lockstep import FEWEST_GROUPED, SUPERCHAINS, superchain_labels
from starlings.methods.prediction import BURN_IN_TIMES
from starlings.network.gossip import Gossip
from starlings.problem.local import refuse_local
from starlings.random.addresses import shared_uniforms
from starlings.results.gather import Run
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.maskable import check_maskable
from starlings.runtime.recording import Schedule
from starlings.runtime.unreliable import check_links
from starlings.samplers import DADMMS, Metropolis, Sampler
from starlings.samplers.names import is_tunable
from starlings.sampling.request import Request
from starlings.sampling.rounds import Setup, run_rounds
from starlings.sampling.starts import search_start
from starlings.system.interrupts import DeferredInterrupt
from starlings.system.progress import Progress
from starlings.tuning import EXACTNESS, Tuning, tune
from starlings.tuning.ladder import RUNGS
from starlings.tuning.pilot import refine
from starlings.tuning.tuner import Coordinates, Goal, tuned_from

MOST_CHAINS, MOST_QUADRATIC_CHAINS = 256, 1024
"""Largest number of chains of a run of many short ones; rounds on quadratic potentials cost less
to compute."""
CHAIN_BYTES = 2**25
"""Bytes of the positions of all agents and chains above which there are fewer chains."""
EFFECTIVE_SHARE = 0.4
"""Effective draws for one draw, with half an autocorrelation time from one draw to the next: it is
(e-1)/(e+1), less something for parameters that are slower than a Gaussian's."""
FEWEST_DRAWS = 4
"""Fewest draws of a chain, without which no effective sample size is known."""


class Located(NamedTuple):
    """What was found before D-ADMMS was chosen, and the ledger of what it cost."""

    gossip: Gossip
    coordinates: Coordinates
    newton_iterations: int


class Tuned(NamedTuple):
    """What the agents found, and attributes of the result that say why it was looked for."""

    tuning: Tuning
    attributes: dict[str, Any] = {}  # noqa: RUF012 - never changed


@dataclass(frozen=True)
class TunedSampler:
    """A sampler whose settings the agents choose by tuning."""

    kind: type[Sampler] | None
    """The class of samplers, tuned by its own rule; None where `rung` decides on the class."""
    rung: str = "auto"
    """The rung of the ladder of exactness, see `starlings.tuning.ladder`."""

    def __post_init__(self) -> None:
        check_choice(EXACTNESS, exactness=self.rung)

    @property
    def title(self) -> str:
        """What is said before the sampler is known."""
        return "the agents tune their sampler"

    def identity(self) -> dict[str, str]:
        """What was asked for, not what tuning found: that is in the checkpoint."""
        return {"sampler": str(self.kind), "exactness": self.rung}

    def check(self, request: Request) -> None:
        """Refuse a class that has no rule for its settings."""
        if self.kind is not None and not is_tunable(self.kind):
            name = self.kind.__name__
            raise TypeError(
                f"`sampler` is the class {name}, which has no rule `tuned` for its settings; give "
                f"them, as in `{name}(...)`."
            )
        refuse_local(request.problem, "tuning")
        check_links(request.network, self._class())
        check_maskable(request.network, self._class())

    def _class(self) -> type[Sampler]:
        """The class of samplers, as far as it is known before tuning."""
        if self.kind is not None:
            return self.kind
        return Metropolis if self.rung in RUNGS and RUNGS[self.rung].is_exact else DADMMS

    def num_candidates(self, request: Request) -> int:
        """A sampler has none; those that confirm the mode are few."""
        return 0

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Tune, and make the draws."""
        tuned = self.stored(request, checkpoint) or Tuned(self.tuning(None, request, progress))
        return self.run_tuned(tuned, request, checkpoint, progress)

    def run_tuned(
        self, tuned: Tuned, request: Request, checkpoint: Checkpoint | None, progress: Progress
    ) -> Run:
        """Make the draws by what the agents have found, which is saved."""
        tuning = tuned.tuning
        if checkpoint is not None and checkpoint.tuning() is None:
            shared, own = tuning.parts()
            checkpoint.remove_states()
            checkpoint.save_tuning({**shared, "attributes": tuned.attributes}, own)
        progress.print_status(tuning.summary())
        run = run_rounds(request, tuned_setup(request, tuning), checkpoint, progress)
        run.attributes |= tuned.attributes
        return run

    def stored(self, request: Request, checkpoint: Checkpoint | None) -> Tuned | None:
        """What the agents had found when the run that is resumed was begun."""
        found = None if checkpoint is None else checkpoint.tuning()
        if found is None:
            return None
        shared, own = found
        attributes = shared.pop("attributes", {})
        tuning = Tuning.from_parts(shared, own, self.kind)
        request.network.budget.spend(tuning.sent.rounds)
        return Tuned(tuning, attributes)

    def tuning(
        self,
        located: Located | None,
        request: Request,
        progress: Progress,
        is_worthwhile: Callable[[Tuning], bool] = lambda _: True,
    ) -> Tuning:
        """What the agents find, confirmed by pilot runs.

        Args:
            located: what is known of the mode already; None if nothing is.
            request: what is asked for.
            progress: shows what is being done.
            is_worthwhile: asked before every pilot run, which is not made if it is not.
        """
        problem, network = request.problem, request.network
        with DeferredInterrupt(not network.is_distributed) as interrupts:
            with progress.spinner("tuning: mode and scale of the posterior"):
                tuning = self._tuned(located, request)
            interrupts.raise_if_pending()
            watch = progress.progress_bar
            tuning = refine(problem, tuning, network, request.seed, watch, is_worthwhile)
            interrupts.raise_if_pending()
        return tuning

    def _tuned(self, located: Located | None, request: Request) -> Tuning:
        if located is not None:
            gossip, coordinates, iterations = located
            goal = Goal(self.rung, self.kind)
            return tuned_from(request.problem, gossip, coordinates, iterations, goal)
        start = search_start(request.problem, request.start, request.seed)
        return tune(request.problem, request.network, start, exactness=self.rung, sampler=self.kind)


def tuned_setup(request: Request, tuning: Tuning) -> Setup:
    """The tuned sampler, and problem and starting positions in the tuned coordinates."""
    problem, sampler = tuning.problem(request.problem), tuning.sampler
    initial = None if request.start is None else tuning.coordinates(request.start)
    schedule, chains = request.schedule.completed(sampler, tuning), request.usual_chains
    plain = Setup(problem, sampler, schedule, chains, initial, tuning)
    if request.chains is None and initial is not None and initial.ndim == 3 and len(initial) > 1:
        return plain._replace(chains=len(initial))
    asked = (request.chains, request.schedule.burn_in, request.schedule.thin)
    return plain if any(part is not None for part in asked) else _many_short(request, plain)


def _many_short(request: Request, setup: Setup) -> Setup:
    """The same run by many short chains, eq. (1)."""
    tuning, sampler = setup.tuning, setup.sampler
    assert tuning is not None
    chains = num_chains(request)
    tau = max(tuning.predicted_rounds_per_draw, 1.0)
    thin = max(1, round(tau / 2 / sampler.cycle)) * sampler.cycle
    burn_in = math.ceil(BURN_IN_TIMES * tau / sampler.cycle) * sampler.cycle
    draws = max(FEWEST_DRAWS, math.ceil(request.wanted / (EFFECTIVE_SHARE * chains)))
    labels = superchain_labels(chains)
    return setup._replace(
        schedule=Schedule(draws, burn_in, thin),  # (1)
        chains=chains,
        initial=_starts(request, labels) if setup.initial is None else setup.initial,
        superchains=labels if setup.initial is None and len(set(labels)) < chains else None,
    )


def num_chains(request: Request) -> int:
    """Chains for which a run takes the fewest rounds that its memory allows."""
    problem = request.problem
    most = MOST_QUADRATIC_CHAINS if problem.is_quadratic else MOST_CHAINS
    affordable = CHAIN_BYTES // (8 * request.network.size * problem.dim)
    useful = math.ceil(request.wanted / (EFFECTIVE_SHARE * FEWEST_DRAWS))
    chains = int(np.clip(min(affordable, useful), 4, most))
    return chains if chains < FEWEST_GROUPED else chains - chains % SUPERCHAINS


def _starts(request: Request, labels: np.ndarray) -> np.ndarray:
    """Points of N(0, I) at which chains start, the same for all agents, (chain, 1, dim)."""
    groups, dim = int(labels.max()) + 1, request.problem.dim
    uniforms = shared_uniforms(request.seed, "starts", groups * dim)
    return ndtri(uniforms).reshape(groups, 1, dim)[labels]

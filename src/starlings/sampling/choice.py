"""Who chooses how draws are made: the caller, or the agents.

The arguments `sampler`, `method` and `exactness` of `sample` are examined once, by `choice_of`;
everything after it asks the choice. The methods by name:

    auto                   the one that is predicted to take the fewest network rounds
    weights                importance weights of shared candidates, resampled
    weights-metropolis     the same candidates, as proposals of an exact independence chain
    hmc                    lock-step Hamiltonian Monte Carlo on sums: exact, for any posterior
    marginal-hmc           the same for the shared parameters alone, where few parameters are local:
                           every site integrates its own out, and then draws them by itself
    consensus, parametric, nonparametric, semiparametric
                           every agent draws by itself, and one sum combines the draws; biased
                           unless every agent's own posterior is Gaussian
    dadmms                 D-ADMMS, or Metropolis where proximal steps would be too short
    coherent, half-noise, curvature, midpoint, metropolis, metropolis-vote
                           a rung of the ladder of exactness, see `starlings.tuning.ladder`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from starlings.errors import check_choice
from starlings.methods import METHODS_ON_SUMS
from starlings.methods.batches import CANDIDATES_PER_DRAW, may_go_on
from starlings.methods.marginal import NODES, can_integrate
from starlings.methods.one_shot import COMBINATIONS
from starlings.problem.local import refuse_local
from starlings.results.gather import Run
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.maskable import check_maskable
from starlings.runtime.unreliable import check_links
from starlings.samplers import DADMMS, Sampler
from starlings.sampling.automatic import Automatic
from starlings.sampling.by_hmc import run_hmc
from starlings.sampling.by_one_shot import InOneShot
from starlings.sampling.by_quadrature import choose_nodes, require_quadrature
from starlings.sampling.by_weights import draw_candidates, require_weights, run_weights
from starlings.sampling.on_sums import SumsRun
from starlings.sampling.request import Choice, Request
from starlings.sampling.rounds import Setup, run_rounds
from starlings.sampling.starts import check_one_start
from starlings.sampling.tuned import TunedSampler
from starlings.system.progress import Progress
from starlings.theory import check_stability
from starlings.tuning import EXACTNESS
from starlings.tuning.ladder import RUNGS

METHODS = ("auto", *METHODS_ON_SUMS, *COMBINATIONS, "dadmms", *RUNGS)
"""The values of the argument `method`."""


def choice_of(sampler: Any, method: str, exactness: str, has_rounds: bool) -> Choice:
    """The choice that arguments of `sample` make.

    Args:
        sampler: a sampler, a class of samplers to be tuned, or None.
        method: one of `METHODS`.
        exactness: a rung, for which `method` is the newer name.
        has_rounds: whether the caller gave lengths in rounds, which only a sampler has.
    """
    check_choice(METHODS, method=method)
    check_choice(EXACTNESS, exactness=exactness)
    named = {"sampler": sampler, "method": method, "exactness": exactness}
    given = [name for name, value in named.items() if value is not None and value != "auto"]
    if len(given) > 1:
        raise ValueError(
            f"`{given[0]}` and `{given[1]}` both say how draws are made; got "
            f"{named[given[0]]!r} and {named[given[1]]!r}. Leave one of them out."
        )
    if sampler is not None:
        return _by_sampler(sampler)
    if method in METHODS_ON_SUMS:
        return OnSums(method)
    if method in COMBINATIONS:
        return InOneShot(method)
    if method == "auto" and exactness == "auto" and not has_rounds:
        return Automatic()
    rung = exactness if method in ("auto", "dadmms") else method
    return TunedSampler(None, rung)


def _by_sampler(sampler: Any) -> Choice:
    if isinstance(sampler, Sampler):
        return GivenSampler(sampler)
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        return TunedSampler(sampler)
    hint = " Names are for studies; in Python give the class or an instance."
    raise TypeError(
        "`sampler` must be a `starlings.Sampler`, such as "
        f"`starlings.{DADMMS.__name__}(rho=5.0)`, got {sampler!r}."
        f"{hint if isinstance(sampler, str) else ''}"
    )


@dataclass(frozen=True)
class GivenSampler:
    """A sampler whose settings the caller gave."""

    sampler: Sampler

    @property
    def title(self) -> str:
        """The name of the sampler."""
        return self.sampler.card.title

    def identity(self) -> dict[str, str]:
        """The sampler with all its settings."""
        return {"sampler": str(self.sampler), "exactness": "auto"}

    def check(self, request: Request) -> None:
        """Refuse a sampler that cannot run on this problem and network."""
        problem, network = request.problem, request.network
        if not self.sampler.draws_local:
            refuse_local(problem, type(self.sampler).__name__)
        self.sampler.check(problem, network)
        check_links(network, self.sampler)
        check_maskable(network, self.sampler)
        if not network.is_distributed:  # else no process has the curvatures of all agents
            check_stability(problem, network, self.sampler)

    def num_candidates(self, request: Request) -> int:
        """A sampler has none."""
        return 0

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Run the sampler as it was given."""
        schedule, chains = request.schedule.completed(self.sampler, None), request.usual_chains
        setup = Setup(request.problem, self.sampler, schedule, chains, request.initial)
        return run_rounds(request, setup, checkpoint, progress)


@dataclass(frozen=True)
class OnSums:
    """A method on sums that the caller named."""

    method: str

    @property
    def title(self) -> str:
        """What is said before the run."""
        return "importance weights" if self.is_weights else "lock-step HMC"

    @property
    def is_weights(self) -> bool:
        """Whether draws are weighted candidates."""
        return self.method.startswith("weights")

    def identity(self) -> dict[str, str]:
        """The name of the method."""
        return {"method": self.method}

    def check(self, request: Request) -> None:
        """Refuse lengths in rounds and several starts, which these methods do not have."""
        problem = request.problem
        if self.method == "marginal-hmc" and not problem.num_local:
            raise ValueError(
                "method='marginal-hmc' is for problems with local parameters, and none is local "
                "here; take method='hmc'."
            )
        if self.method != "hmc" and not can_integrate(problem):
            refuse_local(problem, f"method={self.method!r} with more than {max(NODES)} of them")
        check_links(request.network)
        request.schedule.refuse_rounds(self.method)
        check_one_start(request.start, self.method)

    def num_candidates(self, request: Request) -> int:
        """Those of the first batches; HMC has none."""
        return CANDIDATES_PER_DRAW * request.wanted if self.is_weights else 0

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Make the draws."""
        with jax.enable_x64(True):
            run = SumsRun.begun(request, checkpoint, progress)
            if not self.is_weights:
                run.locate_if_possible()
                if self.method == "marginal-hmc":
                    choose_nodes(run)
                return run_hmc(run, self.method)
            run.locate()
            choose_nodes(run)
            draw_candidates(run, lambda found: may_go_on(found, request.wanted))
            require_weights(run)
            require_quadrature(run)
            return run_weights(run, self.method)

"""`method="auto"`: the method that is predicted to take the fewest network rounds.

It is chosen twice where D-ADMMS seems best: once by what candidates say of the posterior, and again
by what tuning finds, since a run in rounds may be many times longer than it seemed. What was spent
on tuning by then is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax

from starlings.methods.batches import CANDIDATES_PER_DRAW, may_go_on
from starlings.methods.lockstep import CHAINS
from starlings.methods.marginal import GRADIENTS, can_integrate
from starlings.methods.prediction import FAR_ROUNDS, Prediction
from starlings.methods.weights import WeightedCandidates
from starlings.results.gather import Run
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.maskable import is_maskable
from starlings.runtime.unreliable import check_links
from starlings.samplers import DADMMS
from starlings.sampling.by_hmc import run_hmc
from starlings.sampling.by_quadrature import (
    choose_nodes,
    error_at_candidates,
    is_affordable,
    is_exact_enough,
)
from starlings.sampling.by_weights import draw_candidates, run_weights
from starlings.sampling.on_sums import SumsRun
from starlings.sampling.request import Request
from starlings.sampling.starts import check_one_start
from starlings.sampling.tuned import Located, Tuned, TunedSampler, num_chains
from starlings.system.progress import Progress
from starlings.tuning import Tuning
from starlings.tuning.tuner import STEP

BY_ROUNDS = TunedSampler(None)
"""D-ADMMS, tuned by the agents, or Metropolis where its steps would be too short."""


@dataclass(frozen=True)
class Automatic:
    """The agents choose the method."""

    @property
    def title(self) -> str:
        """What is said before the method is known."""
        return "the agents choose the method"

    def identity(self) -> dict[str, str]:
        """That the choice is the agents'."""
        return {"method": "auto"}

    def check(self, request: Request) -> None:
        """Refuse loss and several starts; no more, since the choice depends on what is found."""
        check_links(request.network)
        check_one_start(request.start, "auto")

    def num_candidates(self, request: Request) -> int:
        """Those of the first batches, which are nearly always drawn; HMC has none."""
        return CANDIDATES_PER_DRAW * request.wanted if _has_choice(request) else 0

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Choose, and make the draws; a run that is resumed goes on with its method."""
        tuned = BY_ROUNDS.stored(request, checkpoint)
        if tuned is None:
            with jax.enable_x64(True):
                run = SumsRun.begun(request, checkpoint, progress)
                method = _chosen(run)
                if method == "weights":
                    return run_weights(run, method)
                tuned = _tuned(run) if method == "dadmms" else None
                if tuned is None:
                    return run_hmc(run, run.choice.get("method", "hmc"))
        return BY_ROUNDS.run_tuned(tuned, request, checkpoint, progress)


def _chosen(run: SumsRun) -> str:
    """The method of fewest predicted rounds: "weights" if candidates were drawn and suffice."""
    if run.chain_arrays is not None or run.choice.get("method") in ("hmc", "marginal-hmc"):
        return str(run.choice.get("method", "hmc"))
    run.locate_if_possible()
    is_local = run.request.problem.num_local > 0
    if not _has_choice(run.request) or (is_local and run.coordinates is None):
        return "hmc"  # which draws local parameters at their sites, whatever the posterior
    choose_nodes(run)
    prediction = _prediction(run)

    def is_weights(found: WeightedCandidates) -> bool:
        is_over = bool(found.sizes) and not may_go_on(found, run.request.wanted)
        at_least = max(2 * len(found.points), CANDIDATES_PER_DRAW * run.request.wanted)
        is_cheapest = prediction.cheapest(found) == "weights"
        return not is_over and is_affordable(run, at_least) and is_cheapest

    if run.candidates.sizes or is_weights(run.candidates):
        draw_candidates(run, is_weights)
    rounds = prediction.rounds(run.candidates)
    if run.candidates.suffice(run.request.wanted):
        method, rounds["weights"] = "weights", 0
    else:
        method = prediction.cheapest(run.candidates, besides="weights")
    if is_local:
        method = _of_local(run, method, prediction)
        rounds = {"weights": rounds["weights"], method: rounds.get(method, rounds["hmc"])}
    run.choice |= {"method": method, "predicted": _recorded(rounds)}
    run.progress.print_status(_explained(run, method))
    return method


def _has_choice(request: Request) -> bool:
    """Whether there are several methods: where parameters are local, few have to be."""
    return not request.problem.num_local or can_integrate(request.problem)


def _of_local(run: SumsRun, method: str, prediction: Prediction) -> str:
    """The method for a problem whose local parameters may be integrated out.

    That is HMC of all parameters together, if they cannot be, or only at too many evaluations.
    """
    if run.candidates.sizes and not is_exact_enough(error_at_candidates(run)):
        return "hmc"
    if method == "weights":
        return method
    sums = prediction.hmc() / max(1, prediction.rounds_per_sum)
    chains = CHAINS if run.request.chains is None else run.request.chains
    return "marginal-hmc" if is_affordable(run, GRADIENTS * sums * chains) else "hmc"


def _prediction(run: SumsRun) -> Prediction:
    request = run.request
    return Prediction(
        run.gossip.rounds_per_sum,
        request.wanted,
        num_chains(request) if request.chains is None else request.chains,
        1 + 2 / STEP,  # eq. (3) of `starlings.tuning.tuner`
        DADMMS.pilot.cycles,
        request.problem.num_shared,
        run.coordinates is not None,
        request.problem.is_quadratic and not request.problem.num_local,
        not request.problem.num_local and is_maskable(request.network, DADMMS),
    )


def _tuned(run: SumsRun) -> Tuned | None:
    """What the agents find for a run in rounds; None if HMC turns out to be better.

    The run then knows what tuning has cost.
    """
    assert run.coordinates is not None
    prediction, request = _prediction(run), run.request

    def is_best(tuning: Tuning) -> bool:
        return not prediction.is_hmc_better(_rounds_left(prediction, tuning), tuning.is_exact)

    located = Located(run.gossip, run.coordinates, run.newton_iterations)
    tuning = BY_ROUNDS.tuning(located, request, run.progress, is_best)
    if request.problem.is_quadratic and tuning.is_pace_known:  # its law is known, there is no tie
        return Tuned(tuning, run.predicted_rounds())
    left = {"weights": math.inf, "hmc": prediction.hmc()}
    left["dadmms"] = _rounds_left(prediction, tuning)
    run.choice["predicted"] = _recorded(left)
    if is_best(tuning):
        return Tuned(tuning, run.predicted_rounds())
    run.choice["method"], run.gossip.ledger = "hmc", tuning.sent.copy()
    run.save()
    run.progress.print_status(
        f"method 'hmc' after all: {_in_words(run)}; {tuning.sent.rounds:,} network rounds so far"
    )
    return None


def _rounds_left(prediction: Prediction, tuning: Tuning) -> float:
    """Network rounds that a tuned run still takes, pilot runs included if its pace is unknown."""
    if tuning.is_pace_known:
        return prediction.drawing(tuning.predicted_rounds_per_draw)
    cycle = tuning.sampler.cycle
    return tuning.sampler.pilot.cycles * cycle + prediction.drawing(FAR_ROUNDS * cycle)


def _recorded(rounds: dict[str, float]) -> dict[str, int | None]:
    """Predicted rounds as a result has them: whole numbers, and None for what is no option."""
    return {
        name: None if math.isinf(number) else math.ceil(number) for name, number in rounds.items()
    }


def _in_words(run: SumsRun) -> str:
    """The predictions, in words."""
    known = {name: n for name, n in run.choice["predicted"].items() if n is not None}
    listed = ", ".join(f"{name} {number:,}" for name, number in known.items())
    return f"further rounds that are predicted: {listed}"


def _explained(run: SumsRun, method: str) -> str:
    """The method and the reason for it, in one line."""
    found, rounds = run.candidates, run.gossip.ledger.rounds
    if run.coordinates is None:
        reason = "no mode was found, and this method needs none"
    elif found.sizes:
        reason = (
            f"Pareto k-hat {found.pareto_k:.2f}, {found.effective_number:,.0f} of "
            f"{len(found.points):,} candidates are effective; {_in_words(run)}"
        )
    else:
        reason = _in_words(run)
    return f"method {method!r}: {reason}; {rounds:,} network rounds so far"

"""`method="auto"`: the method that is predicted to take the fewest network rounds."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from starlings.methods.prediction import Prediction
from starlings.methods.weights import WeightedCandidates
from starlings.results.gather import Run
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.maskable import is_maskable
from starlings.samplers import DADMMS
from starlings.sampling.by_hmc import run_hmc
from starlings.sampling.by_weights import draw_candidates, run_weights
from starlings.sampling.on_sums import SumsRun
from starlings.sampling.request import Request
from starlings.sampling.tuned import Located, TunedSampler, num_chains
from starlings.system.progress import Progress
from starlings.tuning.tuner import STEP


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
        """Nothing is refused: the choice depends on what is found."""

    def run(self, request: Request, checkpoint: Checkpoint | None, progress: Progress) -> Run:
        """Choose, and make the draws; a run that is resumed goes on with its method."""
        by_rounds = TunedSampler(None)
        if checkpoint is not None and checkpoint.tuning() is not None:
            return by_rounds.run(request, checkpoint, progress)
        with jax.enable_x64(True):
            run = SumsRun.begun(request, checkpoint, progress)
            method = _chosen(run)
            progress.print_status(_explained(run, method))
            if method == "weights":
                return run_weights(run, method)
            if method == "hmc":
                return run_hmc(run)
        assert run.coordinates is not None
        located = Located(run.gossip, run.coordinates, run.newton_iterations)
        return by_rounds.run_from(located, request, checkpoint, progress)


def _chosen(run: SumsRun) -> str:
    """The method of fewest predicted rounds: "weights" if candidates were drawn and suffice."""
    if run.chain_arrays is not None:
        return "hmc"
    run.locate_if_possible()
    prediction = _prediction(run)

    def is_weights(found: WeightedCandidates) -> bool:
        return prediction.cheapest(found) == "weights"

    if run.candidates.sizes or is_weights(run.candidates):
        draw_candidates(run, is_weights)
    if run.candidates.suffice(run.request.wanted):
        return "weights"
    return prediction.cheapest(run.candidates, besides="weights")


def _prediction(run: SumsRun) -> Prediction:
    request = run.request
    return Prediction(
        run.gossip.rounds_per_sum,
        request.wanted,
        num_chains(request) if request.chains is None else request.chains,
        1 + 2 / STEP,  # eq. (3) of `starlings.tuning.tuner`
        DADMMS.pilot.cycles,
        request.problem.dim,
        run.coordinates is not None,
        request.problem.is_quadratic,
        is_maskable(request.network, DADMMS),
    )


def _explained(run: SumsRun, method: str) -> str:
    """The method and the reason for it, in one line."""
    found, rounds = run.candidates, run.gossip.ledger.rounds
    if run.coordinates is None:
        reason = "no mode was found, and this method needs none"
    elif found.sizes:
        reason = (
            f"Pareto k-hat {found.pareto_k:.2f}, {found.effective_number:,.0f} of "
            f"{len(found.points):,} candidates are effective"
        )
    else:
        reason = "by the predicted network rounds"
    return f"method {method!r}: {reason}; {rounds:,} network rounds so far"

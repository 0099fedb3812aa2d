"""Runs by importance weights of shared candidates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from starlings.errors import CandidateError
from starlings.methods.batches import weighted_candidates
from starlings.methods.cards import ImportanceWeights, SumTraffic
from starlings.methods.resampling import metropolis, resampled
from starlings.methods.weights import LARGEST_K, CandidateSums, WeightedCandidates
from starlings.results.gather import Run
from starlings.runtime.buckets import grouped
from starlings.runtime.recording import Recording, Schedule
from starlings.sampling import by_quadrature
from starlings.sampling.on_sums import Outcome, SumsRun
from starlings.sampling.undefined import in_words, undefined_sites
from starlings.system.interrupts import DeferredInterrupt

REPORTED = 300
"""Draws of the first chain that are reported, at most: they are all made at once."""


def draw_candidates(run: SumsRun, is_worthwhile: Callable[[WeightedCandidates], bool]) -> None:
    """Draw batches until they suffice or are not worthwhile; every batch is saved."""
    network, sums = run.request.network, _sums(run)

    def is_saved_and_worthwhile(found: WeightedCandidates) -> bool:
        run.candidates = found
        run.save()
        interrupts.raise_if_pending()
        return is_worthwhile(found)

    with (
        DeferredInterrupt(not network.is_distributed) as interrupts,
        run.progress.spinner("weights: potentials of all sites at shared candidates"),
    ):
        found = weighted_candidates(
            sums,
            run.candidates,
            run.request.wanted,
            run.request.seed,
            run.is_diagonal,
            is_saved_and_worthwhile,
            lambda: interrupts.is_pending,
        )
        if found is not run.candidates:
            run.candidates = found
            run.save()
        interrupts.raise_if_pending()


def _sums(run: SumsRun) -> CandidateSums:
    """Sums of potentials at candidates, in the coordinates of the run."""
    moved = run.summed
    agents = grouped(moved.agents(run.request.network))
    return CandidateSums(agents, run.gossip, moved.dim, int(moved.num_rows.sum()))


def _undefined_sites(run: SumsRun) -> list[str]:
    """The sites that cannot evaluate some candidate, as far as this process may know."""
    found = run.candidates
    if not any(found.undefined):
        return []
    own = _sums(run).own(found.points[np.isinf(found.potentials)])
    return undefined_sites(run.request.network, own)


def require_weights(run: SumsRun) -> None:
    """Refuse candidates that cannot stand for the posterior."""
    found, wanted = run.candidates, run.request.wanted
    if found.suffice(wanted):
        return
    if not found.is_defined:
        run.gossip.refuse_far()
        raise CandidateError(
            f"none of {len(found.points):,} candidates around the mode has a weight: at each of "
            "them the potential of some site is infinite or undefined. Look for a log-likelihood "
            f"or a log-prior that is -inf or NaN near the mode.{in_words(_undefined_sites(run))}"
        )
    if found.is_trusted:
        raise CandidateError(
            f"too few candidates are effective: {found.effective_number:,.0f} of "
            f"{len(found.points):,}, and {wanted:,} were asked for. Their weights can be trusted "
            f'(Pareto k-hat {found.pareto_k:.2f}): ask for fewer draws, or use method="hmc".'
        )
    raise CandidateError(
        f"importance weights cannot stand for this posterior: their Pareto k-hat is "
        f"{found.pareto_k:.2f} (trusted below {LARGEST_K}), and {found.effective_number:,.0f} of "
        f"{len(found.points):,} candidates are effective ({wanted:,} were asked for), after "
        f'{len(found.sizes)} batches. Use method="hmc", which is exact for any posterior, or '
        'method="auto".'
    )


def run_weights(run: SumsRun, method: str) -> Run:
    """The run whose draws are taken from the weighted candidates."""
    found, request = run.candidates, run.request
    is_chain = method == "weights-metropolis"
    chains, draws = request.usual_chains, request.schedule.draws
    numbers = (metropolis if is_chain else resampled)(found, chains, draws, request.seed)
    run.recording = Recording()
    by_quadrature.record_candidates(run, np.moveaxis(found.points[numbers], 1, 0))
    for number in numbers[0, :REPORTED]:
        run.report_draw(found.points[number])
    ledger = run.gossip.ledger
    drawn_by = "metropolis" if is_chain else "resampling"
    outcome = Outcome(
        method,
        ImportanceWeights(len(found.points), len(found.sizes), drawn_by),
        Schedule(draws),
        chains,
        SumTraffic.of(run.gossip, ledger.messages, ledger.floats),
        {"log_weight": found.log_weights[numbers].T},
        {
            "pareto_k": found.pareto_k,
            "effective_candidates": found.effective_number,
            **_evidence(run),
            **_quadrature(run),
            "undefined_share": found.undefined_share,
            "undefined_sites": _undefined_sites(run),
        },
    )
    return run.finished(outcome)


def _evidence(run: SumsRun) -> dict[str, float]:
    """The log-evidence, unless a Gaussian stands in for rows, whose probability is not known."""
    if run.problem.has_stand_in:
        return {}
    evidence, error = run.candidates.log_evidence
    return {"log_evidence": evidence + _log_determinant(run), "log_evidence_error": error}


def _quadrature(run: SumsRun) -> dict[str, float]:
    """What is known of the integrals over local parameters, if there are any."""
    if not run.request.problem.num_local:
        return {}
    return by_quadrature.recorded(run, by_quadrature.error_at_candidates(run))


def _log_determinant(run: SumsRun) -> float:
    """log |det L| of the coordinates x = c + L z of the candidates."""
    if run.coordinates is None:
        return 0.0
    scale = run.coordinates.scale
    if scale.ndim == 1:
        return float(np.log(np.abs(scale)).sum())
    return float(np.linalg.slogdet(scale)[1])

"""Runs in rounds: neighbours exchange the messages of a sampler, round after round."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from starlings.diagnostics.stein import Stein
from starlings.diagnostics.stein_network import MASKED_SUMS, SUMS, check_stein_identities
from starlings.errors import DivergenceError, MaskError
from starlings.network import Network
from starlings.network.gossip import FARTHEST, MESSAGES, rounds_per_sum
from starlings.network.ledger import Ledger
from starlings.problem import Problem
from starlings.results.datasets import RoundTraffic
from starlings.results.gather import Run
from starlings.runtime import loop
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.neighbourhoods import WORD_BYTES, words_of
from starlings.runtime.peers.guard import guarded
from starlings.runtime.recording import Schedule
from starlings.samplers import Sampler
from starlings.samplers.names import name_of
from starlings.sampling import account
from starlings.sampling.private import privacy_of
from starlings.sampling.request import Request
from starlings.sampling.starts import start_positions
from starlings.system.progress import Progress, report_draw
from starlings.tuning import Tuning

POSITION = "position x_i"
"""What a card says of a sampler whose messages are positions."""
EXAMINED_DRAWS = 1000
"""Draws of each agent, of all chains together, that are tested by Stein's identities."""


class Setup(NamedTuple):
    """What is run: a sampler with settings, and the problem in the coordinates it moves in."""

    problem: Problem
    sampler: Sampler
    schedule: Schedule
    chains: int
    initial: Any = None
    """Starting positions in those coordinates, as `sample` takes them; None for N(0, I)."""
    tuning: Tuning | None = None
    """What the agents found; None where the caller gave the settings."""
    superchains: np.ndarray | None = None
    """The group of every chain, if the chains of a group start at the same point."""


def run_rounds(
    request: Request, setup: Setup, checkpoint: Checkpoint | None, progress: Progress
) -> Run:
    """All rounds of the local agents, their draws, and what a result reports besides."""
    own = setup.sampler.attributes(setup.chains, setup.schedule.num_rounds)
    is_examined = request.check and setup.tuning is not None and not _has_exact_law(setup)
    network, rounds = request.network, setup.schedule.num_rounds
    sums = SUMS if network.secrecy is None else MASKED_SUMS
    of_masks = 0 if network.secrecy is None else 1  # by which who holds whom is agreed on
    later = of_masks + (sums if is_examined else 0)
    network.budget.require(rounds + later * rounds_per_sum(network))
    network.budget.spend(rounds)
    run = _draws(request, setup, checkpoint, progress)
    stein = _examined(run, setup) if is_examined else None
    run.add_attributes(**_attributes(run, setup, stein), **own)
    run.attributes |= _account(run, setup, stein)
    return run


def _draws(
    request: Request, setup: Setup, checkpoint: Checkpoint | None, progress: Progress
) -> Run:
    problem, sampler, schedule, chains = setup[:4]
    network, seed, precision = request.network, request.seed, request.precision
    dtype = np.dtype(precision)

    def watch(positions: np.ndarray, disagreement: float | None) -> None:
        first = partial(problem.in_model_coordinates, positions[0, 0])
        report_draw(problem.coordinate_names, first, disagreement)

    is_near = setup.tuning is not None and sampler.card.exchanged == POSITION
    with (
        jax.enable_x64(precision == "float64"),
        guarded(network.communicator, is_near and network.secrecy is None),
        progress.progress_bar("sampling", schedule.num_rounds) as report,
    ):
        agents = problem.agents(network, dtype)
        positions = start_positions(problem, sampler, setup.initial, chains, seed, dtype)
        try:
            run = (sampler, agents, network, positions, seed, schedule, report)
            recording = loop.run(*run, checkpoint=checkpoint, watch=watch)
        except DivergenceError as error:
            raise _with_remedy(error, setup, network) from None
        except jax.errors.JaxRuntimeError as error:
            raise _of_masks(error) from None
    return Run(
        problem,
        network,
        sampler,
        schedule,
        seed,
        precision,
        recording,
        chains,
        RoundTraffic(sampler, network, schedule, _message_bytes(request, setup)),
        None if checkpoint is None else checkpoint.folder,
    )


def _message_bytes(request: Request, setup: Setup) -> int:
    """The size of what an agent sends to one neighbour in one round, for one of the chains."""
    floats = setup.sampler.floats(setup.problem.num_shared)
    if request.network.secrecy is None:
        return floats * np.dtype(request.precision).itemsize
    return math.ceil(WORD_BYTES * words_of(floats * setup.chains) / setup.chains)


def _of_masks(error: jax.errors.JaxRuntimeError) -> Exception:
    """The error of masks that do not cancel, which compiled code has wrapped in its own."""
    _, is_of_masks, text = str(error).rpartition(f"{MaskError.__name__}: ")
    return MaskError(text.strip()) if is_of_masks else error


def _with_remedy(error: DivergenceError, setup: Setup, network: Network) -> DivergenceError:
    """The error of a run that diverged; a tuned run has safer alternatives."""
    if network.secrecy is not None:
        error = DivergenceError(
            f"{error} Masked messages hold positions below {FARTHEST:.2g}, and larger ones count "
            "as infinite: where those are right, give the columns other units."
        )
    if setup.tuning is None or setup.tuning.is_exact:
        return error
    hint = "This run was tuned: method='hmc' and method='metropolis' are exact, and do not diverge."
    return DivergenceError(f"{error} {hint}")


def _examined(run: Run, setup: Setup) -> Stein:
    """Stein's identities of the draws of a tuned run."""
    draws = np.moveaxis(run.recording.thinned(EXAMINED_DRAWS), 0, 1)
    number = draws.shape[0] * draws.shape[1]
    return check_stein_identities(setup.problem, run.network, draws, number)


def _has_exact_law(setup: Setup) -> bool:
    """Whether theory knows the law: the sampler is linear, and the potentials are quadratic."""
    tuning = setup.tuning
    is_known = tuning is not None and not np.isnan(tuning.predicted_w2)
    return is_known and setup.problem.is_quadratic


def _attributes(run: Run, setup: Setup, stein: Stein | None) -> dict[str, Any]:
    """What a result reports besides draws."""
    tuning = setup.tuning
    found: dict[str, Any] = {
        "privacy": privacy_of(run.network),
        "exchanged": setup.sampler.card.exchanged,
        "method": name_of(type(run.sampler)) if tuning is None else tuning.rung,  # type: ignore[arg-type]
    }
    if setup.sampler.is_private:
        found["model"] = setup.problem.provenance(with_rows=False)
    if tuning is not None:
        found["tuning"] = tuning.record()
        found["has_exact_law"] = int(_has_exact_law(setup))
    if stein is not None:
        found["stein"] = stein.record()
    if setup.superchains is not None:
        found["superchains"] = setup.superchains.tolist()
    return found


def _account(run: Run, setup: Setup, stein: Stein | None) -> dict[str, Any]:
    """What the run has cost, tuning and examination included, and what has left the sites."""
    made, network = run.recording.count, run.network
    rounds = 0 if made == 0 else int(run.schedule.round_of(made - 1))
    counted, everybody = _broadcasts(run), np.arange(network.size)
    _, sizes = run.traffic.until(np.arange(max(made, 1))[-1:], everybody, counted)
    sizes = np.broadcast_to(sizes, (1, run.chains, network.size))
    own, floats = Ledger(rounds), setup.sampler.floats(setup.problem.num_shared)
    each = np.array([run.chains * rounds]) if counted is None else counted.sum(axis=(0, 1))
    own.note(MESSAGES, floats * int(each.max()))
    tuned = None if setup.tuning is None else setup.tuning.sent
    ledger = account.total(run, *(part for part in (tuned, own, stein) if part is not None))
    is_shared = setup.sampler.common_start  # the draws are the same at all agents
    account.note_result(ledger, run, own_draws=not is_shared, found=run.attributes)
    account.note_local(ledger, run)
    found = account.attributes(ledger, run, int(sizes.sum()))
    if counted is not None:
        of_sites = dict(zip(network.names, (floats * each).tolist(), strict=True))
        found["disclosed_each"] = {MESSAGES: of_sites}
    return found


def _broadcasts(run: Run) -> np.ndarray | None:
    """How often all agents of the network have sent their messages, (1, chain, agent).

    None where it is not counted. All processes call this together.
    """
    own = run.recording.last_broadcasts()
    if own is None:
        return None
    everybody = np.zeros((1, run.chains, run.network.size), int)
    everybody[0][:, run.network.local] = own
    return run.network.communicator.sum(everybody)

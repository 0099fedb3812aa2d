"""Network rounds that each method would still take, by which `sample` chooses one.

With R rounds in a sum over the network, n effective draws wanted, C chains and an autocorrelation
time of tau rounds,

    weights        R                    for each of the batches that are missing                (1)
                   `REFITS` R           where proposals have to be fitted again
    hmc            `HMC_SUMS` R                                                                 (2)
    D-ADMMS        5 tau + tau n / C                                   quadratic potentials     (3)
                   `ADMMS_SUMS` R + pilots + 5 tau + tau n / C         any others

In (3) sums find the smallest penalty, judge the agents' disagreement, and test the law of the draws
afterwards. Where potentials are quadratic, all of this is known beforehand, so that nothing grows
with the diameter of the network. Near the Gaussian approximation tau is known from the exact law.
Far from it, where k-hat of the first batch of candidates is bad, a draw takes more rounds and there
are more pilot runs: `FAR_ROUNDS`, `FAR_PILOTS`. These are the middle of a wide range, so that (3)
is predicted again once the agents have tuned themselves: tau is then known, or it is known that
only Metropolis is left, which moves once in a sum over the network.

The draws of D-ADMMS are approximate, and those of HMC have the exact law: HMC is taken up to `TIE`
times the rounds.

Where no mode was found there is no Gaussian approximation, and only (2) is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from starlings.methods.batches import CANDIDATES_PER_DRAW, LARGEST_BATCH, MOST_BATCHES
from starlings.methods.lockstep import CHAINS as HMC_CHAINS
from starlings.methods.weights import LARGEST_K, WeightedCandidates

REFITS = 3
"""Further sums that weights usually need where the first candidates have a bad k-hat."""
HMC_SUMS = 1200
"""Sums that lock-step HMC is expected to need, warm-up included. What it has needed is in results
of `python -m benchmarks posteriors`: network rounds, divided by the rounds of a sum."""
TIE = 2.0
"""Factor up to which more rounds are accepted for draws of the exact law."""
HOPELESS_K = 1.0
"""k-hat from which on, after `REFITS` fits, no further proposal is fitted."""
FAR_ROUNDS, FAR_PILOTS = 500.0, 4
"""Moves per effective draw, and pilot runs, that D-ADMMS is expected to need far from the Gaussian
approximation; `tuning` in a result has what a run has found. D-ADMMS moves in every round,
Metropolis in every cycle."""
ADMMS_SUMS = 8
"""Sums of D-ADMMS beside its rounds: penalty, candidates, disagreement, Stein's identities."""
BURN_IN_TIMES = 5
"""Burn-in of a D-ADMMS run that starts from the Gaussian approximation, in units of tau."""


@dataclass(frozen=True)
class Prediction:
    """What is known before a method is chosen."""

    rounds_per_sum: int
    """R, network rounds."""
    wanted: float
    """n, effective draws."""
    admms_chains: int
    """C, the chains that a D-ADMMS run would have."""
    admms_tau: float
    """tau near the Gaussian approximation, in rounds."""
    pilot_rounds: int
    """Network rounds of one pilot run."""
    dim: int
    """Number of parameters."""
    has_mode: bool
    is_quadratic: bool
    can_run_rounds: bool = True
    """Whether D-ADMMS is allowed: where messages are masked, not every network is."""

    def rounds(self, found: WeightedCandidates) -> dict[str, float]:
        """Network rounds that each method would still take; infinite where it is no option."""
        if not self.has_mode:
            return {"weights": math.inf, "hmc": self.hmc(), "dadmms": math.inf}
        return {"weights": self.weights(found), "hmc": self.hmc(), "dadmms": self.admms(found)}

    def cheapest(self, found: WeightedCandidates, besides: str | None = None) -> str:
        """The method of fewest rounds, and of these the one of fewest bytes.

        D-ADMMS has to be better by `TIE`, unless its law is known.
        """
        rounds, floats = self.rounds(found), self.floats(found)
        if not self.is_quadratic:
            rounds["dadmms"] *= TIE
        names = (name for name in rounds if name != besides)
        return min(names, key=lambda name: (rounds[name], floats[name]))

    def is_hmc_better(self, rounds: float, is_exact: bool) -> bool:
        """Whether HMC is better than a tuned run in rounds that would still take `rounds`.

        `is_exact` says whether the law of that run is exact.
        """
        return self.hmc() <= rounds * (1 if is_exact else TIE)

    def floats(self, found: WeightedCandidates) -> dict[str, float]:
        """Numbers that cross a link, about, by which methods of equally many rounds are ranked."""
        refits = REFITS if found.sizes and not found.pareto_k < LARGEST_K else 1
        return {
            "weights": refits * CANDIDATES_PER_DRAW * self.wanted,
            "hmc": HMC_SUMS * HMC_CHAINS * (self.dim + 1.0),
            "dadmms": self.admms(found) * self.admms_chains * self.dim,
        }

    def weights(self, found: WeightedCandidates) -> float:
        """Rounds of importance weights, eq. (1); infinite if they are given up."""
        if not found.sizes or found.pareto_k < LARGEST_K:
            missing = CANDIDATES_PER_DRAW * self.wanted - sum(found.sizes)
            return self.rounds_per_sum * max(1, math.ceil(missing / LARGEST_BATCH))
        is_hopeless = len(found.sizes) > REFITS and not found.pareto_k < HOPELESS_K
        is_over = len(found.sizes) >= MOST_BATCHES
        return math.inf if is_hopeless or is_over else REFITS * self.rounds_per_sum

    def hmc(self) -> float:
        """Rounds of lock-step HMC, eq. (2)."""
        return HMC_SUMS * self.rounds_per_sum

    def admms(self, found: WeightedCandidates) -> float:
        """Rounds of D-ADMMS with many short chains, eq. (3)."""
        if self.rounds_per_sum == 0 or not self.can_run_rounds:  # a single agent has no neighbour
            return math.inf
        is_far = bool(found.sizes) and not found.gaussian_k < LARGEST_K
        tau = FAR_ROUNDS if is_far else self.admms_tau
        pilots = FAR_PILOTS if is_far else int(not self.is_quadratic)
        before = 0 if self.is_quadratic else ADMMS_SUMS * self.rounds_per_sum
        return before + pilots * self.pilot_rounds + self.drawing(tau)  # (3)

    def drawing(self, tau: float) -> float:
        """Rounds of burn-in and draws, for an autocorrelation time of tau rounds."""
        return tau * (BURN_IN_TIMES + self.wanted / self.admms_chains)

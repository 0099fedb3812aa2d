"""The values beyond which a number counts as a problem of a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The values beyond which a number counts as a problem."""

    rhat: float = 1.01
    """Largest R-hat of an entry at any agent."""
    effective_draws: float = 400
    """Smallest effective sample size, of the bulk or of the tails, of an entry at any agent."""
    mean_range: float = 0.1
    """Largest difference between the means of two agents, in posterior sd."""
    disagreement: float = 0.2
    """Largest root mean square distance of the agents from their average, in posterior sd. Agents
    that scatter by 0.2 around draws of the right law have 4 % too much variance."""
    sd_ratio: float = 1.2
    """Largest ratio of the standard deviations of two agents."""
    w2: float = 0.1
    """Largest W2 distance from the right law, in posterior sd."""
    pareto_k: float = 0.5
    """Pareto k-hat of importance weights from which on their variance is infinite."""
    divergent_share: float = 0.02
    """Largest share of the trajectories of HMC that diverge."""
    undefined_share: float = 0.0
    """Largest share of candidates, or of trajectories, at which a site's potential is NaN."""
    quadrature_error: float = 0.1
    """Largest error of the log-posterior, in nats, where sites integrate parameters out."""


LIMITS = Limits()
"""The limits of `Result.check`."""
WARNING_LIMITS = Limits(
    rhat=1.05, effective_draws=100, mean_range=0.25, disagreement=0.25, sd_ratio=1.5
)
"""The wider limits beyond which `sample` warns without being asked."""

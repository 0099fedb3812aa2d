"""Settings that the agents find by themselves: mode, metric, shares of curvature, step, sampler.

tuner.py         `tune`: from a problem on a network to a sampler with its settings
tuning.py        `Tuning`: what was found
pilot.py         short runs that confirm it, or improve it
ladder.py        which samplers there are to choose from, and what is known of them beforehand
absent.py        `without`: what the others go on with when some agents are absent
shares.py        what each agent carries of the posterior, and how curved it is

The mode is found by `starlings.solvers.pooled`.
"""

from starlings.tuning.ladder import EXACTNESS
from starlings.tuning.tuner import tune
from starlings.tuning.tuning import Tuning

__all__ = ["EXACTNESS", "Tuning", "tune"]

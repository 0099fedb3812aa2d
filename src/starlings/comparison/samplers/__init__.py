"""Samplers side by side: how far from the posterior they are, along all that they cost.

run.py            `compare`: from a problem, a network and samplers to a `Comparison`
named.py          samplers by name: what was asked for, as classes and instances
places.py         the network on which a sampler runs: as given, with a hub, or one place
settings.py       published settings, candidates on a common grid, and tuned ones
measures.py       distances from the posterior, from laws and from draws
exact.py          the exact law along the rounds, and when it reaches a target
simulated.py      chains instead of a law
reference.py      what stands for a posterior that is not Gaussian
choosing.py       the best candidate
costs.py          rounds as messages, bytes, gradients and seconds
comparison.py     the tables that all this becomes
text.py           a comparison on a terminal
figure.py         a comparison as a figure
"""

from starlings.comparison.samplers.comparison import Comparison, load_comparison
from starlings.comparison.samplers.run import compare

__all__ = ["Comparison", "compare", "load_comparison"]

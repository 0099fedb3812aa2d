"""Methods on sums: draws for the price of few network rounds, equal in every bit at all sites.

weights.py       importance weights of shared candidates: one sum makes all draws
batches.py       batches of candidates, one after another, until they suffice
proposal.py      the law of the candidates
resampling.py    equally weighted draws from weighted candidates
hmc.py           lock-step Hamiltonian Monte Carlo: one sum makes one leapfrog of all chains
warmup.py        how it finds its step, its trajectory length and its metric
lockstep.py      its run: warm-up, then draws
hierarchical.py  the same where sites have parameters of their own, which stay there
marginal.py      sums of potentials in which these are integrated out
one_shot.py      draws of every agent by itself, combined by one sum
nuts.py          how an agent draws by itself
cards.py         what a result says of them
prediction.py    network rounds that each method would take, by which `sample` chooses
"""

METHODS_ON_SUMS = ("weights", "weights-metropolis", "hmc", "marginal-hmc")
"""The names of the methods in this room, as values of the argument `method` of `sample`."""

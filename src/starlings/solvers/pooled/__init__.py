"""The mode of the posterior of all rows: the least point of the sum of all agents' potentials.

mode.py          the mode and its scale, over a network or in one process
search.py        the search, with one sum in each iteration
candidates.py    the points among which an iteration chooses
directions.py    Newton and L-BFGS directions, and the metric that a Hessian gives
potential.py     sums of potentials and their derivatives
failures.py      what to say where there is no mode
"""

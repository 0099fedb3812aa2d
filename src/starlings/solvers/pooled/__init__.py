"""The mode of the posterior of all rows: the least point of the sum of all agents' potentials.

mode.py          the search, over a network or in one process
directions.py    Newton and L-BFGS directions, and the metric that a Hessian gives
potential.py     sums of potentials and their derivatives
"""

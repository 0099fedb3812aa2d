"""How fast a round is. Each part is a file with `measure`, and what its table and text are.

reference.py    against NumPy and CVXPY (plain_numpy.py, plain_cvxpy.py)
limit.py        against the least that a round has to compute
growth.py       as agents, dimension, chains and degrees grow
pooled.py       against NUTS on the pooled rows
start.py        from `import starlings` to the first draw
device.py       on a GPU
"""

"""Benchmarks of starlings: how fast it is, and how right. They need a clone of the repository.

python -m benchmarks speed         speed on one machine, against other ways to the same draws
python -m benchmarks cluster       speed on several MPI processes of one machine
python -m benchmarks posteriors    draws of real posteriors against reference draws
python -m benchmarks ladder        cost and error of every exactness that can be asked for
"""

"""How fast a round is on several MPI processes of one machine.

run.py       starts the jobs, and collects what they measured
worker.py    what one process of a job does
ways.py      three ways for a compiled loop to exchange messages
report.py    tables and page
"""

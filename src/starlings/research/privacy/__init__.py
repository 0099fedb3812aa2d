"""What a neighbour learns of a site's rows: the attack, on messages of our own runs.

`python -m starlings.research.privacy` attacks every kind of message and prints what it found.

equations.py   what the numbers that a site sends have to do with its rows
recovery.py    rows from such numbers, and how many of them are right
wire.py        a wire tap: everything that agents send in a run
rounds.py      gradients of a site from the messages of a sampler
sums.py        what a site sends into sums: tuning, importance weights, lock-step HMC
trial.py       the small study that is attacked
runs.py        runs with a tap, and what an attack came to
on_rounds.py   attacks on messages of samplers
on_sums.py     attacks on sums, with masks and without
table.py       all attacks, and what they found

An attack takes nothing but numbers that a neighbour has: the messages that it receives, its own
state, and what all sites agree on (the model, the graph, the settings and the seed).
"""

"""A runtime in which every site is a process of its own organisation, and may stop and start again.

Every site runs the same program, and what it computes follows from its own rows and from the
messages of its neighbours, which it uses in a fixed order. So loss, delay, duplicates and restarts
change nothing but the time that a run takes.

communicator.py   what sites send each other in sums and in rounds
stream.py         the numbered messages of one neighbour, in both directions, whatever happens
journal.py        the file from which a site that is started again goes on where it was
frames.py         the layout of what crosses a link
values.py         small values as bytes
"""

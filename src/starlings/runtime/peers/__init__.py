"""A runtime in which every site is a process of its own organisation, and may stop and start again.

Every site runs the same program, and what it computes follows from its own rows and from the
messages of its neighbours, which it uses in a fixed order. So loss, delay, duplicates and restarts
change nothing but the time that a run takes.

communicator.py   what sites send each other in sums and in rounds
guard.py          what no honest neighbour sends in a round of a tuned sampler
trees.py          the trees along which sums and values travel
stream.py         the numbered messages of one neighbour, in both directions, whatever happens
journal.py        the file from which a site that is started again goes on where it was
frames.py         the layout of what crosses a link
values.py         small values as bytes
links.py          keeps a connection to each neighbour, as long as the run lasts
link.py           the link to one neighbour: connects, backs off, connects again
link_parts.py     what a link needs of the messages of a neighbour
link_state.py     how the link to a neighbour is, for those who look after it
listening.py      connections that neighbours open to this site directly
ways.py           how a neighbour can be reached, and where two sites meet at a relay
pipes.py          whole messages, in order and in secret, while a connection lasts
carriers.py       bytes through a relay or over TCP
tls.py            who is at the other end, and secrecy: TLS 1.3 without sockets
refusals.py       what an administrator reads where one site does not accept another
relay.py          the relay, which can neither read nor alter what it passes on
limits.py         how much of a relay one address may use
"""

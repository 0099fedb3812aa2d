"""Thirteen real posteriors with reference draws, divided among agents.

run.py          fills the results file, row by row
cases.py        the posteriors by name, with their data (models.py has the models)
methods.py      the methods that are compared (consensus.py has one of them)
grid.py         the search for the best step of a method that has no tuning of its own
runs.py         runs of the network, as long as it takes for the draws that are wanted
draws.py        draws of a method, and what they cost
score.py        how far draws are from the reference
results.py      the results file
report.py       tables (page.py has the page)
targets.py      what should be reached, and whether it is
"""

"""The D-ADMMS paper, reproduced: `starlings paper`.

experiment.py     what an experiment is: a table of numbers, and a figure drawn from it
claims.py         what a claim is, and how it is judged from a table
experiments/      one file for each kind of experiment, and one for the claims about it
registry.py       all experiments and claims, by name
runner.py         computes what is missing in a folder, and draws it
data.py           the regressions and the networks of the paper
curves.py         distances from the posterior, round by round: exact, and from trials
parallel.py       several methods and networks, computed at the same time
style.py          how the figures look
page.py           the results as a page of HTML
claims_table.py   the verdicts as a table of Markdown
"""

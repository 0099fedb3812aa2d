"""Draws of a logistic regression with many rows: time, memory, and what they could cost at least.

run.py        measures, prints the tables, and writes the page
study.py      whole runs of `starlings.sample`, each in a fresh process
product.py    potentials at candidates, against a plain product of matrices
data.py       the rows, and the Laplace approximation of their posterior
report.py     tables and page
"""

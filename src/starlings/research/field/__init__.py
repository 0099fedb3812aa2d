"""The whole field side by side: all samplers on the same posteriors, for a page of the docs.

cases.py     the posteriors and their networks
report.py    a comparison as text for the page
run.py       from names of cases to a folder of results, tables and figures
"""

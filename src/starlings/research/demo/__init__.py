"""The demo: six sites of the RAND health insurance experiment fit one model without pooling rows.

data.py      the rows of the experiment, and the model
run.py       the network's draws, and the draws of NUTS that they are compared with
report.py    the summary of all draws as a table, a figure and a few sentences
"""

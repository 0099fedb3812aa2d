"""The demo: six sites of the RAND health insurance experiment fit one model without pooling rows.

data.py      the rows of the experiment, and the model
ways.py      the network's draws by two ways, and what each of them costs
run.py       the demo: both ways, and the draws of NUTS that they are compared with
report.py    the summary of all draws as tables and a few sentences
figure.py    the same as a figure
"""

"""A result as one page for people who have never heard of Markov chains: `starlings report`.

    page.py         the page: everything below, in the template of the folder `templates`
    question.py     what was asked: the outcome, the covariates, the model, in words
    estimates.py    the forest plot: every coefficient, by the network and by each site alone
    differences.py  how the sites differ, where coefficients vary from site to site
    trust.py        whether the numbers can be relied on, in words
    fit.py          the predictive checks of the sites
    account.py      what left the sites, how it was run, how to cite it
    axes.py, svg.py axes, and pictures drawn as SVG in the page itself

The page is one file without scripts, and fetches nothing from anywhere.
"""

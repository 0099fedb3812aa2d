"""Formulas: the columns of a regression from named columns, the same at all sites without pooling.

`formulaic` reads formulas and builds columns: unlike patsy it is still developed, unlike formulae
its terms can be given levels and states from outside, and it makes plain NumPy columns. Of what
could run code it gets nothing: expressions are checked and computed here (see `expressions`).
"""

from starlings.formulas.agreement import agree
from starlings.formulas.encoding import Encoding
from starlings.formulas.parsing import Formula
from starlings.formulas.request import Request
from starlings.formulas.rows import SiteRows
from starlings.formulas.sums import Sums

__all__ = ["Encoding", "Formula", "Request", "SiteRows", "Sums", "agree"]

"""The columns of X from the values of factors, by `formulaic`.

It decides which columns a product of terms has, so that none is the sum of others (as in R: without
the reference level where there is an intercept), and how they are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import FormulaError
from starlings.formulas.expressions import Category
from starlings.formulas.parsing import Terms


def design_of(
    terms: Terms, values: Mapping[str, Any], rows: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The columns (row, column) and their names.

    Args:
        terms: the right side of a formula.
        values: for each factor numbers (row,), several columns of them, or a pandas Categorical
            with the `Category` of the formula, or None for one without `C(...)`.
        rows: the number of rows.
    """
    from formulaic import SimpleFormula
    from formulaic.materializers import PandasMaterializer
    from formulaic.parser.types import Factor, Term

    def looked_up(factor: Any) -> Any:
        is_number = factor.eval_method is Factor.EvalMethod.LITERAL
        return factor if is_number else Factor(factor.expr, eval_method="lookup")

    plain = SimpleFormula([Term([looked_up(f) for f in term.factors]) for term in terms.parsed])
    context = {name: _as_factor(value) for name, value in values.items()}
    maker = PandasMaterializer(pd.DataFrame(index=range(rows)), context=context)
    made = maker.get_model_matrix(plain, output="numpy", na_action="ignore")
    return np.array(made, float), tuple(made.model_spec.column_names)


def check_labels(found: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """Refuse columns that another version of `formulaic` calls or orders otherwise."""
    if found != expected:
        raise FormulaError(
            f"the formula has the columns {list(found)} here, and {list(expected)} in the result: "
            "install the version of formulaic with which the result was made."
        )


def _as_factor(value: Any) -> Any:
    """A value as `formulaic` takes it."""
    if not isinstance(value, tuple):
        return value
    from formulaic.transforms import C
    from formulaic.transforms.contrasts import SumContrasts

    labels, category = value
    column = pd.Series(labels)
    if isinstance(category, Category) and category.coding == "Sum":
        return C(column, SumContrasts(), levels=list(labels.categories))
    return column

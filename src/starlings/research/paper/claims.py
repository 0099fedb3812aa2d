"""Which of the paper's claims hold for Algorithm 1: judged from the tables, never typed."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from starlings.research.paper.ablation_claims import ABLATION_CLAIMS
from starlings.research.paper.judging import coverage, judge, summarise
from starlings.research.paper.linear_claims import LINEAR_CLAIMS
from starlings.research.paper.logistic_claims import LOGISTIC_CLAIMS
from starlings.research.paper.theorem_claims import THEOREM_CLAIMS

__all__ = ["CLAIMS", "coverage", "judge_all", "summarise"]

CLAIMS = (*LINEAR_CLAIMS, *ABLATION_CLAIMS, *LOGISTIC_CLAIMS, *THEOREM_CLAIMS)


def judge_all(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every claim of the paper on every table that it applies to."""
    return judge(CLAIMS, tables)

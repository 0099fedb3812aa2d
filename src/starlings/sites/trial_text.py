"""The text of trial files: one spelling for what is signed, and a draft to begin with."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from starlings.errors import SiteError

TEMPLATE = """\
# A trial: what several organisations compute together. All of them sign what stands here.
# Lines that begin with # are comments. Change what does not fit, and run `starlings study init`
# again with this file.

[model]
kind = "logistic_regression"  # or linear_, poisson_ or student_t_regression
outcome = "readmitted"        # a column that the rows of every site have
covariates = ["age", "stay"]  # columns that may explain it
prior_std = 2.5               # standard deviation of the prior of every coefficient

[columns]  # what the columns mean; a site whose file calls them otherwise says so when it joins
readmitted = "1 if readmitted within 30 days, otherwise 0"
age = "(years at admission - 60) / 20"
stay = "(days in hospital - 5) / 5"

[network]
graph = "complete"  # who exchanges messages with whom; or ring, star, path, or edges = [...]

[run]
draws = 1000
# method = "hmc"     # by default the sites choose the method with the fewest rounds
# privacy = "none"   # by default "totals": nobody learns more than totals over all sites

[sites.Ashby]
contact = "it@ashby.example.org"

[sites.Brook]
contact = "it@brook.example.org"

[sites.Cliff]
contact = "it@cliff.example.org"

[relay]  # a machine with a public port, which can neither read nor alter messages
urls = ["wss://relay.example.org"]

# [direct]  # instead of a relay, where every site has an open port
# Ashby = "ashby.example.org:7443"

[limits]
rounds = 100000   # network rounds of one run, at most
hours = 168       # hours from the first start of the run at a site to its end, at most
fewest_rows = 11  # rows that every site has to have
# absent = "leave"  # what the others may do without a site: "wait", "stand-in" or "leave" it out
"""
"""A commented draft of a trial file."""


def as_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections as TOML, sorted, in the only spelling; comments and white space are gone.

    >>> print(as_toml({"run": {"draws": 10}, "model": {"kind": "a", "b": [1, 0.5]}}), end="")
    [model]
    b = [1, 0.5]
    kind = "a"
    [run]
    draws = 10
    """
    lines = []
    for name in sorted(tables):
        lines += [f"[{name}]"]
        lines += [f"{_text(key)} = {_value(tables[name][key])}" for key in sorted(tables[name])]
    return "".join(f"{line}\n" for line in lines)


def _text(key: str) -> str:
    """A key, in quotes unless it is a plain word."""
    is_plain = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if is_plain else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_text(key)} = {_value(value[key])}" for key in sorted(value))
        return f"{{{', '.join(pairs)}}}"
    raise SiteError(f"a trial cannot have the value {value!r}; write it as text in quotes.")

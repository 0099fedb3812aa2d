"""ELF against a NumPy transcription of its three algorithms, as in `test_one_round_fald`."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.samplers.elf import ELF_FORMS
from tests.contract.test_one_round_fald import (
    SITES,
    check,
    each_round,
    first,
    round_of,
    slope,
)
from tests.quick import quick_cases

GAMMA, CYCLES = 0.004, 5
CASES = [(form, entries) for form in ELF_FORMS for entries in ("largest", "random")]


def compressed(vector, keep, entries, key):
    if entries == "largest":
        places = np.argsort(-np.abs(vector), kind="stable")[:keep]
    else:
        with jax.enable_x64(True):
            places = np.asarray(jax.random.permutation(key, len(vector)))[:keep]
    found = np.zeros_like(vector)
    found[places] = vector[places]
    return found


@pytest.mark.parametrize("case", quick_cases(CASES, [("bidirectional", "largest")]))
def test_elf(case):
    form, entries = case
    keep = 2
    sampler = st.ELF(GAMMA, form, keep, entries)
    x = first()

    def of_site(vector, site, cycle):
        if form == "primal":
            return vector
        return compressed(vector, keep, entries, round_of(2 * cycle + 1, site + 1).batch_key())

    def of_hub(vector, cycle):
        if form == "dual":
            return vector
        return compressed(vector, keep, entries, round_of(2 * cycle, 0).batch_key())

    w = x
    g_i = [SITES * slope(i, x) for i in range(SITES)]  # the gradients of F_i, whose mean is F
    g = np.mean(g_i, axis=0)
    iterates, heard = [x], [w]
    for cycle in range(1, CYCLES + 1):
        with jax.enable_x64(True):
            noise = np.asarray(round_of(2 * cycle, 0).private_noise(x))
        x = x - GAMMA * g + np.sqrt(2 * GAMMA) * noise
        w = w + of_hub(x - w, cycle)
        parts = [of_site(SITES * slope(i, w) - g_i[i], i, cycle) for i in range(SITES)]
        g_i = [own + part for own, part in zip(g_i, parts, strict=True)]
        g = g + np.mean(parts, axis=0)
        iterates.append(x)
        heard.append(w)
    check(sampler, each_round(iterates), each_round(heard))


def test_what_is_sent_where_zeros_are_not():
    assert st.ELF(0.1, "dual", keep=3).sparse_floats(20) == (20, 6)
    assert st.ELF(0.1, "primal", keep=3).sparse_floats(20) == (6, 20)
    assert st.ELF(0.1, "bidirectional", keep=15).sparse_floats(20) == (20, 20)
    assert st.ELF(0.1, "bidirectional").sparse_floats(20) == (20, 20)

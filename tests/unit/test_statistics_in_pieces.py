"""Draws that are read piece by piece have the same verdict as all at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from starlings.diagnostics.draws import ReadLimits, entry_blocks, split_along, thinning_step
from starlings.diagnostics.statistics import agreement_table, convergence_table


@pytest.fixture(params=[50, 51], ids=["even", "odd"])
def posterior(request) -> xr.Dataset:
    """Agents and entries that all differ, with one far away and one that has not converged."""
    random, shape = np.random.default_rng(3), (3, request.param, 4)
    a = random.normal(size=(*shape, 5)) + np.arange(5) + 100
    a[1, :, 2, 3] += 4.0
    a[:, request.param // 2 :, 1, 0] += 2.0
    dims = ("chain", "draw", "agent")
    variables = {
        "a": ((*dims, "a_dim_0"), a),
        "b": (dims, random.normal(size=shape) * [1.0, 1.0, 3.0, 1.0]),
        "c": ((*dims, "c_dim_0", "c_dim_1"), random.normal(size=(*shape, 2, 2))),
    }
    return xr.Dataset(variables, coords={"agent": list("wxyz")})


def plain_agreement(values: np.ndarray) -> pd.DataFrame:
    """Eq. (1) to (3) of `statistics`, of values (chain, draw, agent, entry) in memory."""
    spread, deviations = values.std(axis=(0, 1, 2)), values.std(axis=(0, 1))
    scatter = values - values.mean(axis=2, keepdims=True)
    return pd.DataFrame(
        {
            "mean_range": np.ptp(values.mean(axis=(0, 1)), axis=0) / spread,
            "disagreement": np.sqrt((scatter**2).mean(axis=(0, 1, 2))) / spread,
            "sd_ratio": deviations.max(axis=0) / deviations.min(axis=0),
        }
    )


@pytest.mark.parametrize("block", [1, 2000, 10**9])
def test_agreement(posterior, block):
    found = agreement_table(posterior, ReadLimits(block_bytes=block))
    parts = [v.values.reshape(*v.shape[:3], -1) for v in posterior.data_vars.values()]
    wanted = plain_agreement(np.concatenate(parts, axis=-1))
    np.testing.assert_allclose(found[wanted.columns], wanted, rtol=1e-10)
    assert not found["is_constant"].any()
    assert list(found.index[4:8]) == ["a[4]", "b", "c[0, 0]", "c[0, 1]"]


@pytest.mark.parametrize("quick", [False, True])
def test_convergence(posterior, quick):
    whole = convergence_table(posterior, quick)
    in_pieces = convergence_table(posterior, quick, ReadLimits(block_bytes=1, max_passes=10**9))
    pd.testing.assert_frame_equal(in_pieces, whole, rtol=1e-12)
    assert whole["rhat_agent"]["a[3]"] == "y"
    assert whole["rhat_agent"]["a[0]"] == "x"
    assert whole["rhat"][["a[0]", "a[3]"]].min() > 1.1 > whole["rhat"]["a[1]"]


def test_every_so_many_th_draw_whatever_the_pieces(posterior):
    whole = np.concatenate(list(entry_blocks(posterior)), axis=-1)
    limits = ReadLimits(block_bytes=2500)
    for step in (1, 3, 7):
        found = np.concatenate(list(entry_blocks(posterior, step, limits)), axis=-1)
        np.testing.assert_array_equal(found, whole[:, ::step])
    assert max(piece.nbytes for piece in split_along(posterior, "draw", 5000)) <= 5000


def test_an_entry_has_so_many_draws_at_most(posterior):
    step = thinning_step(posterior, 204, ("chain", "draw", "agent"))
    kept = len(range(0, posterior.sizes["draw"], step))
    assert 3 * kept * 4 <= 204 < 3 * 4 * len(range(0, posterior.sizes["draw"], step - 1))

"""Settings that the agents find by themselves: mode, metric, shares of curvature, step, sampler."""

from starlings.tuning.tuning import EXACTNESS, Tuning, tune

__all__ = ["EXACTNESS", "Tuning", "tune"]

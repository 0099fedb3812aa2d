"""Plates over rows in NumPyro models: every row counts once, since samplers take minibatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.primitives import Messenger


class WholePlates(Messenger):
    """A handler of NumPyro by which plates over rows take all rows instead of a subsample.

    Either the rows are more than the plate takes of them, as in plate("rows", len(y), 100), or they
    are the subsample themselves, as in plate("rows", 10_000, len(y)), and count more than once.

    Args:
        model: what to run.
        rows: the number of rows.
    """

    def __init__(self, model: Callable[..., Any], rows: int) -> None:
        super().__init__(model)
        self.rows = rows
        self.scales: dict[str, float] = {}
        """By plate: how often each row would count."""

    def process_message(self, message: Any) -> None:
        """Give a plate all rows, and take its scale from what is sampled in it."""
        if message["type"] == "plate":
            size, taken = message["args"]
            if taken is not None and taken != size and self.rows in (size, taken):
                message["args"] = (self.rows, self.rows)
                with jax.ensure_compile_time_eval():  # arrays of NumPy take no traced indices
                    message["value"] = jnp.arange(self.rows)
                self.scales[message["name"]] = size / self.rows
        elif message["type"] == "sample" and message["scale"] is not None:
            for frame in message["cond_indep_stack"]:
                message["scale"] = message["scale"] / self.scales.get(frame.name, 1.0)

"""Checks that anybody can run on a sampler or a communicator of their own.

With pytest, three lines hold a sampler to the contract that the samplers of this library keep:

    from starlings.testing import SamplerContract

    class TestMine(SamplerContract):
        samplers = [MySampler(0.1)]

Without pytest, `check_sampler(MySampler(0.1))` does the same. `check_communicator(network)` tries
the communicator of a new runtime. All of them raise a `starlings.ContractError`, which is an
`AssertionError`, and which says what was found and what to do about it.
"""

from starlings.testing.communicators import check_communicator
from starlings.testing.samplers import RULES, SamplerContract, check_sampler

__all__ = ["RULES", "SamplerContract", "check_communicator", "check_sampler"]

"""Communicators keep the contract of `starlings.testing`, and its checks can fail."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.network.communicator import LocalCommunicator
from starlings.testing import check_communicator
from starlings.testing.trial import irregular_network


def test_a_single_process():
    check_communicator(irregular_network())


class WrongRank(LocalCommunicator):
    rank = 1


class ChangesSum(LocalCommunicator):
    def sum(self, values):
        return values * 1.5


class ForgetsText(LocalCommunicator):
    def broadcast(self, value):
        return None if isinstance(value, str) else value


class Invents(LocalCommunicator):
    def first(self, value):
        return 0 if value is None else value


class Shuffles(LocalCommunicator):
    def gather(self, values, axis):
        return np.flip(values, axis)


class HearsNobody(LocalCommunicator):
    incoming = np.array([3])


BROKEN = {
    WrongRank: "`rank` must be from 0 to 0",
    ChangesSum: "every `rank` must belong to one process",
    ForgetsText: "`broadcast` must return 'text' of process 0, got None",
    Invents: "`first` with None everywhere must return None, got 0",
    Shuffles: "`gather` along axis 0 must put agents in the order",
    HearsNobody: "`incoming` must name the agents elsewhere",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_communicator_that_breaks_a_rule_is_refused(kind):
    network = irregular_network().distributed(np.arange(6), kind())
    with pytest.raises(st.ContractError, match=BROKEN[kind]):
        check_communicator(network)

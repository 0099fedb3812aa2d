"""Every sampler that can be masked makes the draws that it makes unmasked; no other one runs."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.errors import PrivacyError
from starlings.privacy.secrecy import Secrecy
from starlings.pytrees import pytree
from starlings.runtime.masked_delivery import MaskedDelivery
from starlings.runtime.neighbourhoods import Neighbourhoods
from starlings.samplers.names import BUILT_IN
from tests.privacy.test_private_runs import LENGTHS, RESOLUTION, RING, draws_of, in_sd, logistic

SAMPLERS = {
    "D-ADMMS": st.DADMMS(rho=4.0),
    "D-ADMMS, iterates": st.DADMMS(rho=4.0, output="iterate"),
    "D-ADMMS, curvature": st.DADMMS(rho=4.0, noise="curvature", output="iterate"),
    "midpoint": st.MidpointADMMS(rho=4.0),
    "C-ADMM": st.CADMM(rho=4.0),
    "D-SGLD": st.DSGLD(step_size=1e-3),
    "D-SGHMC": st.DSGHMC(step_size=0.01, friction=1.0),
    "D-ULA": st.DULA(1e-3, 0.1),
    "GEXTRA": st.GEXTRA(step_size=1e-3),
    "DIGing": st.DIGing(step_size=1e-3),
    "peer learning": st.PeerLearning(),
    "MAHMC": st.MAHMC(step_size=0.02, form="published"),
    "Gibbs": st.NetworkGibbs(rho=4.0),
    "DE-PSGLD": st.DEPSGLD(1e-3, penalty=st.Ball(0.5), smoothing=0.1),
    "DP-SGLD": st.DPSGLD(1e-4, clip=1.0, noise_multiplier=1.0, secret=bytes(32)),
}
QUICK = ("D-SGHMC",)


def test_every_sampler_that_can_be_masked_is_tried():
    maskable = {kind for kind in BUILT_IN.values() if kind.card.masked_as is not None}
    assert maskable == {type(sampler) for sampler in SAMPLERS.values()}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *(
            pytest.param(name, "float64", marks=[] if name in QUICK else [pytest.mark.slow])
            for name in SAMPLERS
        ),
        pytest.param("D-SGLD", "float32", marks=pytest.mark.slow),
    ],
)
def test_masked_draws_are_those_of_an_unmasked_run(name, precision):
    how = {**LENGTHS, "burn_in": 10, "precision": precision}
    plain, masked = (
        st.sample(logistic(), RING, SAMPLERS[name], **how, privacy=privacy)
        for privacy in ("none", "totals")
    )
    distance = in_sd(draws_of(plain) - draws_of(masked), draws_of(plain))
    assert distance < (RESOLUTION if precision == "float64" else 1e-3)


@pytree
@dataclasses.dataclass(frozen=True)
class SaysSum(st.DSGLD):
    """It reads `inbox.mix`, and says that it reads `inbox.sum`."""

    card = dataclasses.replace(st.DSGLD.card, masked_as="sum")


@pytree
@dataclasses.dataclass(frozen=True)
class SaysMix(st.DADMMS):
    """It reads `inbox.sum`, and says that it reads `inbox.mix`."""

    card = dataclasses.replace(st.DADMMS.card, masked_as="mix")


@pytest.mark.parametrize(
    ("sampler", "read", "said"),
    [(SaysSum(step_size=1e-3), "mix", "sum"), (SaysMix(rho=4.0), "sum", "mix")],
)
def test_a_sampler_that_reads_what_its_card_does_not_say_is_refused(sampler, read, said):
    text = f"reads `inbox.{read}`, and its card says `masked_as='{said}'`"
    with pytest.raises(PrivacyError, match=text):
        st.sample(logistic(), RING, sampler, **LENGTHS, burn_in=5, privacy="totals")


def test_runs_of_one_shape_share_a_program_and_not_their_neighbourhoods():
    traced = []

    @jax.jit
    def received(delivery, messages):
        traced.append(1)
        return delivery.deliver(messages).sum

    messages = np.arange(8.0).reshape(4, 2)
    with jax.enable_x64(True):
        for network in (st.Network.ring(4), st.Network.complete(4), st.Network.ring(4)):
            masked = network.masked(Secrecy.agreed(network))
            delivery = MaskedDelivery.to(Neighbourhoods.of(masked, "sum"))
            for _ in range(2):
                found = received(delivery, jnp.asarray(messages))
                np.testing.assert_allclose(found, network.adjacency @ messages, atol=1e-15)
    assert len(traced) == 1

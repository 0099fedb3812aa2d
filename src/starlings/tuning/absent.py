"""Agents that are absent: the posterior of the others, or with a Gaussian in place of their data.

Each agent i works on f_i = -log p(D_i | x) - log p(x) / N. Without the agents S there are two
posteriors on the graph of the others, of which N' are left:

    leave        exp(- sum_{i not in S} f_i),   with log p(x) / N' in f_i: that of the others' data,
                 as if nobody else had ever been there                                          (1)
    stand-in     exp(- sum_{i not in S} f_i - q),   with q the quadratic at the mode c of all data
                 that has the gradient and the Hessian of what is missing                       (2)

Nobody has to know the data of S for q. In coordinates x = c + L z of unit curvature at c the
potentials of all agents have the gradient 0 and the Hessian I there. So what is missing has

    grad q = - sum_{i not in S} grad f_i,      Hess q = I - sum_{i not in S} Hess f_i           (3)

and with shares s_i' of the smaller graph that sum to one, agent i adds to f_i what takes its own
gradient and Hessian at c to those of its share s_i' of the whole:

    b_i = grad f_i,     A_i = Hess f_i - s_i' I,     f_i - b_i'z - z'A_i z / 2                  (4)

(`problem.coordinates`, eq. (2)). The sum over i of (4) is (2). No message is sent for it, and no
sum over the others is formed at c, which would tell what S had there. A stand-in is exact where the
potentials of S are quadratic.
"""

from __future__ import annotations

from collections.abc import Collection

import jax
import numpy as np

from starlings.network import Network
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.problem.absent import LEAVE, check_how
from starlings.problem.local import refuse_local
from starlings.tuning.shares import even_shares
from starlings.tuning.tuner import Coordinates, coordinates_at_mode


def without(
    problem: Problem, network: Network, absent: Collection[str], how: str = LEAVE
) -> tuple[Problem, Network]:
    """The problem and the network of the agents that are there, when others are absent.

    Draws for them are by `sample`, as always, and say whose data they are about: `Result.attrs` has
    `data_of`, and `absent` with the names of the absent agents and what became of their data.

    Args:
        problem: the model and the rows of every site, of which none is absent yet.
        network: who talks to whom, when all are there.
        absent: the names of the absent agents. The others must be connected without them.
        how: "leave": the posterior is that of the others' data. "stand-in": a Gaussian
            approximation, at the mode of everybody's data, is in place of the absent agents' data.
            All rows have to be here for that, since the mode is looked for before they are gone.

    >>> import numpy as np
    >>> import starlings as st
    >>> problem = st.models.gaussian(np.ones((3, 1, 1)), [[0.0], [3.0], [9.0]])
    >>> problem, network = problem.renamed(["a", "b", "c"]), st.Network.complete(3)
    >>> for how in ("leave", "stand-in"):
    ...     fewer, smaller = st.without(problem, network, ["c"], how)
    ...     print(how, fewer.exact_posterior()[0].round(6), smaller.names)
    leave [1.5] ['a', 'b']
    stand-in [4.] ['a', 'b']
    """
    check_how(how)
    if how != LEAVE:
        refuse_local(problem, "a stand-in for absent agents")
    network = network.matched_to(problem.sites)
    fewer = problem.without(absent)
    assert fewer.absent is not None
    smaller = network.without(fewer.absent.sites)
    if how == LEAVE:
        return fewer, smaller
    with jax.enable_x64(True):
        mode, _ = coordinates_at_mode(problem, Gossip(network))
    return stood_in(fewer, smaller, mode), smaller


def stood_in(fewer: Problem, smaller: Network, mode: Coordinates) -> Problem:
    """The problem with a Gaussian in place of the absent agents' data, eq. (2).

    Args:
        fewer: the problem without them, in the model's own coordinates.
        smaller: the network without them.
        mode: c and L of the problem with them.
    """
    moved = fewer.affine(mode.centre, mode.scale)
    with jax.enable_x64(True):
        slope, curvature = even_shares(Gossip(smaller), moved.agents(smaller), is_at_mode=True)
    if mode.scale.ndim == 1:  # (4), as functions of x and not of z
        curvature = curvature / mode.scale**2
        slope = slope / mode.scale - curvature * mode.centre
    else:
        inverse = np.linalg.inv(mode.scale)
        curvature = inverse.T @ curvature @ inverse
        slope = slope @ inverse - curvature @ mode.centre
    return fewer.with_stand_in((mode.centre, mode.scale), slope, curvature)

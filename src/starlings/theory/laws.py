"""Exact laws by sampler: where they are registered, looked up, and used to check step sizes.

A law is a function of the matrices of a quadratic problem on a network (`Stacked`) and of a
sampler. It returns the matrices of one round (`Law`), written from the equations of a paper for all
agents at once, and not from `Sampler.step`: a test that compares a simulation with the law then
compares two derivations. The laws of this library's samplers are in `built_in_laws`; anybody can
add one with `register_law`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from starlings.errors import NoLawError, StabilityError
from starlings.network import Network
from starlings.problem import Problem
from starlings.samplers import Sampler
from starlings.theory.recursions import Law, Recursion

LARGEST_CHECKED = 400
"""Agents times parameters up to which dense matrices of that size are computed with by default."""
BISECTIONS = 20
"""Halvings of the interval that holds the largest stable step: some six digits of it."""


CONNECTED = 1e-9
"""Eigenvalues of L below this share of the largest, or below this number if that is under 1, are
rounding errors of zero."""


@dataclass(frozen=True)
class Stacked:
    """A quadratic problem on a network as dense matrices: all that an exact law is written in.

    The potential of agent i is f_i(x) = x'H_i x / 2 - b_i'x. A stacked vector holds the parameters
    of agent 0, then those of agent 1, and so on. Matrices "on agents" have one row per agent;
    `lift` turns one into a matrix on stacked vectors.
    """

    shape: tuple[int, int]
    """(agents, dim), with dim the number of parameters."""
    H: np.ndarray
    """The Hessians of all agents on the diagonal blocks, (agents dim, agents dim)."""
    b: np.ndarray
    """The linear terms b_i of all agents, (agents dim,)."""
    A: np.ndarray
    """The adjacency matrix, on agents: 1 where two agents are neighbours."""
    W: np.ndarray
    """The Metropolis weights behind `Inbox.mix`, on agents; rows and columns sum to 1."""
    degrees: np.ndarray
    """The number of neighbours of every agent, (agents,)."""
    num_rows: np.ndarray
    """The number of rows of every agent, (agents,)."""
    num_local: int = 0
    """How many of the parameters of every agent, the last ones, are its own."""

    @classmethod
    def of(cls, problem: Problem, network: Network) -> Stacked:
        """The matrices of a quadratic problem on a network in the order of the problem's sites."""
        quadratic = problem.quadratic
        if quadratic is None:
            raise ValueError(
                "`problem` is not quadratic, and exact laws are known for quadratic potentials "
                "only; `starlings.theory.quadratic_model(problem)` approximates it at its mode."
            )
        return cls(
            shape=(problem.num_agents, problem.dim),
            H=scipy.linalg.block_diag(*quadratic.hessian),
            b=quadratic.linear.ravel(),
            A=network.adjacency.toarray(),
            W=network.mixing.toarray(),
            degrees=network.degrees.astype(float),
            num_rows=problem.num_rows,
            num_local=problem.num_local,
        )

    @property
    def laplacian(self) -> np.ndarray:
        """L = diag(degrees) - A, on agents."""
        return np.diag(self.degrees) - self.A

    def lift(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix on agents as a matrix on stacked vectors, the same for every parameter."""
        return np.kron(matrix, np.eye(self.shape[1]))

    @property
    def apart(self) -> np.ndarray:
        """U, an orthonormal basis of the range of L, which is that of I - W: what agents differ by.

        It acts on stacked vectors.
        """
        values, vectors = np.linalg.eigh(self.laplacian)
        return self.lift(vectors[:, values > CONNECTED * max(1.0, values[-1])])

    @property
    def private_noise(self) -> np.ndarray:
        """B for one w ~ N(0, I) at every agent, see `Round.private_noise`: the identity."""
        return np.eye(self.shape[0] * self.shape[1])

    @property
    def shared_noise(self) -> np.ndarray:
        """B for one w ~ N(0, I) that all agents share, see `Round.shared_noise`."""
        return np.tile(np.eye(self.shape[1]), (self.shape[0], 1))


LawFunction = Callable[[Stacked, Any], Law]
"""From the matrices of a problem on a network, and a sampler, to the law of its draws."""

_LAWS: dict[type[Sampler], LawFunction] = {}

_TWO_AGENTS = Stacked(
    shape=(2, 1),
    H=np.eye(2),
    b=np.zeros(2),
    A=np.array([[0.0, 1.0], [1.0, 0.0]]),
    W=np.full((2, 2), 0.5),
    degrees=np.ones(2),
    num_rows=np.ones(2),
)
"""The smallest problem on which a law function can be tried."""


def register_law(kind: type[Sampler], function: LawFunction | None = None) -> Any:
    """Tell `starlings.theory` the exact law of a class of samplers on quadratic potentials.

    Call it with both arguments, or decorate the function with `@register_law(MySampler)`. The law
    holds for this class only: a subclass, whose step may differ, needs one of its own. A second
    law for the same class replaces the first.

    Args:
        kind: a subclass of `starlings.Sampler`.
        function: takes the matrices of a problem on a network (`Stacked`) and a sampler of this
            class, and returns its `Law`. For settings that it does not cover it raises
            `starlings.errors.NoLawError`.

    A sampler of your own that adds private noise of standard deviation 0.1 to half its position:

    >>> from dataclasses import dataclass
    >>> import starlings as st
    >>> from starlings.theory import Recursion
    >>> @st.pytree
    ... @dataclass(frozen=True)
    ... class Halving(st.Sampler):
    ...     card = st.Card("Halving", "position x_i", 1, "does not use the rows", "an example")
    ...     def init(self, agent, position, round):
    ...         return st.PositionState(position)
    ...     def step(self, agent, state, inbox, round):
    ...         x = 0.5 * state.position + 0.1 * round.private_noise(state.position)
    ...         return st.PositionState(x), st.no_info(x)
    >>> @register_law(Halving)
    ... def halving_law(stacked, sampler):
    ...     T = 0.5 * stacked.private_noise
    ...     return Law.constant(stacked.shape, Recursion(T, 0 * stacked.b, 0.1 * np.eye(len(T))))
    >>> exact = law(st.models.gaussian([[[1.0]], [[1.0]]]), st.Network.path(2), Halving())
    >>> float(exact.stationary().covariance[0, 0].round(6))  # 0.1^2 / (1 - 0.5^2)
    0.013333
    """
    if not (isinstance(kind, type) and issubclass(kind, Sampler)):
        raise TypeError(
            f"`kind` must be a subclass of starlings.Sampler, got {kind!r}; write "
            "`@register_law(MySampler)` above the function."
        )
    if function is None:
        return partial(register_law, kind)
    _LAWS[kind] = function
    return function


def law(problem: Problem, network: Network, sampler: Sampler) -> Law:
    """The exact law of a sampler with these settings on a quadratic problem.

    Args:
        problem: one whose potentials are quadratic, such as linear regression with known noise.
        network: its nodes are matched to the problem's sites.
        sampler: a sampler for whose class a law is registered; see `register_law`.
    """
    if network.faults is not None:
        raise NoLawError(
            "no exact law is known where messages are lost; leave `lossy` out for the law without "
            "loss."
        )
    return _complete(Stacked.of(problem, network.matched_to(problem.sites)), sampler)


def has_law(sampler: Sampler) -> bool:
    """Whether the exact law of a sampler with these settings is known; see `register_law`."""
    try:
        _complete(_TWO_AGENTS, sampler)
    except NoLawError:
        return False
    return True


def _complete(stacked: Stacked, sampler: Sampler) -> Law:
    """The registered law, if it holds for covariances too."""
    found = _registered(stacked, sampler)
    if found.mean_only is not None:
        raise NoLawError(found.mean_only)
    return found


def _registered(stacked: Stacked, sampler: Sampler) -> Law:
    """The registered law, which may hold for the mean only."""
    kind = type(sampler)
    if kind not in _LAWS:
        known = ", ".join(sorted(each.__name__ for each in _LAWS))
        raise NoLawError(
            f"no exact law is known for {kind.__name__}; there is one for {known}. Add its own "
            f"with `starlings.theory.register_law({kind.__name__}, function)`, where "
            "`function(stacked, sampler)` returns a `starlings.theory.Law`."
        )
    found: Any = _LAWS[kind](stacked, sampler)
    if not isinstance(found, Law):
        raise TypeError(
            f"the law function registered for {kind.__name__} must return a "
            f"`starlings.theory.Law`, got {found!r}; see `help(starlings.theory.Law)`."
        )
    return found


def check_stability(
    problem: Problem, network: Network, sampler: Sampler, largest: int = LARGEST_CHECKED
) -> None:
    """Raise a `StabilityError` where a constant step size makes a sampler explode.

    The limit is known on quadratic problems, from the registered law of a sampler that names its
    step size in `Sampler.step_field`. In all other cases nothing is checked.

    Args:
        problem: the model and the rows of every site.
        network: in the order of the problem's sites.
        sampler: the sampler with its settings.
        largest: agents times parameters above which the check, whose matrices have that many
            rows, is left out.
    """
    field, too_large = sampler.step_field, problem.num_agents * problem.dim > largest
    if field is None or problem.quadratic is None or too_large:
        return
    stacked = Stacked.of(problem, network)
    try:
        if _registered(stacked, sampler).varies:
            return
    except NoLawError:
        return
    given = float(sampler.settings()[field])

    def at(value: float) -> Recursion:
        return _registered(stacked, sampler.with_settings(**{field: value})).whole_cycle()

    def is_stable(value: float) -> bool:
        return at(value).spectral_radius() < 1

    if is_stable(given):
        return
    if at(given).has_eigenvalue_1() and at(given / 2).has_eigenvalue_1():
        raise StabilityError(
            f"the law of {type(sampler).__name__} has the eigenvalue 1 at every `{field}`: a "
            "combination of its state never changes, so no step can be called stable. Leave it "
            "out of the state of the law, see `help(starlings.theory.Law)`; or, if the posterior "
            "is flat in some direction, give it a prior."
        )
    limit = _largest_stable(is_stable, given)
    remedy = f"take less than {limit:.3g}" if limit > 0 else f"no step is stable in {sampler}"
    raise StabilityError(
        f"`{field}` {given} is beyond the stability limit of this problem; {remedy}."
    )


def _largest_stable(is_stable: Callable[[float], bool], unstable: float) -> float:
    """The largest stable step below an unstable one, by bisection; 0 if none was found."""
    low, high = 0.0, unstable
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low

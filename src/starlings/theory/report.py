"""A report of the convergence of D-ADMMS on one problem and network: a table and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from starlings.errors import check_positive
from starlings.network import Network
from starlings.problem import Problem
from starlings.theory.bound import Bound, Distances, paper_law, wasserstein_bound
from starlings.theory.convergence import Conditioning, contraction_rate
from starlings.theory.laws import LARGEST_CHECKED
from starlings.theory.taylor import quadratic_model

if TYPE_CHECKING:
    from rich.console import Console


class Row(NamedTuple):
    """One line of the table."""

    name: str
    """The quantity in words."""
    symbol: str
    """Its symbol in the paper, or none."""
    value: float | None
    """Its value; None if it was not computed."""
    meaning: str
    """What it says, in a few words."""


@dataclass(frozen=True)
class ConvergenceReport:
    """What the theory says about D-ADMMS with the paper's noise at one penalty rho."""

    local: bool
    """Whether the potentials were replaced by their second-order Taylor models at a point."""
    rho: float
    """The penalty."""
    numbers: Conditioning
    """Curvatures of the problem and singular values of the graph."""
    kappa: float
    """The best free constant of the contraction at this rho."""
    delta: float
    """The contraction that is guaranteed at this rho."""
    best_kappa: float
    """kappa at `best_rho`."""
    best_rho: float
    """The penalty with the largest guaranteed contraction."""
    best_delta: float
    """delta_max, the contraction that is guaranteed at `best_rho`."""
    bound: Bound
    """The theorem's bound at this rho."""
    corrected: bool
    """Whether c has the factor 1 / rho that the paper dropped."""
    rate: float
    """The guaranteed factor per round, (1 + delta)^(-1/2)."""
    spectral_radius: float | None
    """The true factor per round; None for a problem that is too large for exact laws."""
    stationary: Distances | None
    """The distances from the posterior that remain; None for a problem that is too large."""

    @property
    def margin(self) -> float:
        """m_f delta at this rho; the theorem needs more than 1/2."""
        return self.numbers.strong_convexity * self.delta

    @property
    def best_margin(self) -> float:
        """m_f delta_max; above 1/2 there is a rho at which the theorem holds."""
        return self.numbers.strong_convexity * self.best_delta

    def rows(self) -> list[Row]:
        """The table: name, symbol, value and meaning of every number."""
        f, bound = self.numbers, self.bound
        product, worst, average = self.stationary or (None, None, None)
        c = "c" if self.corrected else "c as printed"
        lemma = zip(("a", "b", c, "d", "e"), bound.coefficients, strict=True)
        return [
            Row("penalty", "rho", self.rho, "as chosen"),
            Row("strong convexity", "m_f", f.strong_convexity, "smallest curvature of any agent"),
            Row("smoothness", "M_f", f.smoothness, "largest curvature of any agent"),
            Row("condition of the data", "tau_f", f.condition, "M_f / m_f"),
            Row("largest singular value", "s_max(M+)", f.plus_max, "grows with the degrees"),
            Row("smallest singular value", "s_min(M-)", f.minus_min, "grows with connectivity"),
            Row("condition of the graph", "tau_G", f.graph_condition, "their ratio"),
            Row("allowed condition", "tau_f <", f.largest_condition(), "by the theorem at rho*"),
            Row("split", "kappa", self.kappa, "best for this rho"),
            Row("contraction", "delta", self.delta, "guaranteed at this rho"),
            Row("theorem's condition", "m_f delta", self.margin, "has to exceed 1/2"),
            Row("best penalty", "rho*", self.best_rho, "where delta is largest"),
            Row("best contraction", "delta_max", self.best_delta, "delta at rho*"),
            Row("best condition", "m_f delta_max", self.best_margin, "has to exceed 1/2"),
            *(Row("coefficient", symbol, value, "of Lemma 2") for symbol, value in lemma),
            Row("initial error", "W_G(0)", bound.start, "starting from x_i ~ N(0, I)"),
            Row("noise, first order", "Y", bound.mean_y, "mean of y in Lemma 2"),
            Row("noise, second order", "R", bound.mean_r, "mean of r in Lemma 2"),
            Row("fourth term", "", bound.noise_term, "of the theorem, whatever rho and k"),
            Row("fifth term", "", bound.target_term, "of the theorem, whatever rho and k"),
            Row("theorem's limit", "", bound.limit(), "its bound on the next row, k -> inf"),
            Row("true limit", "W(X, copies)", product, "all draws from independent copies"),
            Row("true limit", "W(x_i)", worst, "worst agent from the posterior"),
            Row("true limit", "W(mean)", average, "the agents' average from the posterior"),
            Row("guaranteed rate", "(1+delta)^-1/2", self.rate, "factor per round, for every rho"),
            Row("true rate", "radius", self.spectral_radius, "factor per round"),
        ]

    def verdict(self) -> str:
        """What the numbers mean, in a few sentences."""
        sentences = [self._on_theorem(), self._on_rate(), self._on_limit()]
        if self.local:
            sentences.append(
                "The potentials are not quadratic: their curvatures were taken at one point, and "
                "all of this holds near that point only."
            )
        return " ".join(sentence for sentence in sentences if sentence)

    def _on_theorem(self) -> str:
        """Whether the theorem's condition holds, here or at another rho."""
        if self.margin > 0.5:
            return (
                f"The theorem's condition holds: m_f delta is {self.margin:.4g}, above 1/2. Its "
                f"bound falls to {self.bound.limit():.3g}, not to zero."
            )
        here = f"it needs m_f delta > 1/2, here {self.margin:.4g}"
        if self.best_margin > 0.5:
            return f"The theorem's condition fails: {here}; it holds at rho = {self.best_rho:.4g}."
        return (
            f"The theorem's condition fails: {here}, and at most {self.best_margin:.4g} at any rho."
        )

    def _on_rate(self) -> str:
        """How fast the iterates converge."""
        true = "" if self.spectral_radius is None else f" (true rate {self.spectral_radius:.4g})"
        opening = "The" if self.margin > 0.5 else "Convergence nevertheless holds: the"
        return (
            f"{opening} distance of the iterates from their own stationary law shrinks at rate "
            f"{self.rate:.4g} per round or faster{true}, and at some rate below 1 for every rho."
        )

    def _on_limit(self) -> str:
        """How far from the posterior the draws stay."""
        if self.stationary is None:
            return ""
        return (
            "That law is not the posterior: with the paper's noise the worst agent stays at a "
            f"2-Wasserstein distance of {self.stationary.worst_agent:.3g} from it, and the average "
            f"of the agents at {self.stationary.average:.3g}."
        )


def convergence_report(
    problem: Problem,
    network: Network,
    rho: float,
    *,
    point: Any = None,
    corrected: bool = True,
    largest: int = LARGEST_CHECKED,
) -> ConvergenceReport:
    """Everything that the theory says about D-ADMMS with the paper's noise.

    Args:
        problem: a quadratic one, or one that is replaced by its second-order model at `point`.
        network: connected; its nodes are matched to the problem's sites.
        rho: the penalty.
        point: where that model is taken, as a flat vector of unconstrained coordinates; by
            default the mode of the posterior.
        corrected: give the coefficient c the factor 1 / rho that the paper's proof drops.
        largest: agents times parameters above which the exact law, whose matrices have that many
            rows, is not computed.
    """
    check_positive(rho=rho)
    network, model = network.matched_to(problem.sites), quadratic_model(problem, point)
    numbers = Conditioning.of(model, network)
    kappa = numbers.best_kappa(rho)
    best_kappa, best_rho, best_delta = numbers.optimum()
    radius = stationary = None
    if model.num_agents * model.dim <= largest:
        exact = paper_law(model, network, rho)
        radius = exact.recursion(1).spectral_radius()
        stationary = Distances.of(exact.stationary(), model)
    return ConvergenceReport(
        local=model is not problem,
        rho=rho,
        numbers=numbers,
        kappa=kappa,
        delta=numbers.delta(kappa, rho),
        best_kappa=best_kappa,
        best_rho=best_rho,
        best_delta=best_delta,
        bound=wasserstein_bound(model, network, rho, corrected=corrected),
        corrected=corrected,
        rate=contraction_rate(numbers, rho),
        spectral_radius=radius,
        stationary=stationary,
    )


def print_report(report: ConvergenceReport, console: Console) -> None:
    """Print the table of a report and its verdict on a console of `rich`."""
    from rich.table import Table

    table = Table("quantity", "symbol", "value", "meaning", title="Convergence of D-ADMMS")
    table.columns[2].justify = "right"
    for name, symbol, value, meaning in report.rows():
        shown = "not computed" if value is None else f"{value:.5g}"
        table.add_row(name, symbol, shown, meaning)
    console.print(table, report.verdict(), markup=False, highlight=False)

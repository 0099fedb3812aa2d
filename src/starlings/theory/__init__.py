"""What is known exactly: laws on quadratic potentials, rates of convergence, and their limits."""

from starlings.theory.bound import Bound, Distances, paper_law, true_distances, wasserstein_bound
from starlings.theory.convergence import (
    Coefficients,
    Conditioning,
    GraphMatrices,
    coefficients,
    contraction_rate,
    graph_matrices,
    noise_norm,
    posterior_mode,
    quadratic_model,
    regular_multipliers,
    regular_variances,
)
from starlings.theory.laws import Law, Moments, check_stability, gaussian_w2, law
from starlings.theory.report import ConvergenceReport, convergence_report, print_report

__all__ = [
    "Bound",
    "Coefficients",
    "Conditioning",
    "ConvergenceReport",
    "Distances",
    "GraphMatrices",
    "Law",
    "Moments",
    "check_stability",
    "coefficients",
    "contraction_rate",
    "convergence_report",
    "gaussian_w2",
    "graph_matrices",
    "law",
    "noise_norm",
    "paper_law",
    "posterior_mode",
    "print_report",
    "quadratic_model",
    "regular_multipliers",
    "regular_variances",
    "true_distances",
    "wasserstein_bound",
]

"""Exact laws of samplers on quadratic potentials, and how fast D-ADMMS converges."""

from starlings.theory import (
    admm_laws,
    built_in_laws,
    hub_distributed_laws,
    hub_elf_laws,
    hub_fald_laws,
    hub_fedpa_laws,
    hub_qlsd_laws,
    hub_split_laws,
    proximal_laws,
)
from starlings.theory.bound import Bound, Distances, paper_law, true_distances, wasserstein_bound
from starlings.theory.convergence import (
    Coefficients,
    Conditioning,
    GraphMatrices,
    coefficients,
    contraction_rate,
    graph_matrices,
    noise_norm,
)
from starlings.theory.laws import Stacked, check_stability, has_law, law, register_law
from starlings.theory.powers import moments_at
from starlings.theory.recursions import Law, Moments, Recursion, gaussian_w2
from starlings.theory.regular_graphs import regular_multipliers, regular_variances
from starlings.theory.report import ConvergenceReport, convergence_report, print_report
from starlings.theory.taylor import posterior_mode, quadratic_model

__all__ = [
    "Bound",
    "Coefficients",
    "Conditioning",
    "ConvergenceReport",
    "Distances",
    "GraphMatrices",
    "Law",
    "Moments",
    "Recursion",
    "Stacked",
    "admm_laws",
    "built_in_laws",
    "check_stability",
    "coefficients",
    "contraction_rate",
    "convergence_report",
    "gaussian_w2",
    "graph_matrices",
    "has_law",
    "hub_distributed_laws",
    "hub_elf_laws",
    "hub_fald_laws",
    "hub_fedpa_laws",
    "hub_qlsd_laws",
    "hub_split_laws",
    "law",
    "moments_at",
    "noise_norm",
    "paper_law",
    "posterior_mode",
    "print_report",
    "proximal_laws",
    "quadratic_model",
    "register_law",
    "regular_multipliers",
    "regular_variances",
    "true_distances",
    "wasserstein_bound",
]

"""Simulation-based calibration (Talts et al., 2018): do draws come from the posterior?

Draw parameters from the prior, data with these parameters, and L draws from the posterior given
the data:

    theta ~ p(theta),     y ~ p(y | theta),     theta_1, ..., theta_L ~ p(theta | y)        (1)

Given the data, theta is distributed as one more draw from the posterior. Whatever the model, the
rank of each of its entries among independent draws,

    r = #{l : theta_l < theta},     is uniform on 0, 1, ..., L                              (2)

at every agent, and a sampler that is biased, too wide or too narrow shows in the histogram of r.
`replications` computes the ranks, `judging` tests them, and `study` calibrates a study.
"""

from starlings.calibration.judging import Calibration
from starlings.calibration.replications import BySums, NearlyIndependent, calibrate
from starlings.calibration.study import calibrate_study, print_report

__all__ = [
    "BySums",
    "Calibration",
    "NearlyIndependent",
    "calibrate",
    "calibrate_study",
    "print_report",
]

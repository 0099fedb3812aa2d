"""Simulation-based calibration (Talts et al., 2018): are the draws those of the posterior?

Draw parameters from the prior, data given them, and then L draws from the posterior of those data:

    theta ~ p(theta),     y ~ p(y | theta),     theta_1, ..., theta_L ~ p(theta | y)        (1)

Seen from the data, theta is one more draw from the posterior. Whatever the model, the rank of each
of its entries among independent draws,

    r = #{l : theta_l < theta},     is uniform on 0, 1, ..., L                              (2)

at every agent, and a sampler that is biased, too wide or too narrow shows in the histogram of r.
`replications` makes the ranks, `judging` says what they mean, and `study` does it for a study.
"""

from starlings.calibration.judging import Calibration
from starlings.calibration.replications import NearlyIndependent, calibrate
from starlings.calibration.study import calibrate_study, print_report

__all__ = ["Calibration", "NearlyIndependent", "calibrate", "calibrate_study", "print_report"]

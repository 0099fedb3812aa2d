"""What is given: the model and the rows of every site, as potentials of agents."""

from starlings.problem.agent import Agent
from starlings.problem.parameters import Parameter, Parameters
from starlings.problem.problem import Problem

__all__ = ["Agent", "Parameter", "Parameters", "Problem"]

"""`sample`: from a problem and a network to draws with their names."""

from starlings.sampling.sampling import sample
from starlings.sampling.starts import start_positions

__all__ = ["sample", "start_positions"]

"""What agents compute from potentials: gradients and proximal points, and in `pooled` the mode."""

"""Thirteen real posteriors with reference draws, divided among agents."""

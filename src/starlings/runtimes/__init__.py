"""Ways to move messages and turn the crank; all run the same `step` with the same noise."""

"""Runs the rounds: the loop over them, its chunks, checkpoints and recorded draws."""

"""Who turns the crank: the loop over rounds, its chunks, checkpoints and recorded draws."""

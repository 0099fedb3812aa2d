"""Random numbers by address: a run draws the same ones on any machine and after any restart."""

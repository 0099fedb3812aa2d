"""Studies about the library: the paper reproduced, accuracy on real data, the demo."""

"""Which of several models fits better: evidence, and leave-one-out cross-validation."""

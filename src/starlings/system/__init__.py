"""Files, locks, progress, signals and the compilation cache: what is not about inference."""

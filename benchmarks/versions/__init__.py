"""Two versions of the library, timed in turns on one machine."""

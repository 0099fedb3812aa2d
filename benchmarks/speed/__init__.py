"""How fast: against the reference way, the limit, growth, pooled NUTS, the start, and a GPU."""

"""The experiments of the paper, and beside each the claims that its numbers decide."""

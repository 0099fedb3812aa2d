"""How right the draws are on real data with natural sites: `starlings accuracy`."""

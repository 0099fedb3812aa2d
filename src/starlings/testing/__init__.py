"""Checks that anybody can run on a sampler or a communicator of their own."""

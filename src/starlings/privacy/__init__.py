"""Sums of which nobody learns anything but the total.

fixed_point.py    numbers as integers modulo 2^128, whose sums are exact in any order
keys.py           a secret key for every pair of sites, from public keys
masks.py          what a site adds to its numbers so that they mean nothing, and cancels in the sum
accounting.py     epsilon and delta of a run with differentially private messages
"""

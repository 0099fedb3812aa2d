"""Engines for federated computing that organisations have: `starlings` as one of their jobs.

    job         what all sites run: a study without rows, in a form that a reviewer reads
    settings    what a site decides for itself: its rows, its guard rails, the place of its results
    identity    certificates of an engine, with which sites sign their keys for masks
    program     what one site runs, from its rows to its draws
    flare       NVIDIA FLARE

An engine offers: bytes in order between each site and a hub, one process of a site that lives as
long as a run, and an end for all where one is lost. Then it is a few files, see `flare`.
"""

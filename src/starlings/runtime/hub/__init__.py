"""A runtime of sites that reach each other through a hub, which only adds and forwards.

    messages       what a site sends for one call, and what it gets back
    hub            what the hub does with the messages of all sites: it has no other state
    communicator   the `Communicator` of a site

How bytes travel between a site and the hub is not said here: an engine for federated computing does
that, such as NVIDIA FLARE in `starlings.engines.flare`.
"""

"""The runtime on all processes of an MPI job."""

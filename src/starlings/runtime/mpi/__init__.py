"""The runtime for the processes of an MPI job; `Cluster` is where a program begins."""

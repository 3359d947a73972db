"""The control service: answers for the cluster as if it were one Triton, and the router's own admin API."""

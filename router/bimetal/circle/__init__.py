"""Observe, decide, publish: what ties the parts together, one turn at a time."""

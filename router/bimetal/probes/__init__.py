"""Observe: ask each Triton, with tritonclient, what it is and what it has loaded."""

"""Decide: pure functions of observations, breaker states and a clock. No I/O."""

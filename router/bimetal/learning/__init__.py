"""Observe, from the traffic itself: how long each backend really takes for each model, and what to believe of it."""

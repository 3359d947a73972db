"""Observe, from the traffic itself: what became of each try, as Envoy's access log tells it."""

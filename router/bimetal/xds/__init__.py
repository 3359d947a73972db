"""Publish: the routing table as xDS, in one shape for Envoy and one for proxyless gRPC clients."""

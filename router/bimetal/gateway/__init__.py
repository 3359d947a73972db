"""The Envoy gateway: its bootstrap, and the part of the road that needs the router to read a message."""

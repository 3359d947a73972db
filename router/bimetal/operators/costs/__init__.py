"""What a node costs: floating-point operations, bytes, and time on a reference machine."""

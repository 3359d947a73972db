"""Reads PyTorch files without torch and without running anything in them; `file.read_torch_graph` is the way in."""

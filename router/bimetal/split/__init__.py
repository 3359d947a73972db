"""Cutting a model for a mixed cluster: where, whether it pays, and what Triton then serves.

The way of a file: `cut_model` reads it whole, `cut_points` says where it may be cut and makes it a
`chain`, `search` finds the best parts with `costs`, `plan` decides, `extract` makes the segments
and `repository` writes them with the pipeline. docs/split.md has the rules in full.
"""

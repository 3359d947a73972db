"""Model sources and the builder that renders one Triton repository per pool."""

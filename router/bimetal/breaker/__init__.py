"""Whether a backend may be trusted: what each try says of it, its breaker, and how gateways' opinions become one.

Pure: values, and times that are the caller's.
"""

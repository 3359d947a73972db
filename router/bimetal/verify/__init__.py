"""Dynamic verification: ONNX's own node tests, run on the execution provider that a host has.

The way of a test: `cases` takes it from the onnx package, `variants` derives other types and older
operator versions from it, `supervisor` has a `worker` process run it (`execution`), `records` puts
the outcomes of one operator variant together, `results` is the document that holds the records,
and `overlay` makes them cells of the operator matrix that beat documentation.
"""

from bimetal.verify.overlay import load_verified, overlay
from bimetal.verify.results import Results, ResultsError, read_results, write_results

__all__ = ["Results", "ResultsError", "load_verified", "overlay", "read_results", "write_results"]

"""Calibration: what a host's devices really do, measured with torch, in place of their data sheets.

`benchmark` measures, `document` holds what came of it, `book` is what the router knows of it.
"""

from bimetal.calibration.book import CalibrationBook
from bimetal.calibration.document import Calibration, CalibrationError, read_calibration

__all__ = ["Calibration", "CalibrationBook", "CalibrationError", "read_calibration"]

"""What the router knows of calibrations: reads `STATE_DIR/calibrated` again when a file changed."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from bimetal.calibration.document import CalibrationError, read_calibration
from bimetal.fleet.schema import Fleet

log = structlog.get_logger(__name__)


class CalibrationBook:
    """Backend → memory bandwidth in GB/s, once every backend was calibrated.

    Until then there is none, and the data sheets count for all: a bandwidth that was measured is some tenth below the
    published one, and a host would lose traffic by being calibrated first.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._folder = fleet.state_dir / "calibrated"
        self._backends = frozenset(backend.name for backend in fleet.backends)
        self._stamps: frozenset[tuple[Path, int]] = frozenset()
        self._bandwidths: Mapping[str, float] = {}

    @property
    def bandwidths(self) -> Mapping[str, float]:
        """The bandwidths of all backends, or none."""
        return self._bandwidths

    async def refresh(self) -> bool:
        """Read what is new on disk; whether any bandwidth changed."""
        stamps = frozenset((file, file.stat().st_mtime_ns) for file in self._folder.glob("*.json"))
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        before, self._bandwidths = self._bandwidths, await asyncio.to_thread(self._read)
        if before == self._bandwidths:
            return False
        log.info("measured bandwidths count" if self._bandwidths else "data sheets' bandwidths count again")
        return True

    def _read(self) -> Mapping[str, float]:
        found = {}
        for name in self._backends:
            file = self._folder / f"{name}.json"
            if not file.exists():
                return {}
            try:
                found[name] = read_calibration(file).bandwidth_gbs
            except CalibrationError as error:
                log.warning("calibrations are left out until all can be read", error=str(error))
                return {}
        return found

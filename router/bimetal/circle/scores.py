"""Operator scores: reads the model files of each pool's repository, off the event loop, and remembers the verdicts."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from bimetal.fleet.schema import Fleet
from bimetal.operators import Matrix, ModelFileError, default_matrix, judge
from bimetal.operators.matrix.matrix import Learned, Place
from bimetal.policy.table import OperatorScore, Scores
from bimetal.state.fleet_state import FleetState
from bimetal.verify import ResultsError, load_verified, overlay

log = structlog.get_logger(__name__)

_MODEL_FILES = ("model.onnx", "model.pt", "model.pt2")
"""Triton's names for the files of its ONNX and PyTorch backends."""
_Stamp = tuple[Path, int, int]
"""Path, modification time in ns, size: a file that has another stamp is read again."""


class ScoreBook:
    """(model, pool) → operator score, refreshed when a file or the versions that are ready change.

    What `bimetal ops verify` measured on the cluster (`STATE_DIR/verified`) beats the documented matrix, and `bimetal
    learn` tells how fast its operators were.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._matrix = default_matrix()
        self._verified: frozenset[_Stamp] = frozenset()
        self._learned: dict[Place, Learned] = {}
        self._scores: dict[tuple[str, str], OperatorScore] = {}
        self._stamps: dict[tuple[str, str], _Stamp] = {}

    @property
    def scores(self) -> Scores:
        """The scores known so far."""
        return self._scores

    async def refresh(self, state: FleetState, learned: Mapping[Place, Learned] | None = None) -> bool:
        """Read what is new on disk; whether any score changed.

        Args:
            learned: what `bimetal learn` found about operators.
        """
        before = dict(self._scores)
        await self._look_at_verified()
        if learned is not None and learned != self._learned:
            self._learned = dict(learned)
            self._stamps.clear()
        for (model, pool), file in _files(self._fleet, state).items():
            await self._look(model, pool, file)
        return before != self._scores

    async def _look_at_verified(self) -> None:
        folder = self._fleet.state_dir / "verified"
        stamps = frozenset(s for s in map(_stamp, folder.glob("*.json")) if s)
        if stamps == self._verified:
            return
        self._verified = stamps
        try:
            self._matrix = overlay(default_matrix(), await asyncio.to_thread(load_verified, folder))
        except ResultsError as error:
            log.warning("verified results are left out until they can be read", error=str(error))
            self._matrix = default_matrix()
        self._stamps.clear()

    async def _look(self, model: str, pool: str, file: Path) -> None:
        stamp = _stamp(file)
        if stamp is None:
            self._scores.pop((model, pool), None)
            self._stamps.pop((model, pool), None)
        elif self._stamps.get((model, pool)) != stamp:
            provider = self._fleet.pools[pool].provider
            matrix = self._matrix.taught(self._learned)
            self._scores[model, pool] = await asyncio.to_thread(_score, file, provider, matrix)
            self._stamps[model, pool] = stamp


def _stamp(file: Path) -> _Stamp | None:
    """None if there is no such file, or none that this process may see."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return file, stat.st_mtime_ns, stat.st_size


def _files(fleet: Fleet, state: FleetState) -> Mapping[tuple[str, str], Path]:
    """The model file of each (model, pool): of the newest version that is ready there."""
    found: dict[tuple[str, str], Path] = {}
    for backend in fleet.backends:
        observation = state.observations.get(backend.name)
        for model in observation.models.values() if observation else ():
            if model.ready:
                version = fleet.pool_of(backend).repository / model.name / model.versions[-1]
                files = [version / name for name in _MODEL_FILES]
                found[model.name, backend.pool] = next(filter(_stamp, files), files[0])
    return found


def _score(file: Path, provider: str, matrix: Matrix) -> OperatorScore:
    try:
        verdict = judge(file, provider, matrix)
    except ModelFileError as error:
        return OperatorScore(None, (str(error),))
    return OperatorScore(verdict.score, tuple(f"{r.text} [{r.source}]" for r in verdict.reasons))

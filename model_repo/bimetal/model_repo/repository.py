"""One pool's model repository on disk: folders that the builder made, and only those."""

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from bimetal.files import write_if_changed
from bimetal.model_repo.errors import OutputError

MARKER = ".rendered-by-bimetal"
_MARKER_TEXT = b"The builder rewrites this folder, and removes it when the model's source is gone.\n"

Status = Literal["built", "unchanged", "removed"]


def write_model(directory: Path, files: Mapping[str, bytes]) -> Status:
    """Make ``directory`` hold ``files`` (relative path to content); a file that has it already is not touched.

    Raises OutputError, before anything is written, if the folder is there and is not the builder's.
    """
    refuse_foreign(directory)
    # The marker first: a build that is cut short leaves a folder that the next one may finish.
    changed = write_if_changed(directory / MARKER, _MARKER_TEXT)
    for relative, content in files.items():
        changed |= write_if_changed(directory / relative, content)
    for leftover in _leftovers(directory, files):
        leftover.unlink()
        changed = True
    return "built" if changed else "unchanged"


def refuse_foreign(directory: Path) -> None:
    """Raises OutputError for a folder that the builder did not make, so that nothing of others is overwritten."""
    if directory.exists() and not (directory / MARKER).is_file():
        raise OutputError(
            f"{directory}: exists and was not made by the builder (no {MARKER} in it). "
            "Move it away, or choose another folder with --out."
        )


def remove_stale(repository: Path, known: Collection[str]) -> list[str]:
    """Remove the folders that the builder made for models that are not ``known`` any more; their names."""
    stale = [marker.parent for marker in sorted(repository.glob(f"*/{MARKER}")) if marker.parent.name not in known]
    for directory in stale:
        shutil.rmtree(directory)
    return [directory.name for directory in stale]


def _leftovers(directory: Path, files: Mapping[str, bytes]) -> list[Path]:
    """What an earlier source of the model had and this one has not, such as the ONNX file of a model that
    is Python now. Python's own ``__pycache__`` is none of it."""
    wanted = {directory / relative for relative in files} | {directory / MARKER}
    present = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [path for path in present if path not in wanted]

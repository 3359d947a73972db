"""images.lock.json: what was built or pushed, by digest, for whoever deploys it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bimetal.files import write_whole
from bimetal.images.errors import ImageError

SCHEMA = 1


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The entries by "image:variant"; none when there is no file yet."""
    if not file.exists():
        return {}
    try:
        document = json.loads(file.read_text())
        if document["schema"] != SCHEMA:
            raise ImageError(f"{file} has schema {document['schema']}, expected {SCHEMA}.", "remove it and build again")
        images: dict[str, dict[str, Any]] = document["images"]
    except (ValueError, KeyError, TypeError) as error:
        raise ImageError(f"{file} is no lock of images: {error}.", "remove it and build again") from error
    return images


def record(file: Path, name: str, entry: Mapping[str, object]) -> None:
    """Put one entry in and leave the others; the file is the old one or the new one, never half."""
    images = read(file) | {name: dict(entry)}
    text = json.dumps({"schema": SCHEMA, "images": dict(sorted(images.items()))}, indent=2) + "\n"
    write_whole(file, text)


def entry_of(file: Path, name: str) -> dict[str, Any]:
    """One entry. Raises ImageError when that image was never built."""
    images = read(file)
    if name not in images:
        raise ImageError(f"{name} is not in {file.name}.", f"build it: bimetal-images build {name}")
    return images[name]

"""Files that are either the old or the new one, never half."""

import os
import tempfile
from pathlib import Path

from bimetal.errors import BimetalError


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace `path` by a file with `text`. Raises BimetalError, and then leaves `path` as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
            new.write(text)
        Path(new.name).chmod(mode)
        os.replace(new.name, path)
    except OSError as error:
        raise BimetalError(f"{path} cannot be written: {error}.", "Check the folder's owner and free space.") from error

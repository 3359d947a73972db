"""Files that are either the old or the new one, never half."""

import os
import tempfile
from pathlib import Path

from bimetal.errors import BimetalError


def write_whole(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replace `path` by a file with `content`; folders are made. Raises BimetalError, and then leaves it as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
            try:
                new.write(content.encode() if isinstance(content, str) else content)
                new.flush()
                # A temporary file is its owner's alone, but Triton may run as another user.
                os.chmod(new.name, mode)
                os.replace(new.name, path)
            except BaseException:
                os.unlink(new.name)
                raise
    except OSError as error:
        raise BimetalError(f"{path} cannot be written: {error}.", "Check the folder's owner and free space.") from error


def write_if_changed(path: Path, content: bytes) -> bool:
    """True if `path` did not hold `content` before; otherwise it is left alone, with its time stamp."""
    if path.is_file() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True

"""Writing files so that a reader sees the old content or the new one, never half of it."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path`` and move it there in one step; parents are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)  # mkstemp keeps it to its owner, but Triton may run as another user
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_if_changed(path: Path, content: bytes) -> bool:
    """True if ``path`` did not hold ``content`` before; otherwise it is left alone, with its time stamp."""
    if path.is_file() and path.read_bytes() == content:
        return False
    write_atomically(path, content)
    return True

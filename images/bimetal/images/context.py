"""Build contexts: the files that a Dockerfile sees, as a tar of its own whose bytes depend on nothing else."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class File:
    """One file of a context: where its bytes are, or the bytes themselves."""

    content: bytes | Path
    executable: bool = False

    def read(self) -> bytes:
        """The content, from disk where it is a path. Raises OSError."""
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


Context = Mapping[str, File]


def tree(folder: Path, prefix: str) -> dict[str, File]:
    """Every file below `folder`, under `prefix`; what Python wrote beside its sources is left out."""
    return {
        f"{prefix}/{path.relative_to(folder)}": File(path, executable=bool(path.stat().st_mode & 0o100))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def digest(context: Context, *more: str) -> str:
    """12 hex digits that change when a name, a mode, a byte, or one of `more` does."""
    total = hashlib.sha256()
    for part in more:
        total.update(f"{part}\0".encode())
    for name, file in sorted(context.items()):
        total.update(f"{name}\0{file.executable}\0{hashlib.sha256(file.read()).hexdigest()}\0".encode())
    return total.hexdigest()[:12]


@contextmanager
def as_tar(context: Context) -> Iterator[IO[bytes]]:
    """The context as a tar file that is gone after the block; times and owners are always the same."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name, entry in sorted(context.items()):
                data = entry.read()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                info.mode = 0o755 if entry.executable else 0o644
                tar.addfile(info, io.BytesIO(data))
        file.seek(0)
        yield file

"""Pack rendered model repositories for hosts elsewhere: one archive per pool, named by the digest of its files.

Prints {"changed": BOOL, "digests": {POOL: DIGEST}}. Standard library only. The same files give the same archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

WHOLE = ".whole"
"""Written last: a copy that was interrupted lacks it."""


def files_of(repository: Path) -> list[Path]:
    """What is served, sorted; not what Python wrote when a model was loaded here."""
    return sorted(path for path in repository.rglob("*") if path.is_file() and path.suffix != ".pyc")


def digest_of(repository: Path) -> str:
    """Twelve digits over names and contents."""
    digest = hashlib.sha256()
    for path in files_of(repository):
        digest.update(f"{path.relative_to(repository)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Root's, readable by the server's own user, and of no time: whoever packs, the archive is the same."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    member.mode = 0o644
    return member


def pack(repository: Path, archive: Path) -> None:
    """Write the archive; it is there whole or not at all."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".part")
    with tarfile.open(unfinished, "w") as tar:
        for path in files_of(repository):
            tar.add(path, str(path.relative_to(repository)), filter=plain)
        tar.addfile(plain(tarfile.TarInfo(WHOLE)), io.BytesIO())
    unfinished.replace(archive)


def main() -> int:
    """Pack the pools of a directory, and remove the archives of what they were before."""
    rendered, pools = Path(sys.argv[1]), sys.argv[2:]
    digests = {pool: digest_of(rendered / pool) for pool in pools}
    wanted = {pool: rendered / "archives" / f"{pool}-{digest}.tar" for pool, digest in digests.items()}
    missing = {pool: archive for pool, archive in wanted.items() if not archive.exists()}
    for pool, archive in missing.items():
        for old in archive.parent.glob(f"{pool}-*.tar"):
            old.unlink()
        pack(rendered / pool, archive)
    sys.stdout.write(json.dumps({"changed": bool(missing), "digests": digests}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

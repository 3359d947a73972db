"""Changes a small text file the way an Ansible module must: check mode, diff, backup, all or nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing import Any as AnsibleModule  # ships no types


class Diff(TypedDict):
    """What `--diff` shows of one file."""

    before_header: str
    after_header: str
    before: str
    after: str


def read(path: Path) -> str | None:
    """The file's text; None without a file."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def change(module: AnsibleModule, path: Path, text: str | None, *, backup: bool) -> Diff | None:
    """Make the file say `text`, or be absent for None. What changed, or None; nothing is written in check mode."""
    before = read(path)
    if before == text:
        return None
    if not module.check_mode:
        if backup and before is not None:
            module.backup_local(str(path))
        if text is None:
            path.unlink()
        else:
            _write(module, path, text)
    return {"before_header": str(path), "after_header": str(path), "before": before or "", "after": text or ""}


def _write(module: AnsibleModule, path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    os.chmod(new, path.stat().st_mode & 0o7777 if path.exists() else 0o644)
    module.atomic_move(str(new), str(path))

"""Ansible lookup: the probe as one executable file, packed on the controller."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path

import ansible.constants  # type: ignore[import-untyped]  # ships no types
from ansible.plugins.lookup import LookupBase  # type: ignore[import-untyped]

DOCUMENTATION = r"""
name: gpu_probe_zipapp
short_description: Pack the GPU probe into one executable file
description:
  - Returns the path of a file on the controller that any Python 3.9 or newer runs.
  - The file lies in Ansible's own temporary directory, which Ansible removes at the end of the run.
author: bimetal
"""

EXAMPLES = r"""
- ansible.builtin.script:
    cmd: "{{ lookup('gpu_probe_zipapp') }}"
    executable: /usr/bin/python3
"""

RETURN = r"""
_raw:
  description: Path of the file.
  type: list
  elements: path
"""

PACKAGE = Path(__file__).parents[1] / "files/gpu_probe"
_MAIN = "import sys\n\nfrom gpu_probe.cli import main\n\nsys.exit(main())\n"
# Before everything that ZIP can date; the same sources give the same bytes, so a second run copies nothing.
_DATE = (1980, 1, 1, 0, 0, 0)


def pack(package: Path) -> bytes:
    """The bytes of a zipapp (PEP 441). Stored, not deflated: zlib's output differs by its version."""
    sources = sorted(path for path in package.iterdir() if path.suffix in (".py", ".csv"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _DATE), _MAIN)
        for path in sources:
            archive.writestr(zipfile.ZipInfo(f"{package.name}/{path.name}", _DATE), path.read_bytes())
    return b"#!/usr/bin/env python3\n" + buffer.getvalue()


def write(content: bytes, folder: Path) -> Path:
    """Write a file named for its content, whole: several forks of Ansible pack at the same time."""
    path = folder / f"gpu_probe-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    return path


class LookupModule(LookupBase):  # type: ignore[misc]  # its base has no types
    """The lookup; it takes no terms."""

    def run(self, terms: list[str], variables: object = None, **_: object) -> list[str]:  # noqa: ARG002 - Ansible's signature
        """Pack, and return the one path."""
        return [str(write(pack(PACKAGE), Path(ansible.constants.DEFAULT_LOCAL_TMP)))]

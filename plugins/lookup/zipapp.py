"""Ansible lookup: a Python package as one executable file, packed on the controller."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path

import ansible.constants  # type: ignore[import-untyped]  # ships no types
from ansible.errors import AnsibleLookupError  # type: ignore[import-untyped]  # as above
from ansible.plugins.lookup import LookupBase  # type: ignore[import-untyped]  # as above

DOCUMENTATION = r"""
name: zipapp
short_description: Pack a Python package into one executable file
description:
  - Returns paths of files on the controller, which any Python that the packages support runs.
  - The files lie in Ansible's own temporary directory, which Ansible removes at the end of the run.
options:
  _terms:
    description:
      - Folders of packages, found as C(ansible.builtin.copy) finds its C(src).
      - Each has a module C(cli) with C(main()), which returns the exit status.
    type: list
    elements: path
    required: true
author: bimetal
"""

EXAMPLES = r"""
- ansible.builtin.script:
    cmd: "{{ lookup('bimetal.cluster.zipapp', 'gpu_probe') }}"
    executable: /usr/bin/python3
"""

RETURN = r"""
_raw:
  description: Paths of the files.
  type: list
  elements: path
"""

_MAIN = "import sys\n\nfrom {package}.cli import main\n\nsys.exit(main())\n"
# Before everything that ZIP can date; the same sources give the same bytes, so a second run copies nothing.
_DATE = (1980, 1, 1, 0, 0, 0)


def pack(package: Path) -> bytes:
    """The bytes of a zipapp (PEP 441). Stored, not deflated: zlib's output differs by its version."""
    sources = sorted(path for path in package.iterdir() if path.suffix in (".py", ".csv"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _DATE), _MAIN.format(package=package.name))
        for path in sources:
            archive.writestr(zipfile.ZipInfo(f"{package.name}/{path.name}", _DATE), path.read_bytes())
    return b"#!/usr/bin/env python3\n" + buffer.getvalue()


def write(name: str, content: bytes, folder: Path) -> Path:
    """Write a file named for its content, whole: several forks of Ansible pack at the same time."""
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    return path


class LookupModule(LookupBase):  # type: ignore[misc]  # its base has no types
    """What Ansible looks for."""

    def run(self, terms: list[str], variables: object = None, **_: object) -> list[str]:
        """Pack each, and return the paths.

        Raises AnsibleLookupError for a folder that is not there.
        """
        return [str(self._packed(term, variables)) for term in terms]

    def _packed(self, term: str, variables: object) -> Path:
        found = self.find_file_in_search_path(variables, "files", term)
        if not found:
            raise AnsibleLookupError(f"There is no package {term}: expected a folder of that name in the role's files.")
        package = Path(found)
        return write(package.name, pack(package), Path(ansible.constants.DEFAULT_LOCAL_TMP))

#!/usr/bin/python
"""Ansible module: a tiny image of the host's own programs, so that a test needs no registry. Standard library only."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: host_image
short_description: Import an image of some of the host's programs and their libraries
description:
  - The image is tagged with the hash of its content, so the same programs give the same image and no change.
options:
  repository:
    description: Name of the image without its tag.
    type: str
    required: true
  programs:
    description: Absolute paths of programs.
    type: list
    elements: str
    required: true
  libraries_of:
    description: Programs whose libraries are put in, and which themselves come from elsewhere; those that are there.
    type: list
    elements: str
    default: []
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.host_image:
    repository: bimetal/smoke
    programs: [/usr/bin/id]
  register: image
"""

RETURN = r"""
image:
  description: Name and tag of the image.
  type: str
  returned: always
"""


def libraries(text: str) -> list[str]:
    """Paths of what `ldd` lists, the loader among them; none for a static program."""
    found = (re.search(r"(?:=> )?(/\S+) \(0x", line) for line in text.splitlines())
    return [match[1] for match in found if match]


def archive(files: list[str]) -> bytes:
    """A tar of the files, links followed; the same bytes for the same content."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        for name in sorted(set(files)):
            content = Path(name).read_bytes()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def collect(module: Module, programs: list[str], others: list[str]) -> list[str]:
    """The programs and the libraries of all of them."""
    files = list(programs)
    for program in [*programs, *(other for other in others if Path(other).exists())]:
        _, output, _ = module.run_command(["ldd", program], environ_update={"LC_ALL": "C"})
        files += libraries(output)
    return files


def main() -> None:
    """Module entry point."""
    names = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "repository": {"type": "str", "required": True},
            "programs": names | {"required": True},
            "libraries_of": names | {"default": []},
        },
        supports_check_mode=True,
    )
    absent = [program for program in module.params["programs"] if not Path(program).exists()]
    if absent:
        module.fail_json(
            msg=f"{', '.join(absent)} is not on this host, and the test's image is made of it: expected a program of"
            " every Linux. Set container_engine_smoke_image to an image that the engine has."
        )
    content = archive(collect(module, module.params["programs"], module.params["libraries_of"]))
    image = f"{module.params['repository']}:{hashlib.sha256(content).hexdigest()[:12]}"
    status, _, _ = module.run_command(["docker", "image", "inspect", image])
    if status == 0 or module.check_mode:
        module.exit_json(changed=status != 0, image=image)
    status, output, errors = module.run_command(["docker", "import", "-", image], data=content, binary_data=True)
    if status != 0:
        module.fail_json(msg=f"The engine could not import {image}: {' '.join(f'{errors} {output}'.split())}.")
    module.exit_json(changed=True, image=image)


if __name__ == "__main__":
    main()

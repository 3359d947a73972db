#!/usr/bin/python
"""Ansible module: dockerd's configuration file, merged and validated. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import daemon_config

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: docker_daemon_config
short_description: Merge values into dockerd's configuration file
description:
  - Reads the file first; one that dockerd could not read is an error that names the line, and nothing is changed.
  - Keeps every key that is not ours, keeps a backup, and has dockerd validate the new file before it takes the old
    one's place, where dockerd can (23.0 or newer).
options:
  path:
    description: The file.
    type: path
    default: /etc/docker/daemon.json
  config:
    description: What the file must say; dictionaries are merged, lists are joined.
    type: dict
    required: true
  argv:
    description: The engine's command line, whose flags may not be repeated in the file.
    type: list
    elements: str
    default: []
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.docker_daemon_config:
    config:
      features: {cdi: true}
"""

RETURN = r"""
config:
  description: What the file says after the change.
  type: dict
  returned: always
action:
  description: What makes a running engine take the change up (none, reload, restart).
  type: str
  returned: always
validated:
  description: Whether dockerd itself accepted the new file; false where it was not asked.
  type: bool
  returned: always
backup_file:
  description: The copy of the file as it was.
  type: str
  returned: when it was replaced
"""


def can_validate(module: Module, dockerd: str | None) -> bool:
    """Whether this dockerd has --validate (23.0 or newer)."""
    if dockerd is None:
        return False
    _, output, _ = module.run_command([dockerd, "--help"], environ_update={"LC_ALL": "C"})
    return "--validate" in output


def validate(module: Module, dockerd: str, file: Path, path: Path) -> None:
    """Have dockerd read the new file; end with its own words when it refuses."""
    status, output, errors = module.run_command(
        [dockerd, "--validate", "--config-file", str(file)], environ_update={"LC_ALL": "C"}
    )
    if status != 0:
        said = " ".join(f"{errors} {output}".split())
        file.unlink()
        module.fail_json(
            msg=f"dockerd refuses what {path} would say: {said}. Nothing was changed. Correct the file, or"
            " container_engine_daemon in the inventory."
        )


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/docker/daemon.json"},
            "config": {"type": "dict", "required": True},
            "argv": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    path, wanted = Path(module.params["path"]), module.params["config"]
    text = path.read_text() if path.exists() else ""
    try:
        before = daemon_config.parse(text, str(path))
    except daemon_config.ConfigError as error:
        module.fail_json(
            msg=f"{error}. Nothing was changed, and the engine was not restarted. Correct that line first:"
            f" `python3 -m json.tool {path}` shows when it is right."
        )
    after = daemon_config.merge(before, wanted)
    if twice := daemon_config.conflicts(module.params["argv"], after):
        module.fail_json(
            msg=f"{', '.join(twice)}: set on dockerd's command line ({' '.join(module.params['argv'])}) and in {path};"
            " dockerd does not start with both. Nothing was changed. Take it out of one of them: `systemctl cat docker`"
            " shows where the flags come from."
        )
    answer = {"changed": after != before, "config": after, "action": daemon_config.action(before, after)}
    if after == before:
        module.exit_json(**answer, validated=False, diff=[])
    dockerd = module.get_bin_path("dockerd")
    validated = not module.check_mode and can_validate(module, dockerd)
    if not module.check_mode:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(daemon_config.render(after))
        os.chmod(new, path.stat().st_mode & 0o7777 if path.exists() else 0o644)
        if validated:
            validate(module, str(dockerd), new, path)
        if path.exists():
            answer["backup_file"] = module.backup_local(str(path))
        module.atomic_move(str(new), str(path))
    diff = {
        "before_header": str(path),
        "after_header": str(path),
        "before": text,
        "after": daemon_config.render(after),
    }
    module.exit_json(**answer, validated=validated, diff=[diff])


if __name__ == "__main__":
    main()

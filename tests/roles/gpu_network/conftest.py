"""The role's modules, with their module_utils importable by the names that Ansible gives them."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROLE = "roles/gpu_network"
UTILITIES = ("network_managers", "firewalls")


@pytest.fixture(scope="session")
def utility(load: Callable[[str], ModuleType]) -> Iterator[Callable[[str], ModuleType]]:
    """A file of the role's module_utils."""
    package = sys.modules.get("ansible.module_utils") or __import__("ansible.module_utils", fromlist=["_"])
    for name in UTILITIES:
        sys.modules[f"ansible.module_utils.{name}"] = loaded = load(f"{ROLE}/module_utils/{name}.py")
        setattr(package, name, loaded)
    yield lambda name: sys.modules[f"ansible.module_utils.{name}"]
    for name in UTILITIES:
        del sys.modules[f"ansible.module_utils.{name}"]
        delattr(package, name)


@pytest.fixture(scope="session")
def filters(load: Callable[[str], ModuleType]) -> ModuleType:
    """The role's filters."""
    return load(f"{ROLE}/filter_plugins/gpu_network.py")


Tool = Callable[[str, str], None]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Put a fake command first on PATH: a shell script's body, by its name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, body: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return make

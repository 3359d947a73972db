"""The role's modules with their module_utils, and hosts whose commands are fakes on PATH."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROLE = "roles/container_engine"
UTILITIES = ("daemon_config",)


@pytest.fixture(scope="session")
def daemon_config(load: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    """The role's module_utils, importable by the name that Ansible gives it."""
    package = sys.modules.get("ansible.module_utils") or __import__("ansible.module_utils", fromlist=["_"])
    for name in UTILITIES:
        sys.modules[f"ansible.module_utils.{name}"] = loaded = load(f"{ROLE}/module_utils/{name}.py")
        setattr(package, name, loaded)
    yield sys.modules["ansible.module_utils.daemon_config"]
    for name in UTILITIES:
        del sys.modules[f"ansible.module_utils.{name}"]
        delattr(package, name)


@pytest.fixture(scope="session")
def library(load: Callable[[str], ModuleType], daemon_config: ModuleType) -> Callable[[str], ModuleType]:
    """A module of the role."""
    assert daemon_config is not None  # loaded before the modules that import it
    return lambda name: load(f"{ROLE}/library/{name}.py")


@pytest.fixture(scope="session")
def filters(load: Callable[[str], ModuleType]) -> ModuleType:
    """The role's filters."""
    return load(f"{ROLE}/filter_plugins/container_engine.py")


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

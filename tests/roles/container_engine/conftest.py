"""The role's modules with their module_utils, and hosts whose commands are fakes on PATH."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

ROLE = "roles/container_engine"


@pytest.fixture(scope="session")
def daemon_config(module_utils: Callable[..., Any]) -> Iterator[ModuleType]:
    """The role's module_utils."""
    with module_utils(ROLE, "daemon_config") as utility:
        yield utility("daemon_config")


@pytest.fixture(scope="session")
def library(load: Callable[[str], ModuleType], daemon_config: ModuleType) -> Callable[[str], ModuleType]:
    """A module of the role."""
    assert daemon_config is not None  # loaded before the modules that import it
    return lambda name: load(f"{ROLE}/library/{name}.py")


@pytest.fixture(scope="session")
def filters(load: Callable[[str], ModuleType]) -> ModuleType:
    """The role's filters."""
    return load(f"{ROLE}/filter_plugins/container_engine.py")

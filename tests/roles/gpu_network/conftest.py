"""The role's modules, with their module_utils importable by the names that Ansible gives them."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

ROLE = "roles/gpu_network"


@pytest.fixture(scope="session")
def utility(module_utils: Callable[..., Any]) -> Iterator[Callable[[str], ModuleType]]:
    """A file of the role's module_utils."""
    with module_utils(ROLE, "network_managers", "firewalls") as by_name:
        yield by_name


@pytest.fixture(scope="session")
def filters(load: Callable[[str], ModuleType]) -> ModuleType:
    """The role's filters."""
    return load(f"{ROLE}/filter_plugins/gpu_network.py")

"""The roles' modules, with their module_utils importable by the names that Ansible gives them."""

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import yaml

ROLE = "roles/nvidia_driver"
# In the order in which they import each other.
UTILITIES = ("driver_versions", "driver_packages", "driver_host", "driver_record", "apt_sources")

Json = dict[str, Any]


@pytest.fixture(scope="session")
def utility(
    module_utils: Callable[..., contextlib.AbstractContextManager[Callable[[str], ModuleType]]],
) -> Iterator[Callable[[str], ModuleType]]:
    """A file of the role's module_utils."""
    with module_utils(ROLE, *UTILITIES) as found:
        yield found


@pytest.fixture(scope="session")
def library(load: Callable[[str], ModuleType], utility: Callable[[str], ModuleType]) -> Callable[[str], ModuleType]:
    """A module of the role."""
    assert utility is not None  # loaded before the modules that import them
    return lambda name: load(f"{ROLE}/library/{name}.py")


@pytest.fixture(scope="session")
def data(project: Any) -> Json:
    """All data files of the role, as one dictionary."""
    values: Json = {}
    for path in sorted((project / ROLE / "vars/main").glob("*.yml")):
        values |= yaml.safe_load(path.read_text())
    return values

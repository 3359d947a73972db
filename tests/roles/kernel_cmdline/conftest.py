"""The role's modules, with its module_utils importable by the name that Ansible gives them."""

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

ROLE = "roles/kernel_cmdline"
UTILITIES = ("kernel_cmdline", "grub_defaults", "config_file")


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

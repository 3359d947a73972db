"""The role's data."""

from typing import Any

import pytest
import yaml

ROLE = "roles/nvidia_driver"

Json = dict[str, Any]


@pytest.fixture(scope="session")
def data(project: Any) -> Json:
    """All data files of the role, as one dictionary."""
    values: Json = {}
    for path in sorted((project / ROLE / "vars/main").glob("*.yml")):
        values |= yaml.safe_load(path.read_text())
    return values

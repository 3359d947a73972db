"""What a wheel holds: the editable install of a checkout would not miss a folder that is left out."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_package_is_in_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "router").rglob("__init__.py")}
    assert found <= set(listed)
    assert set(listed) - found == {"images", "model_repo"}

"""What each role says about itself."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROLES = sorted(file.parents[1].name for file in (Path(__file__).parents[2] / "roles").glob("*/tasks/main.yml"))


def options(project: Path, role: str) -> dict[str, dict[str, Any]]:
    spec = yaml.safe_load((project / "roles" / role / "meta/argument_specs.yml").read_text())
    main: dict[str, dict[str, Any]] = spec["argument_specs"]["main"]["options"]
    return main


def defaults(project: Path, role: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((project / "roles" / role / "defaults/main.yml").read_text())
    return values


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_has_a_default_or_is_required_and_is_specified(project: Path, role: str) -> None:
    specified = options(project, role)
    required = {name for name, option in specified.items() if option.get("required")}
    assert set(defaults(project, role)) == set(specified) - required


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_has_the_table_of_variables_that_the_specification_gives(project: Path, role: str) -> None:
    readme = (project / "roles" / role / "README.md").read_text()
    rows = [line.split(" | ") for line in readme.splitlines() if line.startswith("| `" + role + "_")]
    table = {row[0].strip("| `"): row[3].strip("| ") for row in rows}
    assert table == {name: option["description"] for name, option in options(project, role).items()}


@pytest.mark.parametrize("role", ROLES)
def test_the_readme_says_what_the_role_will_not_do_and_the_reboot_risk(project: Path, role: str) -> None:
    readme = (project / "roles" / role / "README.md").read_text()
    assert [word for word in ("**It configures**", "**It will not**", "**Reboot risk:**") if word not in readme] == []
